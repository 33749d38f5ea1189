import { excessOver } from "../../base/equal-shares.ts";
import { FAMILIES, type Family } from "../../base/family.ts";
import { groupBy } from "../../base/group-by.ts";
import type { EndpointSlice } from "../../model/endpoint-slice.ts";
import { namespaceOf, type ServiceName } from "../../model/ids.ts";
import type { ObjectCache } from "../../model/object-cache.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";
import { type DrainedTarget, DrainingEndpoints, receivers } from "./draining-endpoints.ts";
import { type ConnectionLife, connectionLifeOf } from "./life.ts";
import { NamedTargets, TargetMap, targetsLeft } from "./named-targets.ts";
import { FEATURE, MOST_VANISHED, VANISHED_SECONDS } from "./rules.ts";

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
  readonly #wishes = new Map<ServiceName, ConnectionLife>();
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
    const life = connectionLifeOf(service);
    const { onEndpointRemoved, drainTimeoutMs } = life;
    const isOther = onEndpointRemoved !== undefined && (onEndpointRemoved === "reset") !== byDefault;
    if (isOther || drainTimeoutMs !== undefined) this.#wishes.set(name, life);
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
   * @param held the endpoints whose connections it reset, each with the milliseconds that are left for that.
   * A Service that names one and does not drain it ends this.
   * @param missed the endpoints that left their lists since then, with the Services that they left
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
      families[family]?.setKeys(FEATURE, new Set(own.map(({ target }) => target)));
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

  /** Forgets the oldest targets if there are more than the set can hold. Kept ones protect connections. */
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
