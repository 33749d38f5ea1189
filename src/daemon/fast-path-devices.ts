import type { Clock } from "../base/clock.ts";
import { messageOf } from "../base/errors.ts";
import { FailureLog } from "../base/failure-log.ts";
import type { Logger } from "../base/logger.ts";
import { PeriodicTask } from "../base/periodic-task.ts";
import { FEATURES } from "../features/registry.ts";
import type { FastPathInterfaces, InterfaceReader } from "../kernel/interfaces.ts";
import type { Nft } from "../kernel/nft.ts";
import { NftRefusedError, NftStoppedError } from "../kernel/nft-errors.ts";
import { listFlowtables } from "../kernel/nft-listings.ts";
import type { Command } from "../nft/ast/json.ts";
import type { Table } from "../nft/ast/ruleset.ts";
import { flowtableDevices, readListing } from "../nft/canonical/parse.ts";
import { flowtableAddition, flowtableReplacement } from "../nft/transaction.ts";
import type { SyncLoop } from "../sync/sync-loop.ts";
import type { SyncReport, SyncSubscriber } from "../sync/sync-report.ts";

/** Parts of {@link FastPathDevices}. */
export interface FastPathDevicesParts {
  readonly nft: Nft;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Reads the interfaces that the flow tables should have. */
  readonly interfaces: InterfaceReader;
  readonly loop: Pick<SyncLoop, "given" | "between">;
}

/**
 * Interval at which the host's interfaces are read. A new interface does not use the fast path until then.
 * Milliseconds.
 */
const INTERFACES_PERIOD = 2_000;

/**
 * Interval at which the devices in the kernel are compared with the interfaces, as other programs may remove
 * one. Takes 5 ms of CPU (nft 1.1.3). Milliseconds.
 */
const COMPARISON_PERIOD = 10_000;

/** Maximum number of excluded interfaces that the log names. */
const MOST_NAMED = 10;

/**
 * Maximum number of deleted interfaces in a flow table before it is recreated. Since Linux 6.16, the kernel
 * keeps their names for the next interface with the same name.
 */
const MOST_GONE = 64;

/**
 * Keeps the host's network interfaces in the flow tables. Its transactions are separate, because before Linux
 * 6.16 the kernel refuses one with a deleted interface, which must not delay Services. It polls the
 * interfaces, as the daemon does for all changes of the host.
 */
export class FastPathDevices implements SyncSubscriber {
  readonly #parts: FastPathDevicesParts;
  readonly #failures: FailureLog;
  #task: PeriodicTask | undefined;
  #stopped = false;
  /** The devices in the flow tables; undefined if unknown. */
  #current: readonly string[] | undefined;
  #comparedAt = 0;
  /**
   * Whether to recreate the flow tables: at the start if they have devices of earlier options, or connections
   * that are to be reset (an earlier process may have ended in between); and always to remove all connections
   * from the fast path.
   */
  #renewal: "if-wrong" | "always" | undefined = "if-wrong";
  #isLimitLogged = false;

  constructor(parts: FastPathDevicesParts) {
    this.#parts = parts;
    this.#failures = new FailureLog(
      parts,
      "cannot add this host's interfaces to the flow tables, retrying: their connections do not take the fast path",
      "this host's interfaces are in the flow tables again",
    );
  }

  /** Number of devices in the flow tables; 0 if unknown. */
  get count(): number {
    return this.#current?.length ?? 0;
  }

  /** Starts to follow the host's interfaces. */
  start(): void {
    this.#task = new PeriodicTask(this.#parts.clock, INTERFACES_PERIOD, () => this.#poll());
  }

  /** Stops. The flow tables stay. */
  stop(): void {
    this.#stopped = true;
    this.#task?.stop();
  }

  /**
   * A repair, or a full sync that found differences, may have recreated the flow tables without devices.
   * Connections that rules of features break must leave the fast path, on which no rule sees them.
   */
  synced({ kind, deltas, repaired }: SyncReport): void {
    if (repaired !== undefined || (kind === "full" && deltas.length > 0)) this.#current = undefined;
    const isBreaking = deltas.some(({ elements }) =>
      elements.some(({ spec, added }) => BREAKING_SETS.has(spec.name) && added.length > 0),
    );
    if (isBreaking) this.#renewal = "always";
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
    const { clock, interfaces, loop } = this.#parts;
    const wanted = this.#devicesOf(await interfaces());
    const isComparisonDue = clock.monotonic() - this.#comparedAt >= COMPARISON_PERIOD;
    if (!isComparisonDue && this.#renewal === undefined && this.#current?.join() === wanted.join()) return;
    // Under steady changes, there is rarely a moment at which no sync is due.
    await loop.between(async () => {
      const { given } = loop;
      if (given === undefined) return;
      this.#comparedAt = clock.monotonic();
      if (await this.#repair(Object.values(given), wanted)) this.#current = wanted;
    });
  }

  /** Adds and removes devices. @returns whether the flow tables now have the wanted ones */
  async #repair(tables: readonly Table[], wanted: readonly string[]): Promise<boolean> {
    const { nft } = this.#parts;
    const listed = flowtableDevices(readListing(await listFlowtables(nft)));
    const renewal = this.#renewal;
    const commands: Command[] = [];
    for (const table of tables) {
      const actual = listed[table.family];
      // A missing flow table is drift, which is repaired elsewhere.
      if (actual === undefined) return false;
      commands.push(...deviceCommands(table, wanted, actual, renewal));
    }
    try {
      // A renewal requested from now on applies to the next run.
      this.#renewal = undefined;
      if (commands.length > 0) await nft.apply({ nftables: commands });
      return true;
    } catch (error) {
      this.#renewal ??= renewal;
      // An interface was deleted in the meantime. The next poll omits it.
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
        "too many interfaces for a flow table; choose some with fastPathInterfaces",
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

/** The sets of features whose elements break connections. */
const BREAKING_SETS: ReadonlySet<string> = new Set(
  FEATURES.flatMap(({ ruleset }) => (ruleset?.breaksConnections ? (ruleset.ownSet ?? []) : [])),
);

function deviceCommands(
  table: Table,
  wanted: readonly string[],
  actual: readonly string[],
  renewal: "if-wrong" | "always" | undefined,
): readonly Command[] {
  const gone = actual.filter((name) => !wanted.includes(name));
  const missing = wanted.filter((name) => !actual.includes(name));
  const breaks = [...BREAKING_SETS].some((name) => (table.sets.get(name)?.elements.size ?? 0) > 0);
  const isWrong = renewal === "if-wrong" && (gone.length > 0 || breaks);
  const isDue = renewal === "always" || isWrong || gone.length > MOST_GONE;
  if (isDue) return flowtableReplacement(table, wanted);
  return flowtableAddition(table, missing);
}
