import type { Clock } from "../base/clock.ts";
import { FailureLog } from "../base/failure-log.ts";
import type { Logger } from "../base/logger.ts";
import { systemErrorCode } from "../kernel/host.ts";
import { type ReservedPortFiles, reservePorts } from "../kernel/reserved-ports.ts";
import { parseFrontendKey } from "../ruleset/keys.ts";
import type { RulesetState } from "../ruleset/ruleset-state.ts";
import { LISTS, NO_ENDPOINTS } from "../ruleset/sets.ts";
import type { SyncReport, SyncSubscriber } from "../sync/sync-report.ts";

/** What a {@link ReservedPortsSubscriber} needs. */
export interface ReservedPortsParts {
  /** `--reserve-nodeports`; off means that what was reserved before is taken back. */
  readonly isWanted: () => boolean;
  readonly files: ReservedPortFiles;
  readonly logger: Logger;
  readonly clock: Clock;
}

/**
 * Keeps the NodePorts reserved: an outgoing connection that took one for its own port would get no answers.
 * Source: https://github.com/kubernetes/kubernetes/issues/111682
 */
export class ReservedPortsSubscriber implements SyncSubscriber {
  readonly #parts: ReservedPortsParts;
  /** The ports of the last attempt in one text. */
  #last = "";
  readonly #failures: FailureLog;
  #queue: Promise<void> = Promise.resolve();

  constructor(parts: ReservedPortsParts) {
    this.#parts = parts;
    const { logger, clock } = parts;
    this.#failures = new FailureLog(
      logger,
      clock,
      "cannot reserve NodePorts; retrying",
      "NodePorts are reserved again",
    );
  }

  synced({ state, kind }: SyncReport): void {
    const wanted = this.#parts.isWanted() ? nodePortsOf(state) : new Set<number>();
    const text = [...wanted].sort((a, b) => a - b).join();
    // Others may have changed the list meanwhile: a full sync looks at it again.
    if (text === this.#last && kind !== "full" && !this.#failures.isFailing) return;
    this.#last = text;
    this.#queue = this.#queue.then(() => this.#reserve(wanted));
  }

  /** Resolves when nothing is under way any more. */
  idle(): Promise<void> {
    return this.#queue;
  }

  async #reserve(wanted: ReadonlySet<number>): Promise<void> {
    const { files, logger } = this.#parts;
    try {
      if (await reservePorts(wanted, files)) logger.info({ ports: wanted.size }, "reserved NodePorts");
      this.#failures.end();
    } catch (error) {
      const hint = "ip_local_reserved_ports must be writable: run privileged in the host's network namespace";
      this.#failures.add(systemErrorCode(error), { hint });
    }
  }
}

/** The NodePorts of both families and all protocols, with and without endpoints. */
function nodePortsOf(state: RulesetState): Set<number> {
  const ports = new Set<number>();
  for (const family of Object.values(state.families)) {
    for (const set of [LISTS, NO_ENDPOINTS]) {
      for (const key of family.table.sets.get(set)?.elements.keys() ?? []) {
        const { address, port } = parseFrontendKey(key);
        if (address === undefined) ports.add(port);
      }
    }
  }
  return ports;
}
