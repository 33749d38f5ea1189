import type { Clock, Timer } from "../base/clock.ts";
import { AppError, messageOf } from "../base/errors.ts";
import { FailureLog } from "../base/failure-log.ts";
import type { ByFamily } from "../base/family.ts";
import type { Logger } from "../base/logger.ts";
import type { Flow, FlowTable } from "../kernel/conntrack.ts";
import type { ServiceName } from "../model/ids.ts";
import { familyOf } from "../model/ip.ts";
import type { DrainingEndpoints } from "./draining-endpoints.ts";
import {
  isStale,
  type NodeAddresses,
  type UdpFrontends,
  type UdpServicePorts,
  withRemoved,
} from "./stale-flows.ts";

/** The part of a sync report that concerns changed Services. */
interface SyncedServices {
  readonly kind: "nothing" | "partial" | "full";
  readonly rendered: ReadonlySet<ServiceName>;
  /** Drift that the sync repaired; undefined for none. */
  readonly repaired: object | undefined;
}

/**
 * Returns a subscriber that deletes stale UDP flows: after each sync that changed a Service with a UDP port,
 * after each end of a drain timeout, and after each full sync or repair. Flows that began while rules were
 * missing stay untranslated as long as their clients keep sending.
 * @param now the monotonic clock, milliseconds
 */
export function staleFlowSubscriber(
  ports: UdpServicePorts,
  cleaner: Pick<StaleFlowCleaner, "clean">,
  draining: Pick<DrainingEndpoints, "nextDueAfter">,
  now: () => number,
) {
  let lastAt = Number.NEGATIVE_INFINITY;
  return {
    synced({ kind, rendered, repaired }: SyncedServices): void {
      const isChanged = ports.update(rendered);
      const dueAt = draining.nextDueAfter(lastAt) ?? Number.POSITIVE_INFINITY;
      lastAt = now();
      if (isChanged || dueAt <= lastAt || kind === "full" || repaired !== undefined) void cleaner.clean();
    },
  };
}

/** The result of a cleaning. */
export interface CleaningReport {
  readonly deleted: ByFamily<number>;
  /** Milliseconds. */
  readonly duration: number;
}

/** Parts of a {@link StaleFlowCleaner}. */
export interface StaleFlowCleanerParts {
  readonly table: FlowTable;
  /** Returns the UDP frontends of the current objects, never older than those in the kernel. */
  readonly frontends: () => UdpFrontends;
  /** The addresses of this node that serve NodePorts, of both families: see {@link nodePortHosts}. */
  readonly nodePortHosts: () => Promise<ReadonlySet<string>>;
  /** The addresses of this node at which ranges of ports are not served: see {@link hostsWithoutRanges}. */
  readonly hostsWithoutRanges: () => Promise<ReadonlySet<string>>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Called after each successful cleaning. */
  readonly onCleaned: (report: CleaningReport) => void;
}

/** Maximum of stale flows kept in memory before they are deleted. */
const FLOWS_AT_ONCE = 5000;

/**
 * Milliseconds until a failed cleaning is repeated, doubled after each further failure. Short, because
 * clients wait for it.
 */
const RETRY = 1000;
const MAX_RETRY = 60_000;

const HINT =
  "UDP clients may keep sending to endpoints that are gone; needs conntrack (conntrack-tools) and NET_ADMIN";

/**
 * Deletes UDP flows that no longer lead to an endpoint. Cleanings never overlap; of those requested during
 * one, only the last is done. A cleaning that failed, or after which deleted flows still exist, is repeated
 * until it succeeds.
 */
export class StaleFlowCleaner {
  readonly #parts: StaleFlowCleanerParts;
  /** All frontends since the last successful cleaning. Flows to those that no longer exist are stale. */
  #known = new Set<string>();
  /** The addresses that have served NodePorts since then. */
  #formerHosts: ReadonlySet<string> = new Set();
  #next: UdpFrontends | undefined;
  #underWay: Promise<void> | undefined;
  #retry: Timer | undefined;
  /** Failed cleanings since the last successful one. */
  #failed = 0;
  readonly #failures: FailureLog;

