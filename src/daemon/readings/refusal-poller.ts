import type { Clock } from "../../base/clock.ts";
import { FailureLog } from "../../base/failure-log.ts";
import { type ByFamily, byFamily } from "../../base/family.ts";
import { firstSorted } from "../../base/first-sorted.ts";
import type { Logger } from "../../base/logger.ts";
import { PeriodicTask } from "../../base/periodic-task.ts";
import { counted, socketText } from "../../base/text.ts";
import { loggedReading } from "../../kernel/logged-reading.ts";
import {
  lastPacketAt,
  newRefusals,
  type RefusalEntry,
  refusalKey,
  type SeenRefusal,
} from "../../kernel/refused-set.ts";
import type { ServiceName } from "../../model/ids.ts";
import { AllowedClients, type RefusalCause, refusedFrontend } from "../../ruleset/refusal-causes.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";

/** Parts of {@link RefusalPoller}. */
export interface RefusalPollerParts {
  readonly clock: Clock;
  readonly logger: Logger;
  /** Reads the recorded refusals. */
  readonly read: () => Promise<readonly RefusalEntry[]>;
  readonly state: () => RulesetState;
  /**
   * Called with the packets since the last reading, by Service (`namespace/name`, "" for none) and reason.
   */
  readonly onPackets: (service: string, reason: RefusalCause, packets: number) => void;
  /** Called for a Service with refusals, at most once an hour. */
  readonly onRefused: (service: ServiceName, summary: string) => void;
}

/** Minimum pause between readings. Milliseconds. */
const MIN_PAUSE = 30_000;

/** Minimum ratio of a pause to the time of a reading: 65,536 entries of a family take 3 s of CPU time. */
const PAUSE_RATIO = 50;

/** Minimum time between two Events of one Service. Milliseconds. */
const EVENT_PERIOD = 3_600_000;

/**
 * Maximum number of Services and reasons that are counted separately; the rest is counted without a Service
 * name.
 */
const MOST_COUNTED = 1000;

/** The times and packets of a recorded refusal. */
interface Watched {
  readonly packets: number;
  /** Milliseconds since 1970; undefined if there were packets before the first reading. */
  readonly firstAt: number | undefined;
}

interface Refused {
  readonly service: ServiceName;
  readonly reasons: Set<string>;
  readonly clients: Set<string>;
  packets: number;
}

/** Reads the refusals that the kernel recorded periodically, and reports new ones. */
export class RefusalPoller {
  readonly #parts: RefusalPollerParts;
  readonly #counted = new Set<string>();
  /** When each Service was last reported, within the last hour, on the monotonic clock. */
  readonly #reportedAt = new Map<string, number>();
  /** The refusals of the last reading, by client and destination. */
  #watched: ReadonlyMap<string, Watched> | undefined;
  #recent: RecentRefusals | undefined;
  #looking: Promise<readonly RefusalEntry[]> | undefined;
  #task: PeriodicTask | undefined;
  readonly #failures: FailureLog;

