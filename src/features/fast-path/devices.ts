import { FailureLog } from "../../base/failure-log.ts";
import { PeriodicTask } from "../../base/periodic-task.ts";
import { one } from "../../base/sample.ts";
import { counted } from "../../base/text.ts";
import { loggedReading } from "../../kernel/logged-reading.ts";
import { NftRefusedError } from "../../kernel/nft-errors.ts";
import { listFlowtables } from "../../kernel/nft-listings.ts";
import type { Command } from "../../nft/ast/json.ts";
import type { Table } from "../../nft/ast/ruleset.ts";
import { flowtableDevices } from "../../nft/canonical/parse.ts";
import { flowtableAddition, flowtableReplacement } from "../../nft/transaction.ts";
import type { DaemonPart, FeatureCard, FeatureHost, FinishedSync } from "../seam/daemon-part.ts";
import { type FastPathInterfaces, type InterfaceReader, interfaceReader } from "./interfaces.ts";

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
 * 6.16 the kernel refuses one with a deleted interface, which must not delay Services.
 */
export class FastPathDevices implements DaemonPart {
  readonly #host: DevicesHost;
  readonly #interfaces: InterfaceReader;
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
  /** The sets of features whose elements break connections. */
  #breaking: readonly string[] = [];

  /** @param interfaces reads the interfaces that the flow tables should have */
  constructor(host: DevicesHost, interfaces = interfaceReader(host)) {
    this.#host = host;
    this.#interfaces = interfaces;
    this.#failures = new FailureLog(
      host,
      "add this host's interfaces to the flow tables",
      ", retrying: their connections do not take the fast path",
    );
  }

  readonly metrics = {
    nft_proxy_fast_path_interfaces: {
      kind: "gauge",
      help: "Network interfaces between which established connections take the fast path",
      samples: () => one(this.#count),
    },
  } satisfies DaemonPart["metrics"];

  card(): FeatureCard {
    return {
      title: "Fast path",
      tone: this.#count === 0 ? "idle" : "good",
      value: counted(this.#count, "interface"),
      lines: [
        "counters and other software's rules do not see the connections between them once they are established",
      ],
      list: [],
    };
  }

  /** Number of devices in the flow tables; 0 if unknown. */
  get #count(): number {
    return this.#current?.length ?? 0;
  }

  /** Stops. The flow tables stay. */
  stop(): void {
    this.#stopped = true;
    this.#task?.stop();
  }

  /**
   * A repair may have recreated the flow tables without devices.
   * Connections that rules of features break must leave the fast path, on which no rule sees them.
   */
  synced({ deltas, repaired, nodeContext }: FinishedSync): void {
    if (
      repaired !== undefined ||
      deltas.some(({ objects }) => objects.some(({ kind, after }) => kind === "flowtable" && after))
    )
      this.#current = undefined;
    const parts = nodeContext.flatMap(({ features }) => features);
    this.#breaking = parts.flatMap(({ breaksConnections, ownSet }) => (breaksConnections && ownSet) || []);
    const isBreaking = deltas.some(({ elements }) =>
      elements.some(({ spec, added }) => this.#breaking.includes(spec.name) && added.length > 0),
    );
    if (isBreaking) this.#renewal = "always";
    if (!this.#stopped)
      this.#task ??= new PeriodicTask(this.#host.clock, INTERFACES_PERIOD, () => this.#poll());
  }

  async #poll(): Promise<void> {
    const add = (reason: string) => {
      this.#current = undefined;
      if (!this.#stopped) this.#failures.add(reason);
    };
    await loggedReading({ add, end: () => this.#failures.end() }, () => this.#keep());
  }

  async #keep(): Promise<void> {
    const { clock, betweenSyncs } = this.#host;
    const wanted = this.#devicesOf(await this.#interfaces());
    const isComparisonDue = clock.monotonic() - this.#comparedAt >= COMPARISON_PERIOD;
    if (!isComparisonDue && this.#renewal === undefined && this.#current?.join() === wanted.join()) return;
    // Under steady changes, there is rarely a moment at which no sync is due.
    await betweenSyncs(async (tables) => {
      this.#comparedAt = clock.monotonic();
      if (await this.#repair(Object.values(tables), wanted)) this.#current = wanted;
    });
  }

  /** Adds and removes devices. @returns whether the flow tables now have the wanted ones */
  async #repair(tables: readonly Table[], wanted: readonly string[]): Promise<boolean> {
    const { nft } = this.#host;
    const listed = flowtableDevices(await listFlowtables(nft));
    const renewal = this.#renewal;
    const commands: Command[] = [];
    for (const table of tables) {
      const actual = listed[table.family];
      // A missing flow table is drift, which is repaired elsewhere.
      if (actual === undefined) return false;
      commands.push(...deviceCommands(table, wanted, actual, renewal, this.#breaking));
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
      this.#host.logger.warn(
        fields,
        "too many interfaces for a flow table; choose some with fastPathInterfaces",
      );
      this.#isLimitLogged = true;
    }
    return devices;
  }

  async #isOutdated(wanted: readonly string[]): Promise<boolean> {
    const { devices } = await this.#interfaces();
    return wanted.some((name) => !devices.includes(name));
  }
}

/** What it uses of the daemon. */
type DevicesHost = Pick<FeatureHost, "nft" | "clock" | "logger" | "files" | "settings" | "betweenSyncs">;

function deviceCommands(
  table: Table,
  wanted: readonly string[],
  actual: readonly string[],
  renewal: "if-wrong" | "always" | undefined,
  breaking: readonly string[],
): readonly Command[] {
  const gone = actual.filter((name) => !wanted.includes(name));
  const missing = wanted.filter((name) => !actual.includes(name));
  const breaks = breaking.some((name) => (table.sets.get(name)?.elements.size ?? 0) > 0);
  const isWrong = renewal === "if-wrong" && (gone.length > 0 || breaks);
  const isDue = renewal === "always" || isWrong || gone.length > MOST_GONE;
  if (isDue) return flowtableReplacement(table, wanted);
  return flowtableAddition(table, missing);
}
