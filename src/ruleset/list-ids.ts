import type { ServicePortKey } from "../model/ids.ts";
import { joinParts } from "../nft/elements.ts";
import { AFFINITY_IDS, type FrontendKind } from "./sets.ts";

/**
 * The numbers that stand for the endpoints of a service port, in `meta priority` and in maps. A service port has an id, to
 * which is added the way by which a connection comes: that is a list id. With session affinity, an id has room for the
 * ids of endpoints, of which the client's is remembered:
 *
 *     without affinity   1 0 n n n n n n n n n n n n n n  n n n n n n n n n n n n n n w w
 *     with affinity      1 1 n n n n n n n n n n n n n n  n n e e e e e e e e e e e e e e
 *
 * n: number of the service port, from 1; w: way; e: way (0 to 3), or endpoint (4 to 16383).
 */

/** All values that we put into `meta priority` are at least this, so that others' priorities are told from ours and stay. */
export const LEAST_REGISTER_VALUE = 0x8000_0000;

const FIRST_STICKY = 0xc000_0000;
const PLAIN_STEP = 4;
const STICKY_STEP = 0x4000;

/** The bits of a list or endpoint id that are the service port's, with session affinity. */
export const STICKY_MASK = 0x1_0000_0000 - STICKY_STEP;

/** The most service ports of one family that can have session affinity. */
export const MOST_STICKY_PORTS = 0x4000_0000 / STICKY_STEP - 1;
/**
 * The most without: more than a node could hold, and few enough that a number beyond it, which the kernel has from somebody
 * else, is told from ours.
 */
export const MOST_PLAIN_PORTS = 0x40_0000 - 1;

/** The ids of endpoints are the service port's and one of these. */
export const FIRST_ENDPOINT = PLAIN_STEP;
/** The most endpoints of a service port with session affinity. */
export const MOST_STICKY_ENDPOINTS = STICKY_STEP - FIRST_ENDPOINT;

/**
 * The ways by which connections come to a service port: to its endpoints of the whole cluster or of this node alone, or
 * from outside, by an external policy of Cluster or Local.
 */
export type Way = "cluster" | "local" | "external-cluster" | "external-local";

export const WAYS = [
  "cluster",
  "local",
  "external-cluster",
  "external-local",
] as const satisfies readonly Way[];

/** The lists of a service port: of the endpoints of the whole cluster, and of this node. */
export type ListName = "cluster" | "local";

export const LIST_NAMES = ["cluster", "local"] as const satisfies readonly ListName[];

/** The bits of a way. */
export const LOCAL_BIT = 1;
export const EXTERNAL_BIT = 2;

/** Masks that lead from an external way to the list of the whole cluster, or to the one of its policy. */
export const TO_CLUSTER_LIST = 0xffff_fffc;
export const TO_OWN_LIST = 0xffff_ffff - EXTERNAL_BIT;

/** The id of a list, or of an external way to it. */
export function listId(servicePortId: number, way: Way): number {
  return servicePortId + WAYS.indexOf(way);
}

/** Where the numbers of a list begin in `affinity-ids`, in which both lists of a service port have its own id. */
export const FIRST_STICKY_NUMBER: Readonly<Record<ListName, number>> = { cluster: 0, local: 0x1_0000 };

/** What an endpoint's id has beside it in `endpoints`, for each list that the endpoint is in. */
export const MEMBERSHIP: Readonly<Record<ListName, number>> = { cluster: 0, local: 1 };

/**
 * What the service port's id has beside it in the keys of clients, for a service port whose connections come to both lists:
 * a client has an entry for each. Where they come to one list alone, it is that of the cluster.
 */
export const CLIENTS_OF: Readonly<Record<ListName, number>> = { cluster: 0, local: LOCAL_BIT };

/** The map in which a balancing chain looks a number of a list up, from 0, and the key there. */
export function numberElement(
  servicePortId: number,
  list: ListName,
  number: number,
  isSticky: boolean,
  { endpoints }: Pick<FrontendKind, "endpoints">,
): { readonly set: FrontendKind["endpoints"] | typeof AFFINITY_IDS; readonly key: string } {
  return isSticky
    ? { set: AFFINITY_IDS, key: joinParts(servicePortId, FIRST_STICKY_NUMBER[list] + number) }
    : { set: endpoints, key: joinParts(listId(servicePortId, list), number) };
}

/** The key in `endpoints` under which a balancing chain with affinity finds an endpoint of a list. */
export function memberKey(endpointId: number, list: ListName): string {
  return joinParts(endpointId, MEMBERSHIP[list]);
}

