import { PeriodicTask } from "../base/periodic-task.ts";
import type { ProxyOptions } from "../config/options.ts";
import { type CostlyTable, costlyTablesAdvice, costlyTableText } from "../kernel/others-sets.ts";
import { QUARANTINE_RETRY } from "../sync/quarantine.ts";
import type { DaemonInput } from "./daemon-input.ts";
import type { HostChanges } from "./host-changes.ts";
import type { Proxier } from "./proxier.ts";

/** Interval between two counts of the sets of other software. Milliseconds. */
const OTHERS_PERIOD = 600_000;

/** Runs periodic tasks: deletes stale chains, retries quarantined Services, counts foreign sets. */
export class Upkeep {
  readonly #input: DaemonInput;
  readonly #options: () => ProxyOptions;
  readonly #proxier: Proxier;
  readonly #host: HostChanges;
  readonly #periodic: PeriodicTask[] = [];
  #costlyTables: readonly CostlyTable[] = [];
  #isLogged = false;

  /** @param options returns the current options */
  constructor(input: DaemonInput, options: () => ProxyOptions, proxier: Proxier, host: HostChanges) {
    this.#input = input;
    this.#options = options;
    this.#proxier = proxier;
    this.#host = host;
  }

  /** The tables of other software that slow transactions down, as last counted. */
  get costlyTables(): readonly CostlyTable[] {
    return this.#costlyTables;
  }

  start(): void {
    const syncPeriod = () => this.#options().syncPeriodMs;
    this.#every(syncPeriod, () => this.#maintain());
    this.#every(QUARANTINE_RETRY, async () => this.#proxier.loop.retryRefused());
    if (this.#input.dryRun) return;
    this.#every(OTHERS_PERIOD, () => this.#countOthers());
  }

  stop(): void {
    for (const task of this.#periodic) task.stop();
  }

  /** Applies changed periods. */
  periodChanged(): void {
    for (const task of this.#periodic) task.periodChanged();
  }

  /** Finds tables of other software that slow transactions down, and logs the first that it finds. */
  async #countOthers(): Promise<void> {
    const { nft, system, logger } = this.#input;
    const tables = await system.costlyTables(nft).catch(() => []);
    this.#costlyTables = tables;
    if (this.#isLogged || tables.length === 0) return;
    this.#isLogged = true;
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
