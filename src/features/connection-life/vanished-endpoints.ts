import { excessOver } from "../../base/equal-shares.ts";
import { FAMILIES, type Family } from "../../base/family.ts";
import { groupBy } from "../../base/group-by.ts";
import type { EndpointSlice } from "../../model/endpoint-slice.ts";
import { namespaceOf, type ServiceName } from "../../model/ids.ts";
import type { ObjectCache } from "../../model/object-cache.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";
import { type DrainedTarget, DrainingEndpoints, receivers } from "./draining-endpoints.ts";
import { NamedTargets, TargetMap, targetsLeft } from "./named-targets.ts";
import { ResetPolicy } from "./reset-policy.ts";
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
   * in {@link ShownEndpoints}.
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
interface LeftTarget extends Pick<VanishedEndpoint, "family" | "target" | "services"> {
  /** Whether one of them wants to keep connections. */
  readonly keepsConnections: boolean;
  /** When it left the last of them, on the monotonic clock; undefined while a Service names it. */
  readonly leftAt: number | undefined;
  /** Whether no EndpointSlice names it. False during the delay: nobody looks before its end. */
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
  readonly #policy: ResetPolicy;
  readonly draining: DrainingEndpoints;
  readonly #left = new TargetMap<LeftTarget>();
  /** The Services that name the targets whose delay or drain timeout was over at the last search. */
  #named = new NamedTargets([], []);
  /** When the EndpointSlices were last searched, on the monotonic clock. */
  #searchedAt = Number.NEGATIVE_INFINITY;
  /** Whether a target waits for the next search. */
  #isSearchDue = false;
  /** The terminating endpoints to reset connections to, as of the last {@link VanishedEndpoints.putInto}. */
  #drained: ReadonlyMap<string, VanishedEndpoint> = new Map();
  /** When {@link VanishedEndpoints.putInto} was last called, on the monotonic clock. */
  #putAt = Number.NEGATIVE_INFINITY;

  constructor(parts: VanishedEndpointsParts) {
    const { cache, now, byDefault } = parts;
    this.#parts = parts;
    this.#policy = new ResetPolicy(cache, byDefault);
    this.draining = new DrainingEndpoints(cache, now);
    cache.observe({
      service: (before, after) => {
        const changed = after ?? before;
        if (changed !== undefined) this.#policy.update(changed.name);
      },
      slice: (before, after) => this.#readSlice(before, after),
    });
  }

  /** Whether the default or a Service asks for resets. */
  get isNeeded(): boolean {
    return this.#policy.isNeeded;
  }

  /** Reads these Services. For one with a drain timeout, the cost grows with all of its EndpointSlices. */
  update(services: Iterable<ServiceName>): void {
    for (const service of services) this.draining.update(service);
  }

  /** Puts the endpoints whose connections are reset into a desired state. */
  putInto(state: Pick<RulesetState, "families">): void {
    const { families } = state;
    const now = this.#parts.now();
    this.#putAt = now;
    const left = [...this.#left.values()].filter(
      ({ leftAt }) => leftAt !== undefined && this.#beginOf({ leftAt }) <= now,
    );
    const drained = this.draining
      .drainedUntil(now)
      .filter(({ dueAt }) => now < latest(dueAt) + VANISHED_PERIOD);
    this.#search([...left.filter(({ isGone }) => !isGone), ...drained], now);
    for (const one of left) this.#settle(one, now);
    this.#deleteSurplus();
    this.#drained = this.#resetDrained(drained, state);
    const all = this.beingReset();
    for (const family of FAMILIES) {
      const own = all.filter((one) => one.family === family);
      families[family]?.setKeys(FEATURE, new Set(own.map(({ target }) => target)));
    }
  }