/** A list or endpoint id, read. */
export interface ParsedId {
  /** The id of the service port. */
  readonly servicePort: number;
  readonly isSticky: boolean;
  /** The way of a list id; undefined for an endpoint id. */
  readonly way: Way | undefined;
}

/** Reads a list or endpoint id; undefined for a number that is none. */
export function parseId(id: number): ParsedId | undefined {
  if (id < LEAST_REGISTER_VALUE + PLAIN_STEP) return undefined;
  const isSticky = id >= FIRST_STICKY;
  if (isSticky && id < FIRST_STICKY + STICKY_STEP) return undefined;
  const rest = id % (isSticky ? STICKY_STEP : PLAIN_STEP);
  const servicePort = id - rest;
  if (!isSticky && listNumber(servicePort) > MOST_PLAIN_PORTS) return undefined;
  return { servicePort, isSticky, way: WAYS[rest] };
}

/** The number of a service port by which people know its lists: `list 17`. */
export function listNumber(servicePortId: number): number {
  return servicePortId >= FIRST_STICKY
    ? (servicePortId - FIRST_STICKY) / STICKY_STEP
    : (servicePortId - LEAST_REGISTER_VALUE) / PLAIN_STEP;
}

/**
 * Ids of one kind: used again only after the transaction that took them out of the kernel. It holds as many numbers as there
 * are ids, however large those are that the kernel has.
 */
class IdPool {
  readonly #first: number;
  readonly #step: number;
  readonly #most: number;
  readonly #holds: boolean;
  /** The least number that was not given yet: ids of lower ones are taken, free or released. */
  #next = 1;
  /** The ids from there on that are taken: adopted from a kernel that has higher numbers. */
  #ahead = new Set<number>();
  #free: number[] = [];
  /** Free once the kernel has them no more. */
  #released = new Set<number>();
  /** The kernel has them no more, but may remember clients of theirs. */
  readonly #held = new Set<number>();

  /** @param holds whether ids that the kernel has no more are free only when their clients are forgotten */
  constructor(first: number, step: number, most: number, holds: boolean) {
    this.#first = first;
    this.#step = step;
    this.#most = most;
    this.#holds = holds;
  }

  get held(): ReadonlySet<number> {
    return this.#held;
  }

