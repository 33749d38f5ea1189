import { type Clock, type Timer, wallTime } from "../base/clock.ts";
import { excessOver } from "../base/equal-shares.ts";
import { AppError } from "../base/errors.ts";
import { type ByFamily, byFamily, FAMILIES, type Family } from "../base/family.ts";
import { addToGroup, groupBy } from "../base/group-by.ts";
import { NftStoppedError } from "../kernel/nft-errors.ts";
import type { TableReader } from "../kernel/table-reader.ts";
import { readEndingTargets } from "../kernel/vanished.ts";
import type { EndpointSlice } from "../model/endpoint-slice.ts";
import { namespaceOf, type ServiceName } from "../model/ids.ts";
import type { ObjectCache } from "../model/object-cache.ts";
import type { Service } from "../model/service.ts";
import type { Ruleset, Table } from "../nft/ast/ruleset.ts";
import { joinParts, splitParts } from "../nft/elements.ts";
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
  type DrainingEndpoint,
  DrainingEndpoints,
  MOST_PORTS,
  receivers,
  tcpPorts,
} from "./draining-endpoints.ts";

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
 * Time for which all endpoints are remembered after the last Service needed resets, milliseconds. To learn
 * them takes 0.3 s for 100,000, and a tenant may change an annotation all the time.
 */
const KEPT_UNNEEDED = VANISHED_PERIOD;

/** Maximum number of Services that are remembered for an endpoint: its pod may outlive any number of them. */
const MOST_SERVICES = 8;

/** The Services that an endpoint left while others still name it. */
interface Leaving {
  /** The last {@link MOST_SERVICES} of them, in this order. */
  readonly services: readonly ServiceName[];
  /** Whether one of them wants to keep connections. */
  readonly isKept: boolean;
}

/**
 * Tracks TCP endpoints whose connections are reset. An endpoint that left every EndpointSlice is one of them
 * if all Services that it left want that. A terminating endpoint is one if the drain timeouts of all Services
 * that name it are over. Tracks nothing if neither the default nor a Service has asked for it for 15 minutes.
 */
export class VanishedEndpoints {
  readonly #parts: VanishedEndpointsParts;
  readonly draining: DrainingEndpoints;
  /**
   * The annotations of Services that have some. Those of a deleted Service count until its slices are gone.
   */
  readonly #wishes = new Map<ServiceName, Pick<Service, "onEndpointRemoved" | "drainTimeoutMs">>();
  #isTracking = false;
  /** Since when no Service needs resets, on the monotonic clock; undefined while one does. */
  #unneededSince: number | undefined;
  /** The counted EndpointSlices of each Service. */
  readonly #slices = new Map<ServiceName, EndpointSlice[]>();
  /**
   * The number of EndpointSlices that name each target. A slice with more than {@link MOST_PORTS} TCP ports
   * counts for the addresses of its endpoints, at all ports.
   */
  readonly #named: ByFamily<Map<string, number>> = byFamily(() => new Map());
  /** For targets, or addresses, that other Services still name. */
  readonly #leaving: ByFamily<Map<string, Leaving>> = byFamily(() => new Map());
  /** Vanished endpoints by target, oldest first. */
  readonly #gone: ByFamily<Map<string, VanishedEndpoint>> = byFamily(() => new Map());

  /** The endpoints that all Services that name them drain, each with its own due time. */
  #candidates: readonly VanishedEndpoint[] = [];
  /** Those of them that get no new connections, as of the last {@link VanishedEndpoints.putInto}. */
  #drained: readonly VanishedEndpoint[] = [];

  /** When {@link VanishedEndpoints.putInto} was last called, on the monotonic clock. */
  #putAt = Number.NEGATIVE_INFINITY;

  constructor(parts: VanishedEndpointsParts) {
    this.#parts = parts;
    this.draining = new DrainingEndpoints(parts.cache, parts.now);
  }

