import type { Clock, Timer } from "../base/clock.ts";
import { assertNever, messageOf } from "../base/errors.ts";
import { FailureLog, LogLimit } from "../base/failure-log.ts";
import type { Logger } from "../base/logger.ts";
import type { ProxyOptions } from "../config/options.ts";
import type { Nft } from "../kernel/nft.ts";
import { type CostlyTable, costlyTables, costlyTablesAdvice } from "../kernel/others-sets.ts";
import { driftText } from "../sync/drift-summary.ts";
import { type Drift, DriftWatcher } from "../sync/drift-watcher.ts";
import type { ForeignChange, KernelWatch } from "../sync/kernel-watch.ts";
import type { NodeContextReader } from "../sync/node-context.ts";
import { PeriodicTask } from "../sync/periodic-task.ts";
import { QUARANTINE_RETRY } from "../sync/quarantine.ts";
import type { SyncLoop } from "../sync/sync-loop.ts";
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
  readonly watch: KernelWatch;
  /** Applies nothing: the kernel never has the desired rules, so it is not watched. */
  readonly dryRun: boolean;
}

/** Polling intervals of the tables and of the chains, milliseconds: where the kernel tells of changes, and where it does not. */
const PERIODS = { watched: { tables: 10_000, chains: 60_000 }, polled: { tables: 300, chains: 10_000 } };

/** Drift so soon after the last repair, milliseconds, comes from something that changes our rules again and again. */
const SOON = 10_000;

/** So many repairs of it in a row are made at once. Each further one waits, twice as long as the one before. Milliseconds. */
const PROMPT_REPAIRS = 5;
const FIRST_PAUSE = 1000;
const LONGEST_PAUSE = 30_000;

/** Between two looks at the sets of other software, milliseconds. */
const OTHERS_PERIOD = 600_000;

/** Does what is due from time to time, and has drift repaired: what reads the kernel and the host while nothing changes. */
export class Upkeep {
  readonly #parts: UpkeepParts;
  readonly #watcher: DriftWatcher;
  readonly #periodic: PeriodicTask[] = [];
  readonly #driftLines = new LogLimit();
  /** Repairs of drift that came soon after the one before. */
  #repairsInARow = 0;
  /** When the last repair was due, on the monotonic clock. */
  #lastRepair = Number.NEGATIVE_INFINITY;
  /** A repair that waits. */
  #repair: Timer | undefined;
  readonly #hostFailures: FailureLog;
  #costlyTables: readonly CostlyTable[] = [];
  #hasToldOfOthers = false;

  constructor(parts: UpkeepParts) {
    const { nft, clock, logger, loop, watch } = parts;
    const periods = () => (watch.isTrusted ? PERIODS.watched : PERIODS.polled);
    this.#parts = parts;
    this.#hostFailures = new FailureLog(
      logger,
      clock,
      "cannot read the addresses of this host, retrying",
      "the addresses of this host can be read again",
    );
    this.#watcher = new DriftWatcher({
      nft,
      clock,
      logger,
      expected: () => loop.expectation,
      onDrift: (drift) => this.#onDrift(drift),
      tablesPeriodMs: () => periods().tables,
      chainsPeriodMs: () => periods().chains,
    });
  }

  /** The tables of other software that slow transactions down, as of the last look. */
  get costlyTables(): readonly CostlyTable[] {
    return this.#costlyTables;
  }

  /** Begins. */
  start(): void {
    const { options, loop, verifier, dryRun } = this.#parts;
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
    this.#watcher.start();
    verifier.start({
      onDifferences: (found) => this.#onDrift({ kind: "elements", found: driftText(found) }),
      onUnreadable: (reason) => this.#onDrift({ kind: "unreadable", reason }),
    });
    this.#every(
      () => options().fullResyncPeriodMs,
      async () => loop.requestFullSync("periodic"),
    );
  }

  /** Ends. */
  stop(): void {
    this.#watcher.stop();
    this.#parts.watch.stop();
    this.#parts.verifier.stop();
    this.#repair?.cancel();
    for (const task of this.#periodic) task.stop();
  }

  /** Takes over changed periods, and reads the host again for what else changed. */
  optionsChanged(): void {
    for (const task of this.#periodic) task.periodChanged();
    void this.#maintain();
  }

  /** Repairs what somebody else changed. */
  foreign({ deletedTables: missing, author }: ForeignChange): void {
    this.#onDrift(missing.length > 0 ? { kind: "tables", missing, author } : { kind: "commit", author });
  }

  /** Looks for tables of other software that slow transactions down, and logs the first that it finds. */
  async #lookAtOthers(): Promise<void> {
    const { nft, logger } = this.#parts;
    const tables = await costlyTables(nft).catch(() => []);
    this.#costlyTables = tables;
    if (this.#hasToldOfOthers || tables.length === 0) return;
    this.#hasToldOfOthers = true;
    const times = tables.map(({ table, ms }) => `${table}: ${ms} ms`);
    const action = costlyTablesAdvice(tables);
    logger.warn({ tables: times, action }, "sets of other software slow down changes of both IP families");
  }

  #onDrift(drift: Drift): void {
    if (this.#repair !== undefined) return;
    const { clock, loop } = this.#parts;
    const pause = this.#nextPause(clock.monotonic());
    this.#logDrift(drift, pause);
    if (pause === 0) {
      loop.requestFullSync("drift", true);
      return;
    }
    this.#repair = clock.after(pause, () => {
      this.#repair = undefined;
      loop.requestFullSync("drift", true);
    });
  }

  /** How long to wait before the next repair: two programs that undo each other's rules must not take a node's processors. */
  #nextPause(now: number): number {
    this.#repairsInARow = now - this.#lastRepair < SOON ? this.#repairsInARow + 1 : 0;
    const further = this.#repairsInARow - PROMPT_REPAIRS;
    const pause = further < 0 ? 0 : Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** further);
    this.#lastRepair = now + pause;
    return pause;
  }

  #logDrift(drift: Drift, pause: number): void {
    const { logger, clock } = this.#parts;
    const mayLog = this.#driftLines.fields(clock.monotonic());
    if (mayLog === undefined) return;
    const hint = "something changes our rules again and again: repairs are delayed";
    const limit = pause === 0 ? mayLog : { hint, delaySeconds: pause / 1000, ...mayLog };
    switch (drift.kind) {
      case "tables":
        logger.warn({ tables: drift.missing, ...byOf(drift.author), ...limit }, "tables missing: rebuilding");
        break;
      case "commit":
        logger.warn({ ...byOf(drift.author), ...limit }, "rules changed by someone else: repairing");
        break;
      case "chain":
        logger.warn({ chain: drift.chain, ...limit }, "chain changed by someone else: repairing");
        break;
      case "elements":
        logger.warn({ found: drift.found, ...limit }, "rules differ from the desired state: repairing");
        break;
      case "unreadable":
        logger.warn({ error: drift.reason, ...limit }, "something in our tables is not understood: rebuilding");
        break;
      default:
        assertNever(drift);
    }
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

function byOf(author: string | undefined): { readonly by?: string } {
  return author === undefined ? {} : { by: author };
}
