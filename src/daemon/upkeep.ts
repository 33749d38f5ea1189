import type { Clock } from "../base/clock.ts";
import { messageOf } from "../base/errors.ts";
import { FailureLog } from "../base/failure-log.ts";
import type { Logger } from "../base/logger.ts";
import type { ProxyOptions } from "../config/options.ts";
import type { Nft } from "../kernel/nft.ts";
import { type CostlyTable, costlyTables, costlyTablesAdvice } from "../kernel/others-sets.ts";
import type { DriftRepair } from "../sync/drift-repair.ts";
import type { KernelEvents } from "../sync/kernel-events.ts";
import type { NodeContextReader } from "../sync/node-context.ts";
import { PeriodicTask } from "../sync/periodic-task.ts";
import { QUARANTINE_RETRY } from "../sync/quarantine.ts";
import type { SyncLoop } from "../sync/sync-loop.ts";
import { TableWatcher } from "../sync/table-watcher.ts";
import type { Verifier } from "../sync/verifier.ts";

/** What an {@link Upkeep} needs. */
export interface UpkeepParts {
  /** Those in force. */
  readonly options: () => ProxyOptions;
  readonly nft: Nft;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly nodeContext: NodeContextReader;
  readonly loop: SyncLoop;
  readonly verifier: Verifier;
  readonly events: KernelEvents;
  readonly repair: DriftRepair;
  /** Applies nothing: the kernel never has the desired rules, so it is not watched. */
  readonly dryRun: boolean;
}

/** Between two looks at the sets of other software, milliseconds. */
const OTHERS_PERIOD = 600_000;

/** Does what is due from time to time, and looks for drift: what reads the kernel and the host while nothing changes. */
export class Upkeep {
  readonly #parts: UpkeepParts;
  readonly #watcher: TableWatcher;
  readonly #periodic: PeriodicTask[] = [];
  readonly #hostFailures: FailureLog;
  #costlyTables: readonly CostlyTable[] = [];
  #hasToldOfOthers = false;

  constructor(parts: UpkeepParts) {
    const { nft, clock, logger, loop, events, repair } = parts;
    this.#parts = parts;
    this.#hostFailures = new FailureLog(
      logger,
      clock,
      "cannot read the addresses of this host, retrying",
      "the addresses of this host can be read again",
    );
    this.#watcher = new TableWatcher({
      nft,
      clock,
      logger,
      given: () => loop.given,
      isTold: () => events.isTrusted,
      onMissing: (missing) => repair.drifted({ kind: "tables", missing }),
    });
  }

  /** The tables of other software that slow transactions down, as of the last look. */
  get costlyTables(): readonly CostlyTable[] {
    return this.#costlyTables;
  }

  /** Begins. */
  start(): void {
    const { options, loop, verifier, events, repair, dryRun } = this.#parts;
    this.#every(
      () => options().syncPeriodMs,
      () => this.#maintain(),
    );
    this.#every(
      () => QUARANTINE_RETRY,
      async () => loop.retryRefused(),
    );
    if (dryRun) return;
    this.#every(
      () => OTHERS_PERIOD,
      () => this.#lookAtOthers(),
    );
    events.start();
    this.#watcher.start();
    verifier.start({
      onDifferences: (found) => repair.drifted({ kind: "differences", found }),
      onUnreadable: (reason) => repair.drifted({ kind: "unreadable", reason }),
    });
    this.#every(
      () => options().fullResyncPeriodMs,
      () => repair.compareAll("periodic"),
    );
  }

  /** Ends. */
  stop(): void {
    this.#watcher.stop();
    this.#parts.events.stop();
    this.#parts.verifier.stop();
    this.#parts.repair.stop();
    for (const task of this.#periodic) task.stop();
  }

  /** Takes over changed periods, and reads the host again for what else changed. */
  optionsChanged(): void {
    for (const task of this.#periodic) task.periodChanged();
    void this.#maintain();
  }

  /** Looks for tables of other software that slow transactions down, and logs the first that it finds. */
  async #lookAtOthers(): Promise<void> {
    const { nft, clock, logger } = this.#parts;
    const tables = await costlyTables(nft, clock).catch(() => []);
    this.#costlyTables = tables;
    if (this.#hasToldOfOthers || tables.length === 0) return;
    this.#hasToldOfOthers = true;
    const times = tables.map(({ table, ms }) => `${table}: ${ms} ms`);
    const action = costlyTablesAdvice(tables);
    logger.warn({ tables: times, action }, "sets of other software slow down changes of both IP families");
  }

  /** Deletes stale chains and reads the host again, whose addresses may have changed. */
  async #maintain(): Promise<void> {
    const { nodeContext, loop, dryRun } = this.#parts;
    try {
      await nodeContext.refresh();
      this.#hostFailures.end();
    } catch (error) {
      this.#hostFailures.add(messageOf(error));
    }
    if (!dryRun) await loop.deleteStaleChains();
    loop.requestIfContextChanged();
  }

  #every(period: () => number, action: () => Promise<void>): void {
    this.#periodic.push(new PeriodicTask(this.#parts.clock, period, action));
  }
}