  /**
   * Reads these Services and their current EndpointSlices. The cost grows with the EndpointSlices that
   * changed. For a Service with a drain timeout, it grows with all of its EndpointSlices.
   */
  update(services: Iterable<ServiceName>): void {
    const changed = [...services];
    for (const service of changed) this.#readWish(service);
    if (this.#isNeeded() && !this.#isTracking) {
      this.#isTracking = true;
      for (const slice of this.#parts.cache.allSlices()) {
        this.#name(slice);
        addToGroup(this.#slices, slice.service, slice);
      }
    } else if (this.#isTracking) this.#compare(changed);
    for (const service of changed) {
      this.draining.update(service);
      if (this.#parts.cache.service(service) === undefined && !this.#slices.has(service))
        this.#wishes.delete(service);
    }
    if (this.#isTracking) this.#forgetIfUnneeded();
  }

  #forgetIfUnneeded(): void {
    const now = this.#parts.now();
    this.#unneededSince = this.#isNeeded() ? undefined : (this.#unneededSince ?? now);
    if (this.#unneededSince !== undefined && now - this.#unneededSince >= KEPT_UNNEEDED) this.#forget();
  }

  #readWish(name: ServiceName): void {
    const service = this.#parts.cache.service(name);
    if (service === undefined) return;
    const { onEndpointRemoved, drainTimeoutMs } = service;
    if (onEndpointRemoved === undefined && drainTimeoutMs === undefined) this.#wishes.delete(name);
    else this.#wishes.set(name, service);
  }

  /** Whether the default or a Service asks for resets, or connections to an endpoint are or will be reset. */
  #isNeeded(): boolean {
    if (this.#parts.byDefault) return true;
    for (const { onEndpointRemoved, drainTimeoutMs } of this.#wishes.values())
      if (onEndpointRemoved === "reset" || drainTimeoutMs !== undefined) return true;
    const now = this.#parts.now();
    return FAMILIES.some((family) => [...this.#gone[family].values()].some((one) => now < this.#end(one)));
  }

  #forget(): void {
    this.#isTracking = false;
    this.#unneededSince = undefined;
    this.#slices.clear();
    for (const family of FAMILIES)
      for (const known of [this.#named, this.#leaving, this.#gone]) known[family].clear();
  }

  #compare(services: readonly ServiceName[]): void {
    const left: Left[] = [];
    for (const service of services) {
      const before = new Set(this.#slices.get(service));
      const after = new Set(this.#parts.cache.slices(service));
      if (after.size === 0) this.#slices.delete(service);
      else this.#slices.set(service, [...after]);
      const added = [...after].filter((slice) => !before.has(slice));
      for (const slice of added) this.#name(slice);
      const kept = new Set(added.flatMap(namesIn));
      for (const slice of before) if (!after.has(slice)) left.push(...this.#unname(slice, kept));
    }
    const drained = new Set(this.#drained.map(({ target }) => target));
    const now = this.#parts.now();
    for (const { family, target, services: those, isKept } of left.flatMap(atEachPort)) {
      const name = this.#nameOf(family, target);
      if (name !== undefined) {
        this.#noteLeaving(family, name, { services: those, isKept });
        continue;
      }
      // If its connections are already being reset, they continue to be, without a delay.
      if (drained.has(target))
        this.#add({ family, target, services: those, leftAt: now - this.#parts.delayMs });
      else if (!isKept) this.#add({ family, target, services: those, leftAt: now });
    }
  }

  #keepsConnections(service: ServiceName): boolean {
    const wish = this.#wishes.get(service)?.onEndpointRemoved;
    return wish === undefined ? !this.#parts.byDefault : wish === "keep";
  }

  #findCandidates(): readonly VanishedEndpoint[] {
    return this.draining.drainedByAll((family, target) => {
      const named = this.#named[family];
      return (named.get(target) ?? 0) + (named.get(addressOf(target)) ?? 0);
    });
  }

  /** Whether the default or a Service asks for resets, so that endpoints are tracked. */
  get isTracking(): boolean {
    return this.#isTracking;
  }

  /** Returns true if an EndpointSlice names a target. */
  isNamed(family: Family, target: string): boolean {
    return this.#nameOf(family, target) !== undefined;
  }

  /**
   * Selects the targets to which connections may be reset: only Services that drain them name them, or none.
   */
  resettable(family: Family, targets: readonly string[]): ReadonlySet<string> {
    if (!this.#isTracking) return new Set();
    const draining = new Set(this.#findCandidates().map(({ target }) => target));
    return new Set(targets.filter((target) => !this.isNamed(family, target) || draining.has(target)));
  }

  /**
   * Adopts an endpoint that an earlier process reset connections to, unless it is known, or named by a
   * Service that does not drain it.
   * @param remaining the time for which its connections are still reset, milliseconds
   */
  adopt(family: Family, target: string, remaining: number): void {
    const { now, delayMs } = this.#parts;
    if (remaining <= 0) return;
    const begin = now() - VANISHED_PERIOD + Math.min(remaining, VANISHED_PERIOD);
    if (this.isNamed(family, target)) this.draining.adopt(target, begin);
    else this.#addMissed({ family, target, services: [], leftAt: begin - delayMs });
  }

  /** Adds an endpoint that left while no process was running, unless it is known, named or kept. */
  addMissed(family: Family, target: string, services: readonly ServiceName[]): void {
    const isKept =
      services.length === 0 ? !this.#parts.byDefault : services.some((one) => this.#keepsConnections(one));
    if (!isKept) this.#addMissed({ family, target, services, leftAt: this.#parts.now() });
  }

  /** Returns the endpoints whose connections are reset, oldest first in each family. */
  held(): VanishedEndpoint[] {
    const now = this.#parts.now();
    return FAMILIES.flatMap((family) =>
      fairShare(
        [...this.#gone[family].values(), ...this.#drained.filter((one) => one.family === family)]
          .filter((one) => this.#isDue(one, now))
          .sort((a, b) => this.#begin(a) - this.#begin(b)),
      ),
    );
  }

  /** Puts the endpoints whose connections are reset into a desired state. */
  putInto(state: Pick<RulesetState, "families">): void {
    const { families } = state;
    this.#putAt = this.#parts.now();
    this.#candidates = this.#findCandidates();
    const receives = receivers(this.#parts.cache, state);
    this.#drained = this.#candidates.filter(
      (one) => this.#isDue(one, this.#putAt) && !one.services.some((name) => receives(name, one.target)),
    );
    const held = this.held();
    for (const family of FAMILIES) {
      const own = held.filter((one) => one.family === family);
      families[family]?.setVanished(new Set(own.map(({ target }) => target)));
    }
  }

  /**
   * Returns the next time at which {@link VanishedEndpoints.putInto} has another result, on the monotonic
   * clock. It may have passed already; undefined for never.
   */
  nextChangeAt(): number | undefined {
    let next = this.draining.nextDueAfter(this.#putAt);
    const all = [...FAMILIES.flatMap((family) => [...this.#gone[family].values()]), ...this.#candidates];
    for (const one of all) {
      const at = [this.#begin(one), this.#end(one)].find((moment) => moment > this.#putAt);
      if (at !== undefined && (next === undefined || at < next)) next = at;
    }
    return next;
  }

  #isDue(endpoint: VanishedEndpoint, now: number): boolean {
    return this.#begin(endpoint) <= now && now < this.#end(endpoint);
  }

  #begin({ leftAt, isDrained }: VanishedEndpoint): number {
    return isDrained ? leftAt : leftAt + this.#parts.delayMs;
  }

  #end(endpoint: VanishedEndpoint): number {
    return this.#begin(endpoint) + VANISHED_PERIOD;
  }

  #name(slice: EndpointSlice): void {
    const { family } = slice;
    const [named, gone] = [this.#named[family], this.#gone[family]];
    for (const name of namesIn(slice)) {
      named.set(name, (named.get(name) ?? 0) + 1);
      gone.delete(name);
    }
    if (hasManyPorts(slice))
      for (const target of gone.keys()) if (this.isNamed(family, target)) gone.delete(target);
  }

  /** The target, or its address, as EndpointSlices name it; undefined if none does. */
  #nameOf(family: Family, target: string): string | undefined {
    return [target, addressOf(target)].find((name) => this.#named[family].has(name));
  }

  /** Records that Services left a target that others still name. */
  #noteLeaving(family: Family, name: string, { services, isKept }: Leaving): void {
    const before = this.#leaving[family].get(name);
    const others = (before?.services ?? []).filter((one) => !services.includes(one));
    this.#leaving[family].set(name, {
      services: [...others, ...services].slice(-MOST_SERVICES),
      isKept: isKept || before?.isKept === true,
    });
  }

  /**
   * Returns the targets that nothing names any more.
   * @param kept targets that the Service has in other slices
   */
  #unname(slice: EndpointSlice, kept: ReadonlySet<string>): Left[] {
    const { family, service } = slice;
    const [named, leaving] = [this.#named[family], this.#leaving[family]];
    const keeps = this.#keepsConnections(service);
    const ports = hasManyPorts(slice) ? tcpPorts(slice) : undefined;
    // More targets could not be reset.
    const most = Math.ceil(MOST_VANISHED / slice.endpoints.length);
    return namesIn(slice).flatMap((target) => {
      const count = (named.get(target) ?? 0) - 1;
      const left = { services: [service], isKept: keeps };
      if (count > 0) {
        named.set(target, count);
        if (!kept.has(target)) this.#noteLeaving(family, target, left);
        return [];
      }
      this.#noteLeaving(family, target, left);
      const all = leaving.get(target) ?? left;
      named.delete(target);
      leaving.delete(target);
      return [{ family, target, ports: ports?.slice(0, most), ...all }];
    });
  }

  /** Adds an endpoint, and deletes those whose time is over and, if there are far too many, the excess. */
  #add(endpoint: VanishedEndpoint): void {
    const gone = this.#gone[endpoint.family];
    gone.delete(endpoint.target);
    gone.set(endpoint.target, endpoint);
    const now = this.#parts.now();
    for (const [target, oldest] of gone) {
      if (now < this.#end(oldest)) break;
      gone.delete(target);
    }
    if (gone.size <= 2 * MOST_VANISHED) return;
    const left = fairShare([...gone.values()]);
    gone.clear();
    for (const one of left) gone.set(one.target, one);
  }

  #addMissed(endpoint: VanishedEndpoint): void {
    const { family, target } = endpoint;
    if (this.#isTracking && !this.isNamed(family, target) && !this.#gone[family].has(target))
      this.#add(endpoint);
  }
}

/** A target that a slice was the last to name, or an address with the ports of the slice. */
interface Left extends Leaving {
  readonly family: Family;
  readonly target: string;
  readonly ports: readonly number[] | undefined;
}

function atEachPort({ ports, target, ...left }: Left): readonly Omit<Left, "ports">[] {
  if (ports === undefined) return [{ ...left, target }];
  return ports.map((port) => ({ ...left, target: joinParts(target, port) }));
}

function hasManyPorts(slice: EndpointSlice): boolean {
  return tcpPorts(slice).length > MOST_PORTS;
}

/** Returns the names that a slice counts for: its TCP targets, or its addresses if it has many ports. */
function namesIn(slice: EndpointSlice): string[] {
  const ports = tcpPorts(slice);
  const isMany = ports.length > MOST_PORTS;
  return slice.endpoints.flatMap(({ address }) =>
    isMany ? [address] : ports.map((port) => joinParts(address, port)),
  );
}

function addressOf(target: string): string {
  return splitParts(target)[0] ?? "";
}

/**
 * Returns the endpoints that the set has room for. If there are too many, the namespaces with the most lose
 * their oldest, so that no tenant displaces another's.
 * @param endpoints oldest first
 */
function fairShare(endpoints: VanishedEndpoint[]): VanishedEndpoint[] {
  if (endpoints.length <= MOST_VANISHED) return endpoints;
  const groupOf = ({ services: [first] }: VanishedEndpoint) =>
    first === undefined ? "" : namespaceOf(first);
  const counts = new Map(Array.from(groupBy(endpoints, groupOf), ([name, all]) => [name, all.length]));
  const excess = new Map(excessOver(counts, MOST_VANISHED));
  return endpoints.filter((one) => {
    const surplus = excess.get(groupOf(one)) ?? 0;
    if (surplus > 0) excess.set(groupOf(one), surplus - 1);
    return surplus === 0;
  });
}

/**
 * Returns a tracker of all EndpointSlices of a cache, without a delay, for comparisons with the kernel.
 * @param now monotonic clock, milliseconds
 * @param byDefault as {@link VanishedEndpointsParts.byDefault}
 */
export function allSlicesOf(cache: ObjectCache, now: () => number, byDefault: boolean): VanishedEndpoints {
  const vanished = new VanishedEndpoints({ cache, now, delayMs: 0, byDefault });
  vanished.update(new Set([...cache.serviceNames(), ...cache.allSlices().map(({ service }) => service)]));
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
  const adopted = vanished.isTracking ? Object.values(kernel) : [];
  for (const table of adopted) {
    for (const { target, expires } of await remembered(tables, table)) {
      vanished.adopt(table.family, target, 1000 * (expires - VANISHED_MARGIN));
    }
    addMissed(vanished, table, state);
  }
  vanished.putInto(state);
}

/**
 * Returns the elements in the kernel in the order in which they expire. None if they cannot be read: the sync
 * must not fail.
 */
async function remembered(tables: Pick<TableReader, "elements">, { family, sets }: Table) {
  const set = sets.get(VANISHED);
  if (set === undefined || set.elements.size === 0) return [];
  try {
    return (await readEndingTargets(tables, family, set.spec)).sort((a, b) => a.expires - b.expires);
  } catch (error) {
    if (error instanceof AppError && !(error instanceof NftStoppedError)) return [];
    throw error;
  }
}

function addMissed(vanished: VanishedEndpoints, { family, sets }: Table, state: RulesetState): void {
  const frontends = new Map<number, string>();
  for (const [frontend, id] of sets.get(LISTS)?.elements ?? []) {
    const { servicePort } = parseId(Number(id)) ?? {};
    if (servicePort !== undefined) frontends.set(servicePort, frontend);
  }
  for (const [key, target] of sets.get(ENDPOINTS)?.elements ?? []) {
    if (vanished.isNamed(family, target)) continue;
    const frontend = frontends.get(parseId(Number.parseInt(key, 10))?.servicePort ?? 0);
    if (frontend === undefined || parseFrontendKey(frontend).protocol !== "tcp") continue;
    const owner = state.families[family]?.ownerOf(frontend);
    vanished.addMissed(family, target, owner === undefined ? [] : [owner.service.name]);
  }
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
