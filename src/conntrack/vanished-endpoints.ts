import { type Clock, type Timer, wallTime } from "../base/clock.ts";
import { excessOver } from "../base/equal-shares.ts";
import { AppError } from "../base/errors.ts";
import { FAMILIES, type Family } from "../base/family.ts";
import { groupBy } from "../base/group-by.ts";
import { NftStoppedError } from "../kernel/nft-errors.ts";
import type { TableReader } from "../kernel/table-reader.ts";
import { readEndingTargets } from "../kernel/vanished.ts";
import type { EndpointSlice } from "../model/endpoint-slice.ts";
import { namespaceOf, type ServiceName } from "../model/ids.ts";
import type { ObjectCache } from "../model/object-cache.ts";
import type { Service } from "../model/service.ts";
import type { Ruleset, Table } from "../nft/ast/ruleset.ts";
import { parseFrontendKey } from "../ruleset/keys.ts";
import { parseId } from "../ruleset/list-ids.ts";
import type { RulesetState } from "../ruleset/ruleset-state.ts";
import {
  ENDPOINTS,
  LISTS,
  MOST_VANISHED,
  VANISHED,
  VANISHED_MARGIN,
  VANISHED_SECONDS,
} from "../ruleset/sets.ts";
import {
  type DrainedTarget,
  type DrainingEndpoint,
  DrainingEndpoints,
  receivers,
} from "./draining-endpoints.ts";
import { NamedTargets, TargetMap, targetsLeft } from "./named-targets.ts";

/** A TCP endpoint that no EndpointSlice names any more, or that has terminated for too long. */
export interface VanishedEndpoint {
  readonly family: Family;
  /** `address . port` */
  readonly target: string;
  /**
   * The last {@link MOST_SERVICES} Services that it left, in this order; none if an earlier process saw it
   * leave.
   */
  readonly services: readonly ServiceName[];
  /**
   * When it left, or when its drain timeouts were over: milliseconds on the monotonic clock, or since 1970
   * after {@link shownVanished}.
   */
  readonly leftAt: number;
  /** Set if EndpointSlices still name the endpoint, as terminating. */
  readonly isDrained?: true;
}

/** Parts of {@link VanishedEndpoints}. */
export interface VanishedEndpointsParts {
  readonly cache: ObjectCache;
  /** Monotonic clock, milliseconds. */
  readonly now: () => number;
  /** Minimum time between the removal of an endpoint and the reset of its connections. Milliseconds. */
  readonly delayMs: number;
  /** Whether connections to endpoints that left a Service are reset unless it says otherwise. */
  readonly byDefault: boolean;
}

/**
 * The delay of the daemon, milliseconds. An endpoint that moves to another EndpointSlice, or whose
 * EndpointSlices are recreated, is in none for a moment, but still alive.
 */
export const VANISHED_DELAY = 3000;

const VANISHED_PERIOD = VANISHED_SECONDS * 1000;

/**
 * Minimum time between two searches of all EndpointSlices for endpoints that left, so that many changes share
 * one: it takes 4 to 12 ms for 100,000 endpoints. Milliseconds.
 */
const SEARCH_PAUSE = 1000;

/** Maximum number of Services that are remembered for an endpoint: its pod may outlive any number of them. */
const MOST_SERVICES = 8;

/** Maximum number of targets of one EndpointSlice that are remembered when they leave it at once. */
const MOST_LEAVING = 4 * MOST_VANISHED;

type Wish = Pick<Service, "onEndpointRemoved" | "drainTimeoutMs">;

/** A target that an EndpointSlice named and then no longer did. */
interface LeftTarget {
  readonly family: Family;
  readonly target: string;
  /** The last {@link MOST_SERVICES} Services that it left, in this order. */
  readonly services: readonly ServiceName[];
  /** Whether one of them wants to keep connections. */
  readonly isKept: boolean;
  /** When it left the last of them, on the monotonic clock; undefined while a Service names it. */
  readonly leftAt: number | undefined;
  /** Whether no EndpointSlice names it. Unknown during the delay: nobody looks before. */
  readonly isGone: boolean;
}

