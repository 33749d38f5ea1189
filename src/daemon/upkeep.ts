import type { Timer } from "../base/clock.ts";
import { messageOf } from "../base/errors.ts";
import { FailureLog } from "../base/failure-log.ts";
import { PeriodicTask } from "../base/periodic-task.ts";
import type { ProxyOptions } from "../config/options.ts";
import { DriftRepair } from "../drift/drift-repair.ts";
import { KernelEvents } from "../drift/kernel-events.ts";
import { Verifier } from "../drift/verifier.ts";
import { type CostlyTable, costlyTablesAdvice, costlyTableText } from "../kernel/others-sets.ts";
import { QUARANTINE_RETRY_PERIOD } from "../sync/quarantine.ts";
import type { SyncSubscriber } from "../sync/sync-report.ts";
import type { DaemonInput } from "./daemon-input.ts";
import type { Proxier } from "./proxier.ts";

/** Wait for further changes of the host, which often come together. Milliseconds. */
const HOST_SETTLING = 200;

/** How often to look for costly tables of other software. Milliseconds. */
const COSTLY_TABLES_PERIOD = 600_000;

/**
 * Keeps the rules right while no object changes. Follows the kernel's notifications: has changes by other
 * programs repaired, and reads the host's addresses again. Runs periodic tasks: compares everything, deletes
 * stale chains, retries quarantined Services, looks for costly tables of other software.
 */
export class Upkeep {
  readonly verifier: Verifier;
  readonly #events: KernelEvents;
  readonly #repair: DriftRepair;
  readonly #input: DaemonInput;
  readonly #options: () => ProxyOptions;
  readonly #proxier: Proxier;
  readonly #onAddresses: (addresses: readonly string[]) => void;
  readonly #periodic: PeriodicTask[] = [];
  readonly #hostFailures: FailureLog;
  #hostTimer: Timer | undefined;
  #costlyTables: readonly CostlyTable[] = [];
  #areCostlyLogged = false;

  /**
   * @param options returns the current options
   * @param onAddresses called with all addresses of the host after they were read
   * @param onVerified called with the time at which our tables were correct, milliseconds since 1970
   */
  constructor(
    input: DaemonInput,
    options: () => ProxyOptions,
    proxier: Proxier,
    onAddresses: (addresses: readonly string[]) => void,
    onVerified: (at: number) => void,
  ) {
    const { ownCommits, tables, logger, system } = input;
    const { clock, listenToKernel: listen } = system;
    const { loop, reconciler } = proxier;
    const maxPeriodMs = () => options().fullResyncPeriodMs;
    const events = new KernelEvents({
      ...{ listen, ownCommits, clock, logger },
      onCommit: (commit) => void this.#repair.committed(commit),
      needsElementsOfOwnCommits: () => this.#repair.needsElementsOfOwnCommits,
      onHostChange: () => this.#readHostSoon(),
      onListening: () => {
        this.verifier.compareNow();
        this.#readHostSoon();
      },
    });
    const verifier = new Verifier({
      ...{ tables, events, clock, logger, reconciler, maxPeriodMs, onVerified },
      onDifferences: (found) => this.#repair.foundDifferences(found),
      onUnreadable: (reason) => this.#repair.foundUnreadable(reason),
    });
    this.verifier = verifier;
    this.#events = events;
    this.#repair = new DriftRepair({ clock, logger, loop, verifier, reconciler });
    this.#input = input;
    this.#options = options;
    this.#proxier = proxier;
    this.#onAddresses = onAddresses;
    this.#hostFailures = new FailureLog(
      { logger, clock },
      "cannot read the addresses of this host, retrying",
      "the addresses of this host can be read again",
    );
  }

  /** The tables of other software that slow transactions down, as last counted. */
  get costlyTables(): readonly CostlyTable[] {
    return this.#costlyTables;
  }

  /** Those to which syncs must be reported. */
  get subscribers(): readonly SyncSubscriber[] {
    return [this.verifier, this.#repair];
  }

  start(): void {
    const syncPeriod = () => this.#options().syncPeriodMs;
    this.#every(syncPeriod, () => this.#maintain());
    this.#every(QUARANTINE_RETRY_PERIOD, async () => this.#proxier.loop.retryRefused());
    // A dry run changes nothing, so there is nothing to repair.
    if (this.#input.dryRun) return;
    this.#every(COSTLY_TABLES_PERIOD, () => this.#findCostlyTables());
    this.#events.start();
    this.verifier.start();
    const resyncPeriod = () => this.#options().fullResyncPeriodMs;
    this.#every(resyncPeriod, () => this.#repair.fullResync("periodic"));
  }

  stop(): void {
    this.#hostTimer?.cancel();
    for (const task of this.#periodic) task.stop();
    this.#events.stop();
    this.verifier.stop();
    this.#repair.stop();
  }

  /** Applies changed periods. Reads the host again, because other addresses may serve NodePorts now. */
  optionsChanged(): void {
    for (const task of this.#periodic) task.periodChanged();
    void this.#readHost();
  }

  #readHostSoon(): void {
    this.#hostTimer ??= this.#input.system.clock.after(HOST_SETTLING, () => {
      this.#hostTimer = undefined;
      void this.#readHost();
    });
  }

  /** Reads the host's addresses, and requests a sync if rules depend on a change. Never rejects. */
  async #readHost(): Promise<void> {
    const { nodeContext, loop } = this.#proxier;
    try {
      await nodeContext.refresh();
      this.#onAddresses(nodeContext.host.local);
      this.#hostFailures.end();
    } catch (error) {
      this.#hostFailures.add(messageOf(error));
    }
    loop.requestIfContextChanged();
  }

  /** Finds tables of other software that slow transactions down, and logs the first that it finds. */
  async #findCostlyTables(): Promise<void> {
    const { nft, system, logger } = this.#input;
    const tables = await system.costlyTables(nft).catch(() => []);
    this.#costlyTables = tables;
    if (this.#areCostlyLogged || tables.length === 0) return;
    this.#areCostlyLogged = true;
    const counts = tables.map(costlyTableText);
    const action = costlyTablesAdvice(tables);
    logger.warn({ tables: counts, action }, "sets of other software slow down changes of both IP families");
  }

  /**
   * Deletes stale chains. Reads the host after a failure, and in a dry run, which gets no notifications.
   * Requests a sync if the node context has changed: the addresses of API servers are part of it, and nothing
   * announces new ones.
   */
  async #maintain(): Promise<void> {
    const { dryRun } = this.#input;
    const { loop } = this.#proxier;
    if (dryRun || this.#hostFailures.isFailing) await this.#readHost();
    if (!dryRun) await loop.deleteStaleChains();
    loop.requestIfContextChanged();
  }

  #every(period: number | (() => number), action: () => Promise<void>): void {
    this.#periodic.push(new PeriodicTask(this.#input.system.clock, period, action));
  }
}
