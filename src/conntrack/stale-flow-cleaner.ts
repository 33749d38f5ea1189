import type { Clock, Timer } from "../base/clock.ts";
import { AppError, messageOf } from "../base/errors.ts";
import { FailureLog } from "../base/failure-log.ts";
import type { ByFamily } from "../base/family.ts";
import type { Logger } from "../base/logger.ts";
import { EVERYWHERE, type Flow, type FlowPlace, type FlowTable, placeOfFlows } from "../kernel/conntrack.ts";
import type { ServiceName } from "../model/ids.ts";
import { familyOf, isLinkLocal } from "../model/ip.ts";
import type { UdpFrontends } from "./udp-frontends.ts";

/** When flows to further endpoints end though these still serve. */
interface FlowEnds {
  /** The first such time after a given one; infinity for none. */
  readonly nextAfter: (moment: number) => number;
}

/** The part of a sync report that concerns changed Services. */
interface SyncedServices {
  readonly kind: "nothing" | "partial" | "full";
  readonly rendered: ReadonlySet<ServiceName>;
  /** Drift that the sync repaired; undefined for none. */
  readonly repaired: object | undefined;
}

/**
 * Returns a subscriber that deletes stale UDP flows: after each sync that changed a Service with a UDP port,
 * after each end of flows to endpoints that serve, and after each full sync or repair. Flows that began while
 * rules were missing stay untranslated as long as their clients keep sending.
 * @param now the monotonic clock, milliseconds
 */
export function staleFlowSubscriber(
  frontends: Pick<UdpFrontends, "update">,
  cleaner: Pick<StaleFlowCleaner, "clean">,
  ends: readonly FlowEnds[],
  now: () => number,
) {
  let lastAt = Number.NEGATIVE_INFINITY;
  return {
    synced({ kind, rendered, repaired }: SyncedServices): void {
      const changed = frontends.update(rendered);
      const before = lastAt;
      lastAt = now();
      const isDue = ends.some((one) => one.nextAfter(before) <= lastAt);
      const places = isDue || kind === "full" || repaired !== undefined ? EVERYWHERE : changed;
      if (places.length > 0) void cleaner.clean(places);
    },
  };
}

/**
 * Returns a function to call with all addresses of the node after they were read. It deletes stale flows to
 * addresses that came or went: a client may have sent to an address before keepalived moved it here.
 */
export function addressSubscriber(
  cleaner: Pick<StaleFlowCleaner, "clean">,
): (addresses: readonly string[]) => void {
  let known: ReadonlySet<string> | undefined;
  return (addresses) => {
    const before = known ?? new Set(addresses);
    known = new Set(addresses);
    const changed = [
      ...addresses.filter((address) => !before.has(address)),
      ...[...before].filter((address) => known?.has(address) === false),
    ];
    // The interface of each new pod has a link-local address.
    const places = changed.filter((address) => !isLinkLocal(address)).map((address) => placeOfFlows(address));
    if (places.length > 0) void cleaner.clean(places);
  };
}

/** The result of a cleaning. */
export interface CleaningReport {
  readonly deleted: ByFamily<number>;
  /** Milliseconds. */
  readonly duration: number;
}

/** Parts of a {@link StaleFlowCleaner}. */
export interface StaleFlowCleanerParts {
  readonly table: FlowTable;
  readonly frontends: UdpFrontends;
  /** The addresses of this node that serve NodePorts, of both families: see {@link nodePortHosts}. */
  readonly nodePortHosts: () => ReadonlySet<string>;
  /** All addresses of this node, of both families. */
  readonly localAddresses: () => readonly string[];
  readonly clock: Clock;
  readonly logger: Logger;
  /** Called after each successful cleaning. */
  readonly onCleaned: (report: CleaningReport) => void;
}

/** Maximum number of stale flows kept in memory before they are deleted. */
const MOST_FLOWS = 5000;

/**
 * Time until a failed cleaning is repeated, doubled after each further failure. Short, because clients wait
 * for it. Milliseconds.
 */
const RETRY = 1000;
const MAX_RETRY = 60_000;

/**
 * Pause after a cleaning, in durations of it, and its maximum in milliseconds: changes of one tenant's UDP
 * Service must not have the table, which may hold a million flows, read all the time. Everyone waits for the
 * pause, so it is short.
 */
const PAUSE_RATIO = 4;
const MAX_PAUSE = 500;

/**
 * Maximum number of places that are read one by one: the kernel walks through its table for each. Reading all
 * flows takes as long as 20 such walks.
 */
const MOST_PLACES = 16;

const HINT = "UDP clients may keep sending to endpoints that are gone; needs socat and NET_ADMIN";

/**
 * Deletes UDP flows that no longer lead to an endpoint. Only looks at flows to the places that changed.
 * Cleanings never overlap; one is done for all that were requested during another. A cleaning that failed, or
 * after which deleted flows still exist, is repeated until it succeeds.
 */
