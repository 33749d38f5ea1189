import type { Family } from "../../base/family.ts";
import { addToCount, addToGroup } from "../../base/group-by.ts";
import type { Endpoint } from "../../model/endpoint.ts";
import type { EndpointSlice } from "../../model/endpoint-slice.ts";
import { namespaceOf, type ServiceName } from "../../model/ids.ts";
import { familyOf } from "../../model/ip.ts";
import type { ObjectCache } from "../../model/object-cache.ts";
import type { Service } from "../../model/service.ts";
import { servicePortsOf } from "../../model/service-port.ts";
import { joinParts, splitParts } from "../../nft/elements.ts";
import type { ServicePortLists } from "../../ruleset/endpoint-list.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";
import { connectionLifeOf } from "./life.ts";
import { tcpPorts } from "./named-targets.ts";
import { MOST_VANISHED } from "./rules.ts";

/** An address whose endpoints of a Service with a drain timeout all terminate. */
export interface DrainingEndpoint {
  readonly family: Family;
  readonly service: ServiceName;
  readonly address: string;
  /** When this process first saw it terminate. The clock is that of {@link VanishedEndpoint.leftAt}. */
  readonly since: number;
  /** When its drain timeout is over. */
  readonly dueAt: number;
}

/**
 * Maximum number of TCP targets that are remembered of one namespace, both families together: more cannot be
 * reset at a time. Every sync looks at all of them, and slices may name more than the budget of a Service.
 */
const MOST_TARGETS = 2 * MOST_VANISHED;

/**
 * {@link DrainingEndpoint}, with its TCP targets. Only the first {@link MOST_PORTS} TCP ports of a slice
 * count, and {@link MOST_TARGETS} targets of a namespace.
 */
interface Draining extends DrainingEndpoint {
  readonly targets: ReadonlySet<string>;
}

/** A TCP target of an endpoint, and when the drain timeouts of Services for it were over. */
export interface DrainedTarget {
  readonly family: Family;
  /** `address . port` */
  readonly target: string;
  readonly dueAt: ReadonlyMap<ServiceName, number>;
}

/**
 * Remembers since when the endpoints of Services with a drain timeout terminate. EndpointSlices have no such
 * time. An address terminates if all entries of the Service that name it do.
 */
export class DrainingEndpoints {
  readonly #cache: ObjectCache;
  readonly #now: () => number;
  /** By Service and address; only Services with such addresses. */
  readonly #services = new Map<ServiceName, Map<string, Draining>>();
  /** The number of targets that are remembered of each namespace. */
  readonly #targetCounts = new Map<string, number>();

  /** @param now monotonic clock, milliseconds */
  constructor(cache: ObjectCache, now: () => number) {
    this.#cache = cache;
    this.#now = now;
  }

