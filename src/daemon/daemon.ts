import type { Clock } from "../base/clock.ts";
import { assertNever, messageOf } from "../base/errors.ts";
import { FailureLog, LogLimit } from "../base/failure-log.ts";
import type { Logger } from "../base/logger.ts";
import type { ProxyOptions } from "../config/options.ts";
import type { Nft } from "../kernel/nft.ts";
import type { ObjectSource } from "../kube/source.ts";
import type { BoundedFrequencyRunner, SyncInterval } from "../sync/bounded-frequency-runner.ts";
import type { CurrentOptions } from "../sync/current-options.ts";
import { driftText } from "../sync/drift-summary.ts";
import { type Drift, DriftWatcher } from "../sync/drift-watcher.ts";
import type { NodeContextReader } from "../sync/node-context.ts";
import { PeriodicTask } from "../sync/periodic-task.ts";
import { QUARANTINE_RETRY } from "../sync/quarantine.ts";
import type { SyncLoop } from "../sync/sync-loop.ts";
import type { Verifier } from "../sync/verifier.ts";

/** What a daemon is made of. */
export interface DaemonParts {
  readonly options: CurrentOptions;
  readonly nft: Nft;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly source: ObjectSource;
  readonly nodeContext: NodeContextReader;
  readonly runner: BoundedFrequencyRunner;
  readonly loop: SyncLoop;
  readonly verifier: Verifier;
  /** Applies nothing: the kernel never has the desired rules, so it is not watched. */
  readonly dryRun: boolean;
}

/** How often the tables and the chains are looked at, milliseconds. */
const TABLES_PERIOD = 300;
const CHAINS_PERIOD = 10_000;

/** Retries of a failed sync: soon at first, as the cause may be a passing one. */
const FIRST_RETRY = 500;
const MAX_RETRY = 30_000;

/** Runs the service proxy: follows the source, syncs, watches for drift. Stopping it leaves the rules in the kernel. */
export class Daemon {
  readonly #parts: DaemonParts;
  readonly #watcher: DriftWatcher;
  readonly #periodic: PeriodicTask[] = [];
  readonly #driftLines = new LogLimit();
  readonly #hostFailures: FailureLog;

  constructor(parts: DaemonParts) {
    const { nft, clock, logger, loop } = parts;
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
      tablesPeriodMs: TABLES_PERIOD,
      chainsPeriodMs: CHAINS_PERIOD,
    });
  }

  /** Begins to follow the source and to program the kernel. */
  start(): void {
    const { options, source, loop, verifier, dryRun } = this.#parts;
    loop.start();
    source.start();
    this.#every(
      () => options.value.syncPeriodMs,
      () => this.#maintain(),
    );
    this.#every(
      () => QUARANTINE_RETRY,
      async () => loop.retryRefused(),
    );
    if (dryRun) return;
    this.#watcher.start();
    verifier.start({
      onDifferences: (found) => this.#onDrift({ kind: "elements", found: driftText(found) }),
      onUnreadable: (reason) => this.#onDrift({ kind: "unreadable", reason }),
    });
    this.#every(
      () => options.value.fullResyncPeriodMs,
      async () => loop.requestFullSync("periodic"),
    );
  }

  /** Stops everything; the rules stay. Resolves when the current sync has ended, which reads the kernel no further. */
  async stop(): Promise<void> {
    this.#parts.source.stop();
    this.#watcher.stop();
    this.#parts.verifier.stop();
    for (const task of this.#periodic) task.stop();
    const ended = this.#parts.loop.stop();
    this.#parts.nft.stopReading();
    await ended;
  }

  /** Takes over options that are safe to change while running (see config/reload.ts). */
  setOptions(next: ProxyOptions): void {
    const { options, runner, loop } = this.#parts;
    options.set(next);
    runner.setInterval(syncInterval(next));
    for (const task of this.#periodic) task.periodChanged();
    void this.#maintain();
    loop.request();
  }

  #onDrift(drift: Drift): void {
    this.#logDrift(drift);
    this.#parts.loop.requestFullSync("drift", true);
  }

  #logDrift(drift: Drift): void {
    const { logger, clock } = this.#parts;
    const limit = this.#driftLines.fields(clock.monotonic());
    if (limit === undefined) return;
    switch (drift.kind) {
      case "tables":
        logger.warn({ tables: drift.missing, ...limit }, "tables missing: rebuilding");
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

/** The interval between syncs that the options ask for; adaptive when they leave it open. */
export function syncInterval({ minSyncPeriodMs }: ProxyOptions): SyncInterval {
  return {
    minPeriodMs: minSyncPeriodMs === 0 ? "adaptive" : minSyncPeriodMs,
    firstRetryMs: FIRST_RETRY,
    maxRetryMs: MAX_RETRY,
  };
}