export class StaleFlowCleaner {
  readonly #parts: StaleFlowCleanerParts;
  /** The addresses that have served NodePorts since all flows were last cleaned. */
  #formerHosts: ReadonlySet<string> = new Set();
  /** The places whose flows may be stale, by their JSON. */
  readonly #due = new Map<string, FlowPlace>();
  /** Whether they are to be cleaned now. After a failure they wait for its retry, or for the next `clean`. */
  #isDue = false;
  #cleaning: Promise<void> | undefined;
  /** When the next cleaning may begin, on the monotonic clock. */
  #mayBeginAt = Number.NEGATIVE_INFINITY;
  #retry: Timer | undefined;
  /** Failed cleanings since the last successful one. */
  #failed = 0;
  readonly #failures: FailureLog;

  constructor(parts: StaleFlowCleanerParts) {
    this.#parts = parts;
    this.#failures = new FailureLog(parts, "delete stale UDP flows");
  }

  /**
   * Cleans the flows to some places, now or some time after the current or last cleaning. Resolves when no
   * cleaning is pending. Never rejects.
   */
  clean(places: readonly FlowPlace[]): Promise<void> {
    this.#add(places);
    this.#isDue = true;
    this.#cleaning ??= this.#drain();
    return this.#cleaning;
  }

  #add(places: readonly FlowPlace[]): void {
    for (const place of places) this.#due.set(JSON.stringify(place), place);
    if (this.#due.size <= MOST_PLACES) return;
    this.#due.clear();
    this.#add(EVERYWHERE);
  }

  async #drain(): Promise<void> {
    const { clock } = this.#parts;
    while (this.#due.size > 0 && this.#isDue) {
      const pause = this.#mayBeginAt - clock.monotonic();
      if (pause > 0) await new Promise<void>((resolve) => clock.after(pause, resolve));
      const startedAt = clock.monotonic();
      await this.#cleanOnce();
      const endedAt = clock.monotonic();
      this.#mayBeginAt = endedAt + Math.min(MAX_PAUSE, PAUSE_RATIO * (endedAt - startedAt));
    }
    this.#cleaning = undefined;
  }

  async #cleanOnce(): Promise<void> {
    const { clock, frontends, onCleaned } = this.#parts;
    const places = [...this.#due.values()];
    this.#due.clear();
    this.#isDue = false;
    this.#retry?.cancel();
    if (frontends.isEmpty) return;
    const removed = frontends.takeRemoved();
    const startedAt = clock.monotonic();
    try {
      const deleted = await this.#deleteStale(places, removed);
      this.#failed = 0;
      this.#failures.end();
      onCleaned({ deleted, duration: clock.monotonic() - startedAt });
    } catch (error) {
      frontends.putBack(removed);
      this.#add(places);
      this.#failures.add(messageOf(error), { hint: HINT });
      const pause = Math.min(MAX_RETRY, RETRY * 2 ** this.#failed++);
      this.#retry = clock.after(pause, () => void this.clean([]));
    }
  }

  /** @throws AppError HOST when flows cannot be listed or deleted, or are still there afterwards */
  async #deleteStale(places: readonly FlowPlace[], removed: ReadonlySet<string>): Promise<ByFamily<number>> {
    const { table, frontends, nodePortHosts, localAddresses } = this.#parts;
    const serving = nodePortHosts();
    const withoutIntervals = new Set(frontends.areIntervalsVirtual ? localAddresses() : []);
    const hosts = { serving, withoutIntervals, former: this.#formerHosts };
    this.#formerHosts = new Set([...hosts.former, ...hosts.serving]);
    const judge = () => frontends.judge(hosts, removed);
    const ids = new Set<number>();
    const deleted = { ip: 0, ip6: 0 };
    for await (const flows of this.#staleFlows(places, judge)) {
      for (const { id, client } of flows) {
        ids.add(id);
        deleted[familyOf(client.address)]++;
      }
      await table.expireFlows(flows);
    }
    let left = 0;
    if (ids.size > 0) for await (const { length } of this.#staleFlows(places, judge, ids)) left += length;
    if (left > 0) throw new AppError("HOST", "the kernel reports success, but the flows are still there");
    if (EVERYWHERE.every((all) => places.includes(all))) this.#formerHosts = hosts.serving;
    return deleted;
  }

  /**
   * Yields the stale flows of the table, up to 5000 at a time; none if those found are not stale any more.
   * @param judge returns a function that tells whether a flow is stale now
   * @param ids the kernel's ids of the flows to consider; all flows if absent
   */
  async *#staleFlows(
    places: readonly FlowPlace[],
    judge: () => (flow: Flow) => boolean,
    ids?: ReadonlySet<number>,
  ): AsyncGenerator<readonly Flow[]> {
    const isStale = judge();
    let found: Flow[] = [];
    // Syncs continue while the table is listed. Flows to endpoints added meanwhile are not stale.
    const stillStale = () => found.filter(judge());
    for await (const flow of this.#parts.table.list("udp", places)) {
      if (ids?.has(flow.id) !== false && isStale(flow)) found.push(flow);
      if (found.length < MOST_FLOWS) continue;
      yield stillStale();
      found = [];
    }
    if (found.length > 0) yield stillStale();
  }
}