  /**
   * Reads the current EndpointSlices of a Service. If its namespace has too many targets, those that
   * terminate for the longest time are remembered.
   */
  update(service: ServiceName): void {
    const namespace = namespaceOf(service);
    const timeout = this.#timeoutOf(service);
    const before = this.#services.get(service);
    this.#services.delete(service);
    if (before !== undefined) addToCount(this.#targetCounts, namespace, -targetCount(before));
    if (timeout === undefined) return;
    const now = this.#now();
    const sinceOf = (address: string) => before?.get(address)?.since ?? now;
    const slices = this.#cache.slices(service);
    const oldestFirst = [...terminating(slices)].sort((a, b) => sinceOf(a) - sinceOf(b));
    const room = MOST_TARGETS - (this.#targetCounts.get(namespace) ?? 0);
    const after = new Map<string, Draining>();
    for (const [address, targets] of targetsAt(oldestFirst, slices, room)) {
      const since = sinceOf(address);
      after.set(address, {
        family: familyOf(address),
        service,
        address,
        since,
        dueAt: since + timeout,
        targets,
      });
    }
    if (after.size === 0) return;
    this.#services.set(service, after);
    addToCount(this.#targetCounts, namespace, targetCount(after));
  }

  #timeoutOf(name: ServiceName): number | undefined {
    const service = this.#cache.service(name);
    return service && connectionLifeOf(service).drainTimeoutMs;
  }

  /** All draining endpoints, by Service. */
  endpoints(): DrainingEndpoint[] {
    return Array.from(this.#all(), ({ targets: _, ...endpoint }) => endpoint);
  }

  *#all(): Generator<Draining> {
    for (const addresses of this.#services.values()) yield* addresses.values();
  }

  /** Returns the TCP targets for which the drain timeout of a Service ends until a given time. */
  drainedUntil(moment: number): readonly DrainedTarget[] {
    const found = new Map<string, DrainedTarget & { readonly dueAt: Map<ServiceName, number> }>();
    for (const { family, service, dueAt, targets } of this.#all()) {
      if (dueAt > moment) continue;
      for (const target of targets) {
        const known = found.get(target);
        if (known === undefined) found.set(target, { family, target, dueAt: new Map([[service, dueAt]]) });
        else known.dueAt.set(service, dueAt);
      }
    }
    return [...found.values()];
  }

  /** Adopts from an earlier process that the drain timeout of a target is over. @param dueAt when it ended */
  adopt(target: string, dueAt: number): void {
    const [address = ""] = splitParts(target);
    for (const [service, addresses] of this.#services) {
      const timeout = this.#timeoutOf(service) ?? 0;
      const one = addresses.get(address);
      if (one?.targets.has(target)) addresses.set(address, { ...one, since: dueAt - timeout, dueAt });
    }
  }

  /**
   * Returns a function that tells whether the drain timeout of a Service's endpoint is over and rules send it
   * no new connections.
   */
  drainedBy(state: Pick<RulesetState, "families">) {
    const receives = receivers(this.#cache, state);
    return (service: ServiceName, { address, target }: Pick<Endpoint, "address" | "target">): boolean => {
      const dueAt = this.#services.get(service)?.get(address)?.dueAt;
      return dueAt !== undefined && dueAt <= this.#now() && !receives(service, target);
    };
  }

  /** The first end of a drain timeout after a given time; infinity for none. */
  nextDueAfter(moment: number): number {
    let next = Number.POSITIVE_INFINITY;
    for (const { dueAt } of this.#all()) if (dueAt > moment) next = Math.min(next, dueAt);
    return next;
  }
}

/** The targets that get new connections of a Service, and its lists that have them. */
interface Receiving {
  readonly lists: readonly (ServicePortLists | undefined)[];
  readonly targets: ReadonlySet<string>;
}

/**
 * Kept until the Service is rendered again, because a Service may have 150,000 targets, and every sync needs
 * those of each Service that drains an endpoint.
 */
const receiving = new WeakMap<Service, Receiving>();

/**
 * Returns a function that tells whether rules send new connections to a target of a Service: then its
 * connections are kept, because no other endpoint could take them.
 */
export function receivers(
  cache: ObjectCache,
  { families }: Pick<RulesetState, "families">,
): (service: ServiceName, target: string) => boolean {
  const known = new Map<ServiceName, ReadonlySet<string>>();
  const targetsOf = (name: ServiceName): ReadonlySet<string> => {
    const service = cache.service(name);
    if (service === undefined) return NO_TARGETS;
    const lists = servicePortsOf(service).map(
      ({ family, key }) => families[family]?.servicePortRules(key)?.lists,
    );
    const before = receiving.get(service);
    if (before?.lists.every((one, index) => one === lists[index])) return before.targets;
    const targets = new Set(
      lists.flatMap((one) => [...(one?.cluster?.targets ?? []), ...(one?.local?.targets ?? [])]),
    );
    receiving.set(service, { lists, targets });
    return targets;
  };
  return (service, target) => {
    const targets = known.get(service) ?? targetsOf(service);
    known.set(service, targets);
    return targets.has(target);
  };
}

/** Finds the addresses whose entries all terminate. */
function terminating(slices: readonly EndpointSlice[]): ReadonlySet<string> {
  const found = new Set<string>();
  for (const { endpoints } of slices) {
    for (const { address, terminating: isEnding } of endpoints) if (isEnding) found.add(address);
  }
  if (found.size === 0) return found;
  for (const { endpoints } of slices) {
    for (const { address, terminating: isEnding } of endpoints) if (!isEnding) found.delete(address);
  }
  return found;
}

const NO_TARGETS: ReadonlySet<string> = new Set();

/**
 * Finds the targets of some addresses in slices.
 * @param room maximum number of targets; the first addresses get it
 */
function targetsAt(
  addresses: readonly string[],
  slices: readonly EndpointSlice[],
  room: number,
): ReadonlyMap<string, ReadonlySet<string>> {
  const found = new Map<string, ReadonlySet<string>>();
  for (const address of addresses) found.set(address, NO_TARGETS);
  if (found.size === 0) return found;
  const portsAt = new Map<string, (readonly number[])[]>();
  for (const slice of slices) {
    const numbers = tcpPorts(slice).slice(0, MOST_PORTS);
    for (const { address } of slice.endpoints) if (found.has(address)) addToGroup(portsAt, address, numbers);
  }
  let left = room;
  for (const address of addresses) {
    const ports = [...new Set(portsAt.get(address)?.flat())].slice(0, left);
    if (ports.length > 0) found.set(address, new Set(ports.map((port) => joinParts(address, port))));
    left -= ports.length;
  }
  return found;
}

function targetCount(addresses: ReadonlyMap<string, Draining>): number {
  let count = 0;
  for (const { targets } of addresses.values()) count += targets.size;
  return count;
}

/**
 * Maximum number of TCP ports of an EndpointSlice whose targets are remembered one by one: 100 ports of 1,000
 * endpoints would take 10 MB. No budget of Services limits the ports of a slice.
 */
const MOST_PORTS = 16;