/**
 * Finds TCP endpoints whose connections are reset. An endpoint that left every EndpointSlice is one of them
 * if all Services that it left want that. A terminating endpoint is one if the drain timeouts of all Services
 * that name it are over. Remembers only targets that left an EndpointSlice, or whose drain timeout is over,
 * and nothing if neither the default nor a Service asks for it.
 */
export class VanishedEndpoints {
  readonly #parts: VanishedEndpointsParts;
  readonly draining: DrainingEndpoints;
  /** Services that want something else than the default. A deleted one counts until its slices are gone. */
  readonly #wishes = new Map<ServiceName, Wish>();
  readonly #left = new TargetMap<LeftTarget>();
  /** The Services that name those targets that are due. */
  #named = new NamedTargets([], []);
  /** When the EndpointSlices were searched, on the monotonic clock. */
  #searchedAt = Number.NEGATIVE_INFINITY;
  /** Whether a target waits for the next search. */
  #isSearchDue = false;
  /** The terminating endpoints to reset connections to, as of the last {@link VanishedEndpoints.putInto}. */
  #drained: ReadonlyMap<string, VanishedEndpoint> = new Map();
  /** When {@link VanishedEndpoints.putInto} was last called, on the monotonic clock. */
  #putAt = Number.NEGATIVE_INFINITY;

  constructor(parts: VanishedEndpointsParts) {
    const { cache, now } = parts;
    this.#parts = parts;
    this.draining = new DrainingEndpoints(cache, now);
    for (const name of cache.serviceNames()) this.#readWish(name);
    cache.observe({
      service: (before, after) => this.#readWish((after ?? before)?.name),
      slice: (before, after) => this.#readSlice(before, after),
    });
  }

  /** Whether the default or a Service asks for resets. */
  get isNeeded(): boolean {
    return this.#parts.byDefault || this.#wishes.size > 0;
  }

  /** Reads these Services. For one with a drain timeout, the cost grows with all of its EndpointSlices. */
  update(services: Iterable<ServiceName>): void {
    for (const service of services) this.draining.update(service);
  }