  constructor(parts: StaleFlowCleanerParts) {
    this.#parts = parts;
    this.#failures = new FailureLog(
      parts,
      "cannot delete stale UDP flows",
      "stale UDP flows are deleted again",
    );
  }

  /** Cleans now, or after the current cleaning. Resolves when no cleaning is pending. Never rejects. */
  clean(): Promise<void> {
    this.#next = this.#parts.frontends();
    for (const key of this.#next.keys()) this.#known.add(key);
    this.#underWay ??= this.#drain();
    return this.#underWay;
  }

  async #drain(): Promise<void> {
    for (let wanted = this.#take(); wanted !== undefined; wanted = this.#take())
      await this.#cleanOnce(wanted);
    this.#underWay = undefined;
  }

  #take(): UdpFrontends | undefined {
    const next = this.#next;
    this.#next = undefined;
    return next;
  }

  async #cleanOnce(wanted: UdpFrontends): Promise<void> {
    const { clock, onCleaned } = this.#parts;
    const known = this.#known;
    if (known.size === 0) return;
    this.#known = new Set(wanted.keys());
    this.#retry?.cancel();
    const startedAt = clock.monotonic();
    try {
      const deleted = await this.#deleteStale(wanted, known);
      this.#failed = 0;
      this.#failures.end();
      onCleaned({ deleted, duration: clock.monotonic() - startedAt });
    } catch (error) {
      for (const key of known) this.#known.add(key);
      this.#failures.add(messageOf(error), { hint: HINT });
      this.#retry = clock.after(Math.min(MAX_RETRY, RETRY * 2 ** this.#failed++), () => void this.clean());
    }
  }

  /** @throws AppError HOST when flows cannot be listed or deleted, or are still there afterwards */
  async #deleteStale(wanted: UdpFrontends, known: ReadonlySet<string>): Promise<ByFamily<number>> {
    const { table, nodePortHosts, hostsWithoutRanges, logger } = this.#parts;
    const [serving, withoutRanges] = [await nodePortHosts(), await hostsWithoutRanges()];
    const hosts = { serving, withoutRanges, former: this.#formerHosts };
    this.#formerHosts = new Set([...hosts.former, ...hosts.serving]);
    const judgement = { wanted, known, hosts };
    const ids = new Set<number>();
    const deleted = { ip: 0, ip6: 0 };
    await this.#eachStale(judgement, async (flows) => {
      for (const { id, client } of flows) {
        ids.add(id);
        deleted[familyOf(client.address)]++;
      }
      await table.expireFlows(flows).catch((error: unknown) => {
        logger.debug(
          { error: messageOf(error) },
          "cannot end all stale UDP flows at once, deleting them by kind",
        );
      });
    });
    const left = { ...judgement, ids };
    const isLeft = ids.size > 0 && (await this.#eachStale(left, (flows) => table.deleteFlowsLike(flows))) > 0;
    if (isLeft && (await this.#eachStale(left, async () => {})) > 0)
      throw new AppError("HOST", "conntrack reports success, but the flows are still there");
    this.#formerHosts = hosts.serving;
    return deleted;
  }

  /** Calls `take` for the stale flows of the table, up to 5000 at a time. @returns their number */
  async #eachStale(
    { wanted, known, hosts, ids }: Judgement,
    take: (flows: readonly Flow[]) => Promise<void>,
  ): Promise<number> {
    const { table, frontends } = this.#parts;
    let count = 0;
    const pass = async (flows: readonly Flow[]): Promise<void> => {
      if (flows.length === 0) return;
      // Syncs continue while the table is listed. Flows to endpoints added meanwhile are not stale.
      const current = withRemoved(frontends(), known);
      const stale = flows.filter((flow) => isStale(flow, current, hosts));
      count += stale.length;
      if (stale.length > 0) await take(stale);
    };
    const listed = withRemoved(wanted, known);
    const found: Flow[] = [];
    for await (const flow of table.udpFlows()) {
      if (ids?.has(flow.id) !== false && isStale(flow, listed, hosts)) found.push(flow);
      if (found.length === FLOWS_AT_ONCE) await pass(found.splice(0));
    }
    await pass(found);
    return count;
  }
}

/** The facts that decide whether a flow is stale. */
interface Judgement {
  readonly wanted: UdpFrontends;
  readonly known: ReadonlySet<string>;
  readonly hosts: NodeAddresses;
  /** The kernel's ids of the flows to consider; all flows if absent. */
  readonly ids?: ReadonlySet<number>;
}
