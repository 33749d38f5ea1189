import { PeriodicTask } from "../base/periodic-task.ts";
import type { ProxyOptions } from "../config/options.ts";
import { DriftRepair } from "../drift/drift-repair.ts";
import { KernelEvents } from "../drift/kernel-events.ts";
import { Verifier } from "../drift/verifier.ts";
import { type CostlyTable, costlyTablesAdvice, costlyTableText } from "../kernel/others-sets.ts";
import { QUARANTINE_RETRY } from "../sync/quarantine.ts";
import type { SyncSubscriber } from "../sync/sync-report.ts";
import type { DaemonInput } from "./daemon-input.ts";
import { HostChanges } from "./host-changes.ts";
import type { Proxier } from "./proxier.ts";

/** Interval between two counts of the sets of other software. Milliseconds. */
const OTHERS_PERIOD = 600_000;

/**
 * Keeps the rules right while no object changes. Follows the kernel's notifications: has changes by other
 * programs repaired, and reads the host's addresses again. Runs periodic tasks: compares everything, deletes
 * stale chains, retries quarantined Services, counts foreign sets.
 */
export class Upkeep {
  readonly verifier: Verifier;
  readonly #events: KernelEvents;
  readonly #repair: DriftRepair;
  readonly #input: DaemonInput;
  readonly #options: () => ProxyOptions;
  readonly #proxier: Proxier;
  readonly #periodic: PeriodicTask[] = [];
  readonly #host: HostChanges;
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
    const events = new KernelEvents({ listen, ownCommits, clock, logger });
    const verifier = new Verifier({ tables, events, clock, logger, reconciler, maxPeriodMs, onVerified });
    this.verifier = verifier;
    this.#events = events;
    this.#repair = new DriftRepair({ clock, logger, loop, verifier, reconciler });
    this.#input = input;
    this.#options = options;
    this.#proxier = proxier;
    this.#host = new HostChanges(input, proxier, onAddresses);
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
    this.#every(QUARANTINE_RETRY, async () => this.#proxier.loop.retryRefused());
    if (this.#input.dryRun) return;
    this.#every(OTHERS_PERIOD, () => this.#countOthers());
    const repair = this.#repair;
    this.#events.start({
      onCommit: (commit) => void repair.committed(commit),
      needsOwnElements: () => repair.needsOwnElements,
      onHostChange: () => this.#host.changed(),
      onBegun: () => {
        this.verifier.compareNow();
        this.#host.changed();
      },
    });
    this.verifier.start({
      onDifferences: (found) => repair.drifted({ kind: "differences", found }),
      onUnreadable: (reason) => repair.drifted({ kind: "unreadable", reason }),
    });
    const resyncPeriod = () => this.#options().fullResyncPeriodMs;
    this.#every(resyncPeriod, () => repair.fullResync("periodic"));
  }

  stop(): void {
    this.#host.stop();
    for (const task of this.#periodic) task.stop();
    this.#events.stop();
    this.verifier.stop();
    this.#repair.stop();
  }

  /** Applies changed periods, and reads the host again. */
  optionsChanged(): void {
    for (const task of this.#periodic) task.periodChanged();
    void this.#host.read();
  }

  /** Finds tables of other software that slow transactions down, and logs the first that it finds. */
  async #countOthers(): Promise<void> {
    const { nft, system, logger } = this.#input;
    const tables = await system.costlyTables(nft).catch(() => []);
    this.#costlyTables = tables;
    if (this.#areCostlyLogged || tables.length === 0) return;
    this.#areCostlyLogged = true;
    const counts = tables.map(costlyTableText);
    const action = costlyTablesAdvice(tables);
    logger.warn({ tables: counts, action }, "sets of other software slow down changes of both IP families");
  }

  /** Deletes stale chains. Reads the host after a failure, and in a dry run, which gets no notifications. */
  async #maintain(): Promise<void> {
    const { dryRun } = this.#input;
    const { loop } = this.#proxier;
    if (dryRun || this.#host.isFailing) await this.#host.read();
    if (!dryRun) await loop.deleteStaleChains();
    loop.requestIfContextChanged();
  }

  #every(period: number | (() => number), action: () => Promise<void>): void {
    this.#periodic.push(new PeriodicTask(this.#input.system.clock, period, action));
  }
}
