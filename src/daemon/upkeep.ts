import type { Timer } from "../base/clock.ts";
import { messageOf } from "../base/errors.ts";
import { FailureLog } from "../base/failure-log.ts";
import { PeriodicTask } from "../base/periodic-task.ts";
import type { ProxyOptions } from "../config/options.ts";
import { type CostlyTable, costlyTablesAdvice, costlyTableText } from "../kernel/others-sets.ts";
import { QUARANTINE_RETRY } from "../sync/quarantine.ts";
import type { DaemonInput } from "./daemon-input.ts";
import type { Proxier } from "./proxier.ts";

/** Wait for further changes of the host, which often come together. Milliseconds. */
const SETTLING = 200;

/** Interval between two counts of the sets of other software. Milliseconds. */
const OTHERS_PERIOD = 600_000;

/**
 * Reads the host's addresses when they changed. Runs periodic tasks: deletes stale chains, retries
 * quarantined Services, counts foreign sets.
 */
export class Upkeep {
  readonly #input: DaemonInput;
  readonly #options: () => ProxyOptions;
  readonly #proxier: Proxier;
  readonly #periodic: PeriodicTask[] = [];
  readonly #onAddresses: (addresses: readonly string[]) => void;
  readonly #hostFailures: FailureLog;
  #hostTimer: Timer | undefined;
  #costlyTables: readonly CostlyTable[] = [];
  #isLogged = false;

  /**
   * @param options returns the current options
   * @param onAddresses called with all addresses of the host after they were read
   */
  constructor(
    input: DaemonInput,
    options: () => ProxyOptions,
    proxier: Proxier,
    onAddresses: (addresses: readonly string[]) => void,
  ) {
    this.#input = input;
    this.#options = options;
    this.#proxier = proxier;
    this.#onAddresses = onAddresses;
    this.#hostFailures = new FailureLog(
      { logger: input.logger, clock: input.system.clock },
      "cannot read the addresses of this host, retrying",
      "the addresses of this host can be read again",
    );
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
    this.#hostTimer?.cancel();
    for (const task of this.#periodic) task.stop();
  }

  /** Applies changed periods, and reads the host again. */
  optionsChanged(): void {
    for (const task of this.#periodic) task.periodChanged();
    void this.#readHost();
  }

  /** Reads the host again soon. */
  hostChanged(): void {
    this.#hostTimer ??= this.#input.system.clock.after(SETTLING, () => {
      this.#hostTimer = undefined;
      void this.#readHost();
    });
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

  /** Deletes stale chains. Reads the host if that failed before, or nothing tells of its changes. */
  async #maintain(): Promise<void> {
    const { dryRun } = this.#input;
    if (dryRun || this.#hostFailures.isFailing) await this.#readHost();
    if (!dryRun) await this.#proxier.loop.deleteStaleChains();
    this.#proxier.loop.requestIfContextChanged();
  }

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

  #every(period: number | (() => number), action: () => Promise<void>): void {
    this.#periodic.push(new PeriodicTask(this.#input.system.clock, period, action));
  }
}