  /** Undefined when all are taken. Those that are held, or were released just now, are the last resort. */
  take(): number | undefined {
    const free = this.#free.pop();
    if (free !== undefined) return free;
    this.#skip();
    if (this.#next <= this.#most) return this.#idOf(this.#next++);
    const [[held], [released]] = [this.#held, this.#released];
    const last = held ?? released;
    if (last !== undefined && !this.#held.delete(last)) this.#released.delete(last);
    return last;
  }

  get hasMore(): boolean {
    this.#skip();
    return this.#free.length + this.#held.size + this.#released.size > 0 || this.#next <= this.#most;
  }

  release(id: number): void {
    this.#ahead.delete(id);
    this.#released.add(id);
  }

  /** Takes an id again that was released just now. @returns false when it was not */
  reclaim(id: number): boolean {
    const isReleased = this.#released.delete(id);
    if (isReleased && !this.#isPassed(id)) this.#ahead.add(id);
    return isReleased;
  }

  committed(): void {
    for (const id of this.#released) {
      if (this.#holds) this.#held.add(id);
      else this.#setFree(id);
    }
    this.#released.clear();
  }

  forgotten(ids: Iterable<number>): void {
    for (const id of ids) if (this.#held.delete(id)) this.#setFree(id);
  }

  /** Starts over with ids that are taken, and some that the kernel still has. */
  reset(taken: ReadonlySet<number>, kernel: ReadonlySet<number>): void {
    this.#next = 1;
    this.#free = [];
    this.#held.clear();
    this.#ahead = new Set(taken);
    this.#released = new Set([...kernel].filter((id) => !taken.has(id)));
    this.#skip();
  }

  /** Passes numbers that cannot be given. */
  #skip(): void {
    const isPassed = (id: number) => this.#ahead.delete(id) || this.#released.has(id) || this.#held.has(id);
    while (isPassed(this.#idOf(this.#next))) this.#next++;
  }

  /** One that was not passed yet is found again. */
  #setFree(id: number): void {
    if (this.#isPassed(id)) this.#free.push(id);
  }

  #isPassed(id: number): boolean {
    return id < this.#idOf(this.#next);
  }

  #idOf(number: number): number {
    return this.#first + this.#step * number;
  }
}

/**
 * The ids of the service ports of one family: dense, freed and used again. No id is used again before the kernel has lost
 * its elements: a packet that is under way while a transaction comes into force may still carry it.
 */
export class ListIds {
  readonly #plain = new IdPool(LEAST_REGISTER_VALUE, PLAIN_STEP, MOST_PLAIN_PORTS, false);
  readonly #sticky: IdPool;
  readonly #mostSticky: number;
  readonly #ids = new Map<ServicePortKey, number>();
  /** The ids that service ports had until now: one that comes back before the kernel has lost its elements has them again. */
  readonly #lapsed = new Map<ServicePortKey, number>();

  /** @param mostSticky how many service ports can have session affinity: {@link MOST_STICKY_PORTS}, fewer in tests */
  constructor(mostSticky = MOST_STICKY_PORTS) {
    this.#mostSticky = mostSticky;
    this.#sticky = new IdPool(FIRST_STICKY, STICKY_STEP, mostSticky, true);
  }

  /** A copy that can be changed without changing this. */
  copy(): ListIds {
    const copy = new ListIds(this.#mostSticky);
    copy.adopt(this.#ids, new Set());
    for (const [key, id] of this.#ids) copy.#ids.set(key, id);
    return copy;
  }

  /**
   * Ids with session affinity that service ports had, and that nobody gets while others are left: the kernel may remember
   * clients of theirs.
   */
  get held(): ReadonlySet<number> {
    return this.#sticky.held;
  }

  /** The kernel remembers no clients of these ids, which may be given again. */
  forgotten(ids: Iterable<number>): void {
    this.#sticky.forgotten(ids);
  }

  /** The id of a service port; undefined when it has none. */
  of(key: ServicePortKey): number | undefined {
    return this.#ids.get(key);
  }

  /** Whether a service port has an id of a kind, or could get one. */
  hasFor(key: ServicePortKey, isSticky: boolean): boolean {
    const known = this.#ids.get(key);
    return (known !== undefined && known >= FIRST_STICKY === isSticky) || this.#pool(isSticky).hasMore;
  }

  /** Gives a service port an id, in place of one of the other kind. @returns undefined when there are no more */
  assign(key: ServicePortKey, isSticky: boolean): number | undefined {
    const known = this.#ids.get(key);
    if (known !== undefined && known >= FIRST_STICKY === isSticky) return known;
    const id = this.#reclaim(key, isSticky) ?? this.#pool(isSticky).take();
    if (id === undefined) return undefined;
    this.release(key);
    this.#ids.set(key, id);
    return id;
  }

  /** Takes the id of a service port away. */
  release(key: ServicePortKey): void {
    const id = this.#ids.get(key);
    if (id === undefined) return;
    this.#ids.delete(key);
    this.#lapsed.set(key, id);
    this.#pool(id >= FIRST_STICKY).release(id);
  }

  /** The kernel has what the ids stand for now, and nothing of those that were released. */
  committed(): void {
    this.#plain.committed();
    this.#sticky.committed();
    this.#lapsed.clear();
  }

  /**
   * Gives service ports the ids that they have in the kernel, and the others ids that the kernel does not have.
   * @param wanted an id of the right kind for each that is known there, no id twice
   * @param kernel all ids in the kernel
   * @returns the service ports whose ids changed
   */
  adopt(wanted: ReadonlyMap<ServicePortKey, number>, kernel: ReadonlySet<number>): ServicePortKey[] {
    const changed: ServicePortKey[] = [];
    const taken = new Set(wanted.values());
    const homeless: ServicePortKey[] = [];
    for (const [key, id] of this.#ids) {
      const own = wanted.get(key);
      if (own === id) continue;
      if (own === undefined && !kernel.has(id) && !taken.has(id)) {
        taken.add(id);
        continue;
      }
      changed.push(key);
      if (own === undefined) homeless.push(key);
      else this.#ids.set(key, own);
    }
    const kinds = new Map(homeless.map((key) => [key, (this.#ids.get(key) ?? 0) >= FIRST_STICKY]));
    for (const isSticky of [true, false]) {
      const ofKind = (ids: Iterable<number>) =>
        new Set([...ids].filter((id) => id >= FIRST_STICKY === isSticky));
      this.#pool(isSticky).reset(ofKind(taken), ofKind(kernel));
    }
    for (const key of homeless) this.#ids.set(key, this.#pool(kinds.get(key) === true).take() ?? 0);
    return changed;
  }

  #reclaim(key: ServicePortKey, isSticky: boolean): number | undefined {
    const id = this.#lapsed.get(key);
    return id !== undefined && id >= FIRST_STICKY === isSticky && this.#pool(isSticky).reclaim(id)
      ? id
      : undefined;
  }

  #pool(isSticky: boolean): IdPool {
    return isSticky ? this.#sticky : this.#plain;
  }
}