  constructor(parts: RefusalPollerParts) {
    this.#parts = parts;
    this.#failures = new FailureLog(
      parts,
      "cannot read the refused connections",
      "the refused connections can be read again",
    );
  }

  /** The recorded refusals; undefined before the first reading. */
  get recent(): RecentRefusals | undefined {
    return this.#recent;
  }

  start(): void {
    const pause = (took: number) => Math.max(MIN_PAUSE, PAUSE_RATIO * took);
    this.#task = new PeriodicTask(this.#parts.clock, pause, () => this.look());
  }

  stop(): void {
    this.#task?.stop();
  }

  /**
   * Reads once. The first reading reports nothing, as an earlier process reported older refusals. Never
   * rejects.
   */
  async look(): Promise<void> {
    await loggedReading(this.#failures, () => this.#look());
  }

  /**
   * Reads once. @returns the recorded refusals, with the times of their first packets
   * @throws AppError as nft does
   */
  async seen(): Promise<readonly SeenRefusal[]> {
    const entries = await this.#look();
    return entries.map((entry) => {
      const firstAt = this.#watched?.get(refusalKey(entry))?.firstAt;
      return firstAt === undefined ? entry : { ...entry, firstAt };
    });
  }

  /** Reads one at a time, as overlapping readings would count packets twice. */
  #look(): Promise<readonly RefusalEntry[]> {
    this.#looking ??= this.#lookOnce().finally(() => {
      this.#looking = undefined;
    });
    return this.#looking;
  }

  async #lookOnce(): Promise<readonly RefusalEntry[]> {
    const entries = await this.#parts.read();
    if (this.#watched !== undefined) this.#tell(newRefusals(this.#watched, entries));
    this.#recent = recentRefusals(entries);
    this.#watched = watchedOf(entries, this.#watched, this.#parts.clock.now());
    return entries;
  }

  #tell(entries: readonly RefusalEntry[]): void {
    const { families } = this.#parts.state();
    const refused = new Map<string, Refused>();
    const allowed = new AllowedClients();
    for (const entry of entries) {
      const state = families[entry.family];
      if (state === undefined) continue;
      const { port, cause, message } = refusedFrontend(state, entry, allowed);
      this.#count(port?.service.name ?? "", cause, entry.packets);
      if (port !== undefined) addTo(refused, port.service.name, message, entry);
    }
    const now = this.#parts.clock.monotonic();
    for (const [name, at] of this.#reportedAt) if (now - at >= EVENT_PERIOD) this.#reportedAt.delete(name);
    for (const one of refused.values()) this.#tellService(one);
  }

  #count(service: string, reason: RefusalCause, packets: number): void {
    const key = `${service} ${reason}`;
    if (!this.#counted.has(key) && this.#counted.size >= MOST_COUNTED) {
      this.#parts.onPackets("", reason, packets);
      return;
    }
    this.#counted.add(key);
    this.#parts.onPackets(service, reason, packets);
  }

  #tellService({ service, reasons, clients, packets }: Refused): void {
    if (this.#reportedAt.has(service)) return;
    this.#reportedAt.set(service, this.#parts.clock.monotonic());
    const why = [...reasons].sort().join(", ");
    this.#parts.onRefused(
      service,
      `${counted(packets, "packet")} of ${counted(clients.size, "client")}: ${why}`,
    );
  }
}

/** Keeps the times of first packets, which the kernel does not record, of the current entries. */
function watchedOf(
  entries: readonly RefusalEntry[],
  before: ReadonlyMap<string, Watched> | undefined,
  now: number,
): ReadonlyMap<string, Watched> {
  return new Map(
    entries.map((entry) => {
      const key = refusalKey(entry);
      const known = before?.get(key);
      const { packets } = entry;
      if (known !== undefined && packets >= known.packets) return [key, { packets, firstAt: known.firstAt }];
      const isWholeSeen = before !== undefined || packets === 1;
      return [key, { packets, firstAt: isWholeSeen ? lastPacketAt(entry, now) : undefined }];
    }),
  );
}

function addTo(
  refused: Map<string, Refused>,
  service: ServiceName,
  reason: string,
  { client, packets }: RefusalEntry,
): void {
  const one = refused.get(service) ?? { service, reasons: new Set(), clients: new Set(), packets: 0 };
  one.reasons.add(reason);
  one.clients.add(client);
  one.packets += packets;
  refused.set(service, one);
}

/** The refusals of the last hour, as last read. */
export interface RecentRefusals {
  /** Number of recorded clients and destinations, of each family. */
  readonly entries: ByFamily<number>;
  readonly packets: number;
  readonly clients: number;
  readonly destinations: number;
  /** Some of them, latest first: `10.244.2.9 to 10.96.0.10:80/tcp`. */
  readonly latest: readonly string[];
}

/** Maximum number of refusals in {@link RecentRefusals.latest}. */
const MOST_LATEST = 5;

function recentRefusals(entries: readonly RefusalEntry[]): RecentRefusals {
  return {
    entries: byFamily((family) => entries.filter((entry) => entry.family === family).length),
    packets: entries.reduce((sum, { packets }) => sum + packets, 0),
    clients: new Set(entries.map(({ client }) => client)).size,
    destinations: new Set(entries.map(({ address, protocol, port }) => `${address} ${protocol} ${port}`))
      .size,
    latest: firstSorted(entries, MOST_LATEST, latestFirst).map(({ client, address, protocol, port }) => {
      return `${client} to ${socketText(address, port)}/${protocol}`;
    }),
  };
}

/**
 * Orders the later packet first. The kernel lists entries in no order, so equal times are ordered by text.
 */
function latestFirst(entry: RefusalEntry): string {
  return `${String(entry.silentFor).padStart(9, "0")} ${refusalKey(entry)}`;
}
