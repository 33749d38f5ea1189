import type { Clock } from "../base/clock.ts";
import { messageOf } from "../base/errors.ts";
import { FailureLog } from "../base/failure-log.ts";
import type { Logger } from "../base/logger.ts";
import type { FastPathInterfaces, InterfaceReader } from "../kernel/interfaces.ts";
import type { Nft } from "../kernel/nft.ts";
import { NftRefusedError, NftStoppedError } from "../kernel/nft-errors.ts";
import { listFlowtables } from "../kernel/nft-listings.ts";
import type { Command } from "../nft/ast/json.ts";
import type { Ruleset, Table } from "../nft/ast/ruleset.ts";
import { flowtableDevices, readListing } from "../nft/canonical/parse.ts";
import { flowtableAddition, flowtableReplacement } from "../nft/transaction.ts";
import { VANISHED } from "../ruleset/sets.ts";
import { PeriodicTask } from "../sync/periodic-task.ts";
import type { SyncReport, SyncSubscriber } from "../sync/sync-report.ts";

/** Parts of {@link FastPathDevices}. */
export interface FastPathDevicesParts {
  readonly nft: Nft;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Reads the interfaces that the flow tables should have. */
  readonly interfaces: InterfaceReader;
  /** The ruleset that the kernel should have; undefined while a sync is due or under way. */
  readonly expected: () => Ruleset | undefined;
}

/** How often the host's interfaces are read. Until it is in a flow table, an interface's packets take the long way. */
const INTERFACES_PERIOD = 2_000;
/** How often the devices in the kernel are compared with them, 5 ms of CPU (nft 1.1.3): somebody may take one out. */
const COMPARISON_PERIOD = 10_000;
/** How many of the interfaces for which there is no room are named in the log. */
const MOST_NAMED = 10;
/**
 * So many interfaces that are gone may stay in a flow table before it is made anew: kernels since 6.16 keep their names, for
 * the next interface of this name.
 */
const MOST_GONE = 64;

/**
 * Keeps the host's network interfaces in the flow tables, by transactions of their own: before 6.16 the kernel refuses a
 * transaction with an interface that has just gone, and no Service is to wait for that. By polling, as everything that
 * happens to the host.
 */
export class FastPathDevices implements SyncSubscriber {
  readonly #parts: FastPathDevicesParts;
  readonly #failures: FailureLog;
  #task: PeriodicTask | undefined;
  #stopped = false;
  /** The devices that the flow tables have; undefined when that is not known. */
  #current: readonly string[] | undefined;
  #comparedAt = 0;
  /** The flow tables are to be made anew: at the start if they have devices by earlier options, and that all leave them. */
  #renewal: "if-wrong" | "always" | undefined = "if-wrong";
  #isLimitLogged = false;

  constructor(parts: FastPathDevicesParts) {
    const { logger, clock } = parts;
    this.#parts = parts;
    this.#failures = new FailureLog(
      logger,
      clock,
      "cannot put this host's interfaces into the flow tables, retrying: their connections take the long way",
      "this host's interfaces are in the flow tables",
    );
  }

  /** The number of devices that the flow tables have; 0 while that is not known. */
  get count(): number {
    return this.#current?.length ?? 0;
  }

  /** Begins to follow the host's interfaces. */
  start(): void {
    this.#task = new PeriodicTask(
      this.#parts.clock,
      () => INTERFACES_PERIOD,
      () => this.#poll(),
    );
  }

  /** Does nothing more. The flow tables stay. */
  stop(): void {
    this.#stopped = true;
    this.#task?.stop();
  }

  /**
   * A full sync that found differences, and a repair, may have made the flow tables anew, without devices. Connections to endpoints that
   * vanished must leave the fast path, on which no rule sees them: then the rules reset them.
   */
  synced({ kind, deltas, repaired }: SyncReport): void {
    if (repaired !== undefined || (kind === "full" && deltas.length > 0)) this.#current = undefined;
    const vanish = deltas.some(({ elements }) =>
      elements.some(({ spec, added }) => spec.name === VANISHED && added.length > 0),
    );
    if (vanish) this.#renewal = "always";
  }

  async #poll(): Promise<void> {
    try {
      await this.#keep();
      this.#failures.end();
    } catch (error) {
      this.#current = undefined;
      if (this.#stopped || error instanceof NftStoppedError) return;
      this.#failures.add(messageOf(error));
    }
  }

  async #keep(): Promise<void> {
    const { clock, interfaces } = this.#parts;
    const wanted = this.#devicesOf(await interfaces());
    const isComparisonDue = clock.monotonic() - this.#comparedAt >= COMPARISON_PERIOD;
    if (!isComparisonDue && this.#renewal === undefined && this.#current?.join() === wanted.join()) return;
    const ruleset = this.#parts.expected();
    if (ruleset === undefined) return;
    this.#comparedAt = clock.monotonic();
    if (await this.#repair(Object.values(ruleset), wanted)) this.#current = wanted;
  }

  /** @returns whether the flow tables have the devices now */
  async #repair(tables: readonly Table[], wanted: readonly string[]): Promise<boolean> {
    const { nft } = this.#parts;
    const listed = flowtableDevices(readListing(await listFlowtables(nft)));
    const renewal = this.#renewal;
    const commands: Command[] = [];
    for (const table of tables) {
      const actual = listed[table.family];
      // Without a flow table our table is not as it should be, which the drift watcher notices.
      if (actual === undefined) return false;
      commands.push(...deviceCommands(table, wanted, actual, renewal));
    }
    try {
      // One that is asked for from now on is done later.
      this.#renewal = undefined;
      if (commands.length > 0) await nft.apply({ nftables: commands });
      return true;
    } catch (error) {
      this.#renewal ??= renewal;
      // An interface that is gone meanwhile: the next poll knows.
      if (error instanceof NftRefusedError && !this.#failures.isFailing && (await this.#isOutdated(wanted)))
        return false;
      throw error;
    }
  }

  #devicesOf({ devices, excluded }: FastPathInterfaces): readonly string[] {
    if (excluded.length > 0 && !this.#isLimitLogged) {
      const fields = { most: devices.length, excluded: excluded.length, such: excluded.slice(0, MOST_NAMED) };
      this.#parts.logger.warn(
        fields,
        "too many interfaces for a flow table; choose some by fastPathInterfaces",
      );
      this.#isLimitLogged = true;
    }
    return devices;
  }

  async #isOutdated(wanted: readonly string[]): Promise<boolean> {
    const { devices } = await this.#parts.interfaces();
    return wanted.some((name) => !devices.includes(name));
  }
}

function deviceCommands(
  table: Table,
  wanted: readonly string[],
  actual: readonly string[],
  renewal: "if-wrong" | "always" | undefined,
): readonly Command[] {
  const gone = actual.filter((name) => !wanted.includes(name));
  const missing = wanted.filter((name) => !actual.includes(name));
  const isDue =
    renewal === "always" || (renewal === "if-wrong" && gone.length > 0) || gone.length > MOST_GONE;
  if (isDue) return flowtableReplacement(table, wanted);
  return flowtableAddition(table, missing);
}