  #readWish(name: ServiceName | undefined): void {
    if (name === undefined) return;
    const { cache, byDefault } = this.#parts;
    const service = cache.service(name);
    if (service === undefined) {
      if (cache.slices(name).length === 0) this.#wishes.delete(name);
      return;
    }
    const { onEndpointRemoved, drainTimeoutMs } = service;
    const isOther = onEndpointRemoved !== undefined && (onEndpointRemoved === "reset") !== byDefault;
    if (isOther || drainTimeoutMs !== undefined) this.#wishes.set(name, service);
    else this.#wishes.delete(name);
  }

  #keepsConnections(service: ServiceName): boolean {
    const wish = this.#wishes.get(service)?.onEndpointRemoved;
    return wish === undefined ? !this.#parts.byDefault : wish === "keep";
  }

  #readSlice(before: EndpointSlice | undefined, after: EndpointSlice | undefined): void {
    this.#named.replace(before, after);
    if (after !== undefined)
      for (const left of [...this.#left.namedBy(after)]) this.#nameAgain(left, [after.service]);
    if (before === undefined) return;
    const { service, family } = before;
    if (this.isNeeded)
      for (const target of targetsLeft(before, after, MOST_LEAVING)) this.#leave(family, target, service);
    if (after === undefined) this.#readWish(service);
  }

  /** Records that some Services name a target, which they may have left before. */
  #nameAgain(left: LeftTarget, by: readonly ServiceName[]): void {
    const services = left.services.filter((name) => !by.includes(name));
    if (services.length === 0) this.#left.delete(left.target);
    else this.#left.set(left.target, { ...left, services, leftAt: undefined, isGone: false });
  }

  #leave(family: Family, target: string, service: ServiceName): void {
    const { now, delayMs } = this.#parts;
    const before = this.#left.get(target);
    const others = (before?.services ?? []).filter((name) => name !== service);
    const services = [...others, service].slice(-MOST_SERVICES);
    // If its connections are already being reset, they continue to be, without a delay.
    const isGone = this.#drained.has(target) && this.#named.servicesOf(target).length === 0;
    const isKept = !isGone && (before?.isKept === true || this.#keepsConnections(service));
    const leftAt = isGone ? now() - delayMs : now();
    this.#left.set(target, { family, target, services, isKept, leftAt, isGone });
  }

  /**
   * Selects the targets to which connections may be reset: only Services that drain them name them, or none.
   */
  resettable(targets: readonly string[]): ReadonlySet<string> {
    if (!this.isNeeded) return new Set();
    const named = new NamedTargets(targets, this.#parts.cache.allSlices());
    const drained = this.draining.drainedUntil(Number.POSITIVE_INFINITY);
    const draining = new Set(
      drained.filter((one) => this.#isDrainedByAll(one, named)).map((one) => one.target),
    );
    return new Set(targets.filter((target) => named.servicesOf(target).length === 0 || draining.has(target)));
  }

  /** Services that this node does not serve, such as headless ones, have no connections to protect. */
  #isDrainedByAll({ target, dueAt }: DrainedTarget, named: NamedTargets): boolean {
    return named
      .servicesOf(target)
      .every((name) => dueAt.has(name) || this.#parts.cache.service(name) === undefined);
  }

  /**
   * Adopts endpoints from an earlier process.
   * @param held those that it reset connections to, with the time for which these are still reset,
   * milliseconds. A Service that does not drain one ends that.
   * @param missed those that no list contains any more, with the Services that they left
   */
  adopt(
    family: Family,
    held: ReadonlyMap<string, number>,
    missed: ReadonlyMap<string, readonly ServiceName[]>,
  ): void {
    const { now, delayMs, cache, byDefault } = this.#parts;
    const named = new NamedTargets([...held.keys(), ...missed.keys()], cache.allSlices());
    const isUnknown = (target: string) =>
      named.servicesOf(target).length === 0 && this.#left.get(target) === undefined;
    for (const [target, remaining] of held) {
      if (remaining <= 0) continue;
      const begin = now() - VANISHED_PERIOD + Math.min(remaining, VANISHED_PERIOD);
      const left = { family, target, services: [], isKept: false, leftAt: begin - delayMs, isGone: true };
      if (isUnknown(target)) this.#left.set(target, left);
      else this.draining.adopt(target, begin);
    }
    for (const [target, services] of missed) {
      const isKept =
        services.length === 0 ? !byDefault : services.some((name) => this.#keepsConnections(name));
      if (isUnknown(target) && !isKept)
        this.#left.set(target, { family, target, services, isKept: false, leftAt: now(), isGone: false });
    }
  }

  /** Returns the endpoints whose connections are reset, oldest first in each family. */
  held(): VanishedEndpoint[] {
    const now = this.#parts.now();
    const gone = [...this.#left.values()].flatMap(({ isGone, isKept: _, leftAt, ...one }) =>
      isGone && leftAt !== undefined ? { ...one, leftAt } : [],
    );
    return FAMILIES.flatMap((family) =>
      fairShare(
        [...gone, ...this.#drained.values()]
          .filter((one) => one.family === family && this.#isDue(one, now))
          .sort((a, b) => this.#begin(a) - this.#begin(b)),
        MOST_VANISHED,
      ),
    );
  }

  /** Puts the endpoints whose connections are reset into a desired state. */
  putInto(state: Pick<RulesetState, "families">): void {
    const { families } = state;
    const now = this.#parts.now();
    this.#putAt = now;
    const left = [...this.#left.values()].filter(({ leftAt }) => this.#isOver(leftAt, now));
    const drained = this.draining
      .drainedUntil(now)
      .filter(({ dueAt }) => now < latest(dueAt) + VANISHED_PERIOD);
    this.#search([...left.filter(({ isGone }) => !isGone), ...drained], now);
    for (const one of left) this.#settle(one, now);
    this.#forgetSurplus();
    const receives = receivers(this.#parts.cache, state);
    this.#drained = new Map(
      drained.flatMap((one) => {
        const { family, target, dueAt } = one;
        const services = [...dueAt.keys()];
        const isHeld =
          this.#named.knows(target) &&
          this.#isDrainedByAll(one, this.#named) &&
          !services.some((name) => receives(name, target));
        return isHeld ? [[target, { family, target, services, leftAt: latest(dueAt), isDrained: true }]] : [];
      }),
    );
    const held = this.held();
    for (const family of FAMILIES) {
      const own = held.filter((one) => one.family === family);
      families[family]?.setVanished(new Set(own.map(({ target }) => target)));
    }
  }

  /** Finds the Services that name targets, unless all are known or the last search was just before. */
  #search(due: readonly { readonly target: string }[], now: number): void {
    this.#isSearchDue = !due.every(({ target }) => this.#named.knows(target));
    if (!this.#isSearchDue || now - this.#searchedAt < SEARCH_PAUSE) return;
    const targets = due.map(({ target }) => target);
    this.#named = new NamedTargets(targets, this.#parts.cache.allSlices());
    this.#searchedAt = now;
    this.#isSearchDue = false;
  }

  /** Decides about a target whose delay is over, and forgets it if connections are not reset any more. */
  #settle(left: LeftTarget, now: number): void {
    const { target, leftAt, isKept, isGone } = left;
    if (isGone) {
      if (leftAt !== undefined && now >= this.#end({ leftAt })) this.#left.delete(target);
      return;
    }
    if (!this.#named.knows(target)) return;
    const services = this.#named.servicesOf(target);
    if (services.length > 0) this.#nameAgain(left, services);
    else if (isKept) this.#left.delete(target);
    else this.#left.set(target, { ...left, isGone: true });
  }

  /** Forgets targets of which the set could not hold so many. Kept ones stay: they protect connections. */
  #forgetSurplus(): void {
    const all = [...this.#left.values()].filter(({ isKept }) => !isKept);
    if (all.length <= MOST_LEAVING) return;
    all.sort((a, b) => (a.leftAt ?? 0) - (b.leftAt ?? 0));
    const kept = new Set(fairShare(all, MOST_LEAVING));
    for (const one of all) if (!kept.has(one)) this.#left.delete(one.target);
  }

  /**
   * Returns the next time at which {@link VanishedEndpoints.putInto} has another result, on the monotonic
   * clock. It may have passed already; undefined for never.
   */
  nextChangeAt(): number | undefined {
    const moments = [
      this.draining.nextDueAfter(this.#putAt) ?? Number.POSITIVE_INFINITY,
      ...(this.#isSearchDue ? [this.#searchedAt + SEARCH_PAUSE] : []),
    ];
    const left = [...this.#left.values()].flatMap(({ leftAt, isKept }) =>
      leftAt === undefined || isKept ? [] : { leftAt },
    );
    for (const one of [...left, ...this.#drained.values()]) moments.push(this.#begin(one), this.#end(one));
    const next = moments.reduce(
      (least, moment) => (moment > this.#putAt ? Math.min(least, moment) : least),
      Number.POSITIVE_INFINITY,
    );
    return next === Number.POSITIVE_INFINITY ? undefined : next;
  }

  /** Whether the delay of a target that left is over. */
  #isOver(leftAt: number | undefined, now: number): boolean {
    return leftAt !== undefined && leftAt + this.#parts.delayMs <= now;
  }

  #isDue(endpoint: Times, now: number): boolean {
    return this.#begin(endpoint) <= now && now < this.#end(endpoint);
  }

  #begin({ leftAt, isDrained }: Times): number {
    return isDrained ? leftAt : leftAt + this.#parts.delayMs;
  }

  #end(endpoint: Times): number {
    return this.#begin(endpoint) + VANISHED_PERIOD;
  }
}

type Times = Pick<VanishedEndpoint, "leftAt" | "isDrained">;

function latest(dueAt: DrainedTarget["dueAt"]): number {
  return Math.max(...dueAt.values());
}

/**
 * Returns the targets that there is room for. If there are too many, the namespaces with the most lose their
 * oldest, so that no tenant displaces another's.
 * @param targets oldest first
 */
function fairShare<Target extends Pick<VanishedEndpoint, "services">>(
  targets: Target[],
  room: number,
): readonly Target[] {
  if (targets.length <= room) return targets;
  const groupOf = ({ services: [first] }: Target) => (first === undefined ? "" : namespaceOf(first));
  const counts = new Map(Array.from(groupBy(targets, groupOf), ([name, all]) => [name, all.length]));
  const excess = new Map(excessOver(counts, room));
  return targets.filter((one) => {
    const surplus = excess.get(groupOf(one)) ?? 0;
    if (surplus > 0) excess.set(groupOf(one), surplus - 1);
    return surplus === 0;
  });
}

/**
 * Returns the endpoints to reset of a cache, without a delay, for comparisons with the kernel.
 * @param now monotonic clock, milliseconds
 * @param byDefault as {@link VanishedEndpointsParts.byDefault}
 */
export function vanishedOf(cache: ObjectCache, now: () => number, byDefault: boolean): VanishedEndpoints {
  const vanished = new VanishedEndpoints({ cache, now, delayMs: 0, byDefault });
  vanished.update(cache.serviceNames());
  return vanished;
}

/** Returns the endpoints of a tracker for display, with times in milliseconds since 1970. */
export function shownVanished(
  vanished: Pick<VanishedEndpoints, "held" | "draining">,
  clock: Pick<Clock, "now" | "monotonic">,
): { readonly held: readonly VanishedEndpoint[]; readonly draining: readonly DrainingEndpoint[] } {
  return {
    held: vanished.held().map((one) => ({ ...one, leftAt: wallTime(clock, one.leftAt) })),
    draining: vanished.draining
      .endpoints()
      .map((one) => ({ ...one, since: wallTime(clock, one.since), dueAt: wallTime(clock, one.dueAt) })),
  };
}

/**
 * Adopts vanished endpoints from the kernel: those that an earlier process saw leave, with their remaining
 * time, and those that left after it ended.
 * @param kernel our tables
 * @param state the desired state to which they are added
 */
export async function adoptVanished(
  vanished: VanishedEndpoints,
  tables: Pick<TableReader, "elements">,
  kernel: Ruleset,
  state: RulesetState,
): Promise<void> {
  for (const table of vanished.isNeeded ? Object.values(kernel) : [])
    vanished.adopt(table.family, await heldIn(tables, table), missedIn(table, state));
  vanished.putInto(state);
}

/**
 * Returns the elements in the kernel with their remaining time in milliseconds, in the order in which they
 * expire. None if they cannot be read: the sync must not fail.
 */
async function heldIn(
  tables: Pick<TableReader, "elements">,
  { family, sets }: Table,
): Promise<ReadonlyMap<string, number>> {
  const set = sets.get(VANISHED);
  if (set === undefined || set.elements.size === 0) return new Map();
  try {
    const found = await readEndingTargets(tables, family, set.spec);
    found.sort((a, b) => a.expires - b.expires);
    return new Map(found.map(({ target, expires }) => [target, 1000 * (expires - VANISHED_MARGIN)]));
  } catch (error) {
    if (error instanceof AppError && !(error instanceof NftStoppedError)) return new Map();
    throw error;
  }
}

/** Returns the TCP endpoints of a table that no list of the desired state contains, with their Services. */
function missedIn(
  { family, sets }: Table,
  { families }: RulesetState,
): ReadonlyMap<string, readonly ServiceName[]> {
  const frontends = new Map<number, string>();
  for (const [frontend, id] of sets.get(LISTS)?.elements ?? []) {
    const { servicePort } = parseId(Number(id)) ?? {};
    if (servicePort !== undefined) frontends.set(servicePort, frontend);
  }
  const present = new Set(families[family]?.table.sets.get(ENDPOINTS)?.elements.values());
  const missed = new Map<string, readonly ServiceName[]>();
  for (const [key, target] of sets.get(ENDPOINTS)?.elements ?? []) {
    if (present.has(target)) continue;
    const frontend = frontends.get(parseId(Number.parseInt(key, 10))?.servicePort ?? 0);
    if (frontend === undefined || parseFrontendKey(frontend).protocol !== "tcp") continue;
    const owner = families[family]?.ownerOf(frontend);
    const services = [...(missed.get(target) ?? []), ...(owner === undefined ? [] : [owner.service.name])];
    missed.set(target, [...new Set(services)]);
  }
  return missed;
}

/**
 * Returns a subscriber that requests a sync when vanished endpoints are due to be added to the rules, or
 * removed.
 */
export function vanishedTimer(
  vanished: Pick<VanishedEndpoints, "nextChangeAt">,
  clock: Clock,
  request: () => void,
): { readonly synced: () => void } {
  let timer: Timer | undefined;
  return {
    synced() {
      timer?.cancel();
      const at = vanished.nextChangeAt();
      if (at !== undefined) timer = clock.after(Math.max(0, at - clock.monotonic()), request);
    },
  };
}
