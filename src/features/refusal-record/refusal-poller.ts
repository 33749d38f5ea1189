import { FailureLog } from "../../base/failure-log.ts";
import { FAMILY_NAMES } from "../../base/family.ts";
import { firstSorted } from "../../base/first-sorted.ts";
import { addToCount, addToGroup, addToSet } from "../../base/group-by.ts";
import { PeriodicTask } from "../../base/periodic-task.ts";
import type { Sample } from "../../base/sample.ts";
import { counted, socketText } from "../../base/text.ts";
import { ValuesByName } from "../../base/values-by-name.ts";
import { loggedReading } from "../../kernel/logged-reading.ts";
import type { ServiceName } from "../../model/ids.ts";
import { AllowedClients, type RefusalCause, refusedFrontend } from "../../ruleset/refusal-causes.ts";
import type { DaemonPart, FeatureCard, FeatureHost, Fill } from "../seam/daemon-part.ts";
import type { RefusalEntry, SeenRefusal } from "../seam/refusals.ts";
import { MOST_SERVICES, serviceSeries } from "../seam/service-series.ts";
import { newRefusals, refusalKey, withFirstTimes } from "./refused-set.ts";
import { sizeOf } from "./rules.ts";

/** What a {@link RefusalPoller} needs of the daemon. */
type Host = Pick<FeatureHost, "clock" | "logger" | "cache" | "state" | "nodeContext" | "warn">;

/** Minimum pause between readings. Milliseconds. */
const MIN_PAUSE = 30_000;

/** Minimum ratio of a pause to the time of a reading: 65,536 entries of a family take 3 s of CPU time. */
const PAUSE_RATIO = 50;

/** Minimum time between two Events of one Service. Milliseconds. */
const EVENT_PERIOD = 3_600_000;

/** Reads the refusals that the kernel recorded periodically, counts them, and warns of new ones by Events. */
export class RefusalPoller implements DaemonPart {
  readonly #host: Host;
  readonly #read: () => Promise<readonly RefusalEntry[]>;
  /** Packets by cause. */
  readonly #counts = new ValuesByName<ServiceName, Map<RefusalCause, number>>(MOST_SERVICES, () => new Map());
  /** When each Service was last reported, within the last hour, on the monotonic clock. */
  readonly #reportedAt = new Map<string, number>();
  /** The refusals of the last reading. */
  #recent: readonly SeenRefusal[] | undefined;
  #card: FeatureCard | undefined;
  #polling: Promise<readonly SeenRefusal[]> | undefined;
  #task: PeriodicTask | undefined;
  readonly #failures: FailureLog;
  readonly metrics = {
    nft_proxy_refused_packets_total: {
      kind: "counter",
      help: "Packets of new connections that the rules refused or dropped, by cause",
      labels: ["namespace", "service", "reason"],
      samples: (): readonly Sample[] =>
        serviceSeries(this.#counts).flatMap(([labels, packets]) =>
          [...packets].map(([reason, value]) => ({ labels: { ...labels, reason }, value })),
        ),
    },
  } satisfies DaemonPart["metrics"];

  /** @param read reads the recorded refusals */
  constructor(host: Host, read: () => Promise<readonly RefusalEntry[]>) {
    this.#host = host;
    this.#read = read;
    this.#failures = new FailureLog(host, "read the refused connections");
  }

  /** Starts with the first sync. */
  synced(): void {
    const pause = (took: number) => Math.max(MIN_PAUSE, PAUSE_RATIO * took);
    this.#task ??= new PeriodicTask(this.#host.clock, pause, () => this.poll());
  }

  stop(): void {
    this.#task?.stop();
  }

  /** Undefined before the first reading. */
  card(): FeatureCard | undefined {
    return this.#card;
  }

