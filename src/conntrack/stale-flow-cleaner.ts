import { messageOf } from "../base/errors.ts";
import type { ByFamily } from "../base/family.ts";
import type { Logger } from "../base/logger.ts";
import type { FlowTable } from "../kernel/conntrack.ts";
import { staleGroups, type UdpFrontends, withRemoved } from "./stale-flows.ts";

/** What one cleaning did. */
export interface CleaningReport {
  readonly deleted: ByFamily<number>;
  /** Milliseconds. */
  readonly duration: number;
}

/** What the cleaner needs. */
export interface StaleFlowCleanerOptions {
  readonly table: FlowTable;
  /** The addresses of this node that serve NodePorts, of both families. */
  readonly nodeAddresses: () => Promise<ReadonlySet<string>>;
  /** Wall clock, milliseconds. */
  readonly now: () => number;
  readonly logger: Logger;
  /** Called after each successful cleaning. */
  readonly onCleaned: (report: CleaningReport) => void;
}

/**
 * Deletes UDP flows that no longer lead to an endpoint: to be called after every sync in which a UDP service port
 * changed, the first included. Cleanings never overlap; of those requested during one, only the last is done.
 */
export class StaleFlowCleaner {
  readonly #options: StaleFlowCleanerOptions;
  #previous: UdpFrontends = new Map();
  #next: UdpFrontends | undefined;
  #underWay: Promise<void> | undefined;
  #warned = "";

  constructor(options: StaleFlowCleanerOptions) {
    this.#options = options;
  }

  /** Cleans, now or after the current cleaning; resolves when no cleaning is left to do. Never rejects. */
  clean(frontends: UdpFrontends): Promise<void> {
    this.#next = frontends;
    this.#underWay ??= this.#drain();
    return this.#underWay;
  }

  async #drain(): Promise<void> {
    for (let wanted = this.#take(); wanted !== undefined; wanted = this.#take()) await this.#cleanOnce(wanted);
    this.#underWay = undefined;
  }

  #take(): UdpFrontends | undefined {
    const next = this.#next;
    this.#next = undefined;
    return next;
  }

  async #cleanOnce(wanted: UdpFrontends): Promise<void> {
    const { table, nodeAddresses, now, onCleaned } = this.#options;
    const frontends = withRemoved(wanted, this.#previous);
    if (frontends.size === 0) return;
    const startedAt = now();
    try {
      const deleted = await table.deleteFlows(await staleGroups(table.udpFlows(), frontends, await nodeAddresses()));
      this.#previous = wanted;
      this.#warned = "";
      onCleaned({ deleted, duration: now() - startedAt });
    } catch (error) {
      this.#warn(error);
    }
  }

  /** Warns once for each reason: a host without the program stays without it. */
  #warn(error: unknown): void {
    const reason = messageOf(error);
    if (reason === this.#warned) return;
    this.#warned = reason;
    const hint =
      "UDP clients may keep sending to endpoints that are gone; needs conntrack (conntrack-tools) and NET_ADMIN";
    this.#options.logger.warn({ error: reason, hint }, "cannot delete stale UDP flows");
  }
}