  /** Returns the endpoints whose connections are reset, oldest first in each family. */
  beingReset(): VanishedEndpoint[] {
    const now = this.#parts.now();
    const gone = [...this.#left.values()].flatMap(({ family, target, services, isGone, leftAt }) =>
      isGone && leftAt !== undefined ? { family, target, services, leftAt } : [],
    );
    return FAMILIES.flatMap((family) =>
      fairShare(
        [...gone, ...this.#drained.values()]
          .filter((one) => one.family === family && this.#beginOf(one) <= now && now < this.#endOf(one))
          .sort((a, b) => this.#beginOf(a) - this.#beginOf(b)),
        MOST_VANISHED,
      ),
    );
  }

  /**
   * Returns the next time at which {@link VanishedEndpoints.putInto} has another result, on the monotonic
   * clock. It may have passed already; infinity for never.
   */
  nextChangeAt(): number {
    const left = [...this.#left.values()].flatMap(({ leftAt, keepsConnections }) =>
      leftAt === undefined || keepsConnections ? [] : { leftAt },
    );
    const endpoints = [...left, ...this.#drained.values()];
    const moments = endpoints.flatMap((one) => [this.#beginOf(one), this.#endOf(one)]);
    if (this.#isSearchDue) moments.push(this.#searchedAt + SEARCH_PAUSE);
    return moments.reduce(
      (least, moment) => (moment > this.#putAt ? Math.min(least, moment) : least),
      this.draining.nextDueAfter(this.#putAt),
    );
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

  /**
   * Adopts endpoints from an earlier process.
   * @param reset the endpoints whose connections it reset, each with the milliseconds that are left for that.
   * If a Service names one, its connections are reset only if the Service drains it.
   * @param missed the endpoints that left their lists since then, with the Services that they left
   */
  adopt(
    family: Family,
    reset: ReadonlyMap<string, number>,
    missed: ReadonlyMap<string, readonly ServiceName[]>,
  ): void {
    const { now, delayMs, cache } = this.#parts;
    const named = new NamedTargets([...reset.keys(), ...missed.keys()], cache.allSlices());
    const isUnknown = (target: string) =>
      named.servicesOf(target).length === 0 && this.#left.get(target) === undefined;
    const put = (target: string, services: readonly ServiceName[], leftAt: number, isGone: boolean) =>
      this.#left.set(target, { family, target, services, keepsConnections: false, leftAt, isGone });
    for (const [target, remaining] of reset) {
      if (remaining <= 0) continue;
      const begin = now() - VANISHED_PERIOD + Math.min(remaining, VANISHED_PERIOD);
      if (isUnknown(target)) put(target, [], begin - delayMs, true);
      else this.draining.adopt(target, begin);
    }
    for (const [target, services] of missed)
      if (isUnknown(target) && !this.#policy.keepsAny(services)) put(target, services, now(), false);
  }

  #readSlice(before: EndpointSlice | undefined, after: EndpointSlice | undefined): void {
    this.#named.replace(before, after);
    if (after !== undefined)
      for (const left of [...this.#left.namedBy(after)]) this.#recordNamed(left, [after.service]);
    if (before === undefined) return;
    const { service, family } = before;
    if (this.isNeeded)
      for (const target of targetsLeft(before, after, MOST_LEAVING))
        this.#recordLeft(family, target, service);
    if (after === undefined) this.#policy.update(service);
  }

  /** Records that some Services name a target, which they may have left before. */
  #recordNamed(left: LeftTarget, by: readonly ServiceName[]): void {
    const services = left.services.filter((name) => !by.includes(name));
    if (services.length === 0) this.#left.delete(left.target);
    else this.#left.set(left.target, { ...left, services, leftAt: undefined, isGone: false });
  }

  /** Records that a target left a Service. */
  #recordLeft(family: Family, target: string, service: ServiceName): void {
    const { now, delayMs } = this.#parts;
    const before = this.#left.get(target);
    const others = (before?.services ?? []).filter((name) => name !== service);
    const services = [...others, service].slice(-MOST_SERVICES);
    // If its connections are already being reset, they continue to be, without a delay.
    const isGone = this.#drained.has(target) && this.#named.servicesOf(target).length === 0;
    const keepsConnections = !isGone && (before?.keepsConnections === true || this.#policy.keeps(service));
    const leftAt = isGone ? now() - delayMs : now();
    this.#left.set(target, { family, target, services, keepsConnections, leftAt, isGone });
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

  /** Decides about a target whose delay is over, and deletes it if connections are not reset any more. */
  #settle(left: LeftTarget, now: number): void {
    const { target, leftAt, keepsConnections, isGone } = left;
    if (isGone) {
      if (leftAt !== undefined && now >= this.#endOf({ leftAt })) this.#left.delete(target);
      return;
    }
    if (!this.#named.knows(target)) return;
    const services = this.#named.servicesOf(target);
    if (services.length > 0) this.#recordNamed(left, services);
    else if (keepsConnections) this.#left.delete(target);
    else this.#left.set(target, { ...left, isGone: true });
  }

  /** Deletes the oldest targets if there are too many. Those that keep connections stay, to protect them. */
  #deleteSurplus(): void {
    const all = [...this.#left.values()].filter(({ keepsConnections }) => !keepsConnections);
    if (all.length <= MOST_LEAVING) return;
    all.sort((a, b) => (a.leftAt ?? 0) - (b.leftAt ?? 0));
    const kept = new Set(fairShare(all, MOST_LEAVING));
    for (const one of all) if (!kept.has(one)) this.#left.delete(one.target);
  }

  /** The drained targets to reset connections to: every Service drains them, and none needs them. */
  #resetDrained(
    drained: readonly DrainedTarget[],
    state: Pick<RulesetState, "families">,
  ): ReadonlyMap<string, VanishedEndpoint> {
    const receives = receivers(this.#parts.cache, state);
    const found = new Map<string, VanishedEndpoint>();
    for (const one of drained) {
      const { family, target, dueAt } = one;
      if (!this.#named.knows(target) || !this.#isDrainedByAll(one, this.#named)) continue;
      const services = [...dueAt.keys()];
      if (services.some((name) => receives(name, target))) continue;
      found.set(target, { family, target, services, leftAt: latest(dueAt), isDrained: true });
    }
    return found;
  }

  /** Services that this node does not serve, such as headless ones, have no connections to protect. */
  #isDrainedByAll({ target, dueAt }: DrainedTarget, named: NamedTargets): boolean {
    return named
      .servicesOf(target)
      .every((name) => dueAt.has(name) || this.#parts.cache.service(name) === undefined);
  }

  /** When to begin to reset connections to an endpoint. */
  #beginOf({ leftAt, isDrained }: Times): number {
    return isDrained ? leftAt : leftAt + this.#parts.delayMs;
  }

  /** When to stop resetting connections to an endpoint. */
  #endOf(endpoint: Times): number {
    return this.#beginOf(endpoint) + VANISHED_PERIOD;
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