  fills(): readonly Fill[] {
    return this.#host.nodeContext().map(({ family, settings }) => ({
      what: `Recorded refusals, ${FAMILY_NAMES[family]}`,
      used: this.#recent?.filter((entry) => entry.family === family).length,
      limit: sizeOf(settings),
    }));
  }

  /**
   * Reads once. The first reading reports nothing, as an earlier process reported older refusals. Never
   * rejects.
   */
  async poll(): Promise<void> {
    await loggedReading(this.#failures, () => this.refusals());
  }

  /**
   * Reads once, but one at a time: overlapping readings would count packets twice.
   * @returns the recorded refusals, with the times of their first packets
   * @throws AppError as nft does
   */
  refusals(): Promise<readonly SeenRefusal[]> {
    this.#polling ??= this.#pollOnce().finally(() => {
      this.#polling = undefined;
    });
    return this.#polling;
  }

  async #pollOnce(): Promise<readonly SeenRefusal[]> {
    const entries = await this.#read();
    if (this.#recent !== undefined) this.#tell(newRefusals(this.#recent, entries));
    this.#recent = withFirstTimes(entries, this.#recent, this.#host.clock.now());
    this.#card = cardOf(entries);
    return this.#recent;
  }

  #tell(entries: readonly RefusalEntry[]): void {
    const { families } = this.#host.state();
    const refused = new Map<ServiceName, RefusalEntry[]>();
    const reasons = new Map<ServiceName, Set<string>>();
    const allowed = new AllowedClients();
    for (const entry of entries) {
      const state = families[entry.family];
      if (state === undefined) continue;
      const { port, cause, message } = refusedFrontend(state, entry, allowed);
      addToCount(this.#counts.of(port?.service.name), cause, entry.packets);
      if (port === undefined) continue;
      addToGroup(refused, port.service.name, entry);
      addToSet(reasons, port.service.name, message);
    }
    const now = this.#host.clock.monotonic();
    for (const [name, at] of this.#reportedAt) if (now - at >= EVENT_PERIOD) this.#reportedAt.delete(name);
    for (const [service, some] of refused) this.#tellService(service, some, reasons.get(service) ?? []);
  }

  #tellService(service: ServiceName, refused: readonly RefusalEntry[], reasons: Iterable<string>): void {
    if (this.#reportedAt.has(service)) return;
    this.#reportedAt.set(service, this.#host.clock.monotonic());
    const { packets, clients } = totals(refused);
    const what = `${packets} of ${clients}: ${[...reasons].sort().join(", ")}`;
    const note = `node ${this.#host.cache.node.name}, and possibly others, refused or dropped ${what}; run \`nft-proxy refusals\` there to list clients`;
    // The first node reports it.
    this.#host.warn(service, { reason: "ConnectionsRefused", action: "Refuse", note, clusterKey: "" });
  }
}

function totals(entries: readonly RefusalEntry[]) {
  const packets = entries.reduce((sum, one) => sum + one.packets, 0);
  const clients = new Set(entries.map(({ client }) => client)).size;
  return { packets: counted(packets, "packet"), clients: counted(clients, "client") };
}

/** Maximum number of refusals that the card names. */
const MOST_LATEST = 5;

/** Sums up the refusals of the last hour. There may be 131,072. */
function cardOf(entries: readonly RefusalEntry[]): FeatureCard {
  const title = "Refusals";
  if (entries.length === 0)
    return { title, tone: "good", value: "none", lines: ["in the last hour"], list: [] };
  const { packets, clients } = totals(entries);
  const destinations = new Set(entries.map(destinationOf)).size;
  const latest = firstSorted(entries, MOST_LATEST, latestFirst);
  return {
    title,
    tone: "idle",
    value: packets,
    lines: [
      `to ${counted(destinations, "destination")}, of ${clients}`,
      "in the last hour; nft-proxy refusals, on this node, lists the reasons",
    ],
    list: latest.map((one) => `${one.client} to ${destinationOf(one)}`),
  };
}

/** `10.96.0.10:80/tcp` */
function destinationOf({ address, port, protocol }: RefusalEntry): string {
  return `${socketText(address, port)}/${protocol}`;
}

/**
 * Orders the later packet first. The kernel lists entries in no order, so equal times are ordered by text.
 */
function latestFirst(entry: RefusalEntry): string {
  return `${String(entry.silentFor).padStart(9, "0")} ${refusalKey(entry)}`;
}
