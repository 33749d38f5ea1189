import type { ServicePortKey } from "../model/ids.ts";
import { joinParts } from "../nft/elements.ts";
import type { FrontendKind } from "./frontend-kinds.ts";
import { AFFINITY_IDS } from "./sets.ts";

/**
 * The numbers that represent the endpoints of a service port in `meta priority` and in maps. A list id is the
 * id of a service port plus the way of the connection. With session affinity, an id has room for the ids of
 * endpoints; the client's is remembered:
 *
 *     without affinity   1 0 n n n n n n n n n n n n n n  n n n n n n n n n n n n n n w w
 *     with affinity      1 1 n n n n n n n n n n n n n n  n n e e e e e e e e e e e e e e
 *
 * n: number of the service port, from 1; w: way; e: way (0 to 3), or endpoint (4 to 16383).
 */

/** Minimum of our values in `meta priority`. Priorities of other software are smaller, and stay. */
export const LEAST_REGISTER_VALUE = 0x8000_0000;

const FIRST_STICKY = 0xc000_0000;
const PLAIN_STEP = 4;
const STICKY_STEP = 0x4000;

/** With session affinity, the bits of an id that identify the service port. */
export const STICKY_MASK = 0x1_0000_0000 - STICKY_STEP;

/** Maximum number of service ports with session affinity in one family. */
export const MOST_STICKY_PORTS = 0x4000_0000 / STICKY_STEP - 1;
/** The same without session affinity: more than a node could hold. Larger numbers are not ours. */
export const MOST_PLAIN_PORTS = 0x40_0000 - 1;

/** The numbers to add to a service port's id for the ids of its endpoints. */
export const FIRST_ENDPOINT = PLAIN_STEP;
/** Maximum number of endpoints of a service port with session affinity. */
export const MOST_STICKY_ENDPOINTS = STICKY_STEP - FIRST_ENDPOINT;

/**
 * The ways of connections to a service port: to its endpoints of the whole cluster or of this node, or from
 * outside, by an external policy of "Cluster" or "Local".
 */
export const WAYS = ["cluster", "local", "external-cluster", "external-local"] as const;

export type Way = (typeof WAYS)[number];

/** The lists of a service port: the endpoints of the whole cluster, and those of this node. */
export const LIST_NAMES = ["cluster", "local"] as const;

export type ListName = (typeof LIST_NAMES)[number];

/** The bits of a way. */
export const LOCAL_BIT = 1;
export const EXTERNAL_BIT = 2;

/** Masks that turn an external way into the list of the whole cluster, or of its policy. */
export const TO_CLUSTER_LIST = 0xffff_fffc;
export const TO_OWN_LIST = 0xffff_ffff - EXTERNAL_BIT;

/** The id of a list, or of an external way to it. */
export function listId(servicePortId: number, way: Way): number {
  return servicePortId + WAYS.indexOf(way);
}

/** The second part of keys in `endpoints`, for each list that has the endpoint. */
export const MEMBERSHIP: Readonly<Record<ListName, number>> = { cluster: 0, local: 1 };

/**
 * Added to the service port's id in the keys of clients. If connections use both lists, a client has an entry
 * for each. If they use only one list, the number is always the cluster's.
 */
export const CLIENTS_OF: Readonly<Record<ListName, number>> = { cluster: 0, local: LOCAL_BIT };

/** The map and key by which a balancing chain looks up a number of a list, from 0. */
export function numberElement(
  servicePortId: number,
  list: ListName,
  number: number,
  isSticky: boolean,
  { endpoints }: Pick<FrontendKind, "endpoints">,
): { readonly set: string; readonly key: string } {
  const key = joinParts(listId(servicePortId, list), number);
  return { set: isSticky ? AFFINITY_IDS : endpoints, key };
}

/** The key in `endpoints` of an endpoint of a list with affinity. */
export function memberKey(endpointId: number, list: ListName): string {
  return joinParts(endpointId, MEMBERSHIP[list]);
}

/** The parts of a list or endpoint id. */
export interface ParsedId {
  /** The id of the service port. */
  readonly servicePort: number;
  readonly isSticky: boolean;
  /** The way of a list id; undefined for an endpoint id. */
  readonly way: Way | undefined;
}

/** Reads a list or endpoint id; undefined for other numbers. */
export function parseId(id: number): ParsedId | undefined {
  if (id < LEAST_REGISTER_VALUE + PLAIN_STEP) return undefined;
  const isSticky = id >= FIRST_STICKY;
  if (isSticky && id < FIRST_STICKY + STICKY_STEP) return undefined;
  const rest = id % (isSticky ? STICKY_STEP : PLAIN_STEP);
  const servicePort = id - rest;
  if (!isSticky && listNumber(servicePort) > MOST_PLAIN_PORTS) return undefined;
  return { servicePort, isSticky, way: WAYS[rest] };
}

/** The number of a service port in texts: `list 17`. */
export function listNumber(servicePortId: number): number {
  return servicePortId >= FIRST_STICKY
    ? (servicePortId - FIRST_STICKY) / STICKY_STEP
    : (servicePortId - LEAST_REGISTER_VALUE) / PLAIN_STEP;
}

/**
 * Ids of one kind. An id is used again only after the transaction that deletes it from the kernel. Memory
 * grows with the number of ids, not with their size, because the kernel may have any id.
 */
export class IdPool {
  readonly #first: number;
  readonly #step: number;
  readonly #most: number;
  /** The first number never given. Lower numbers are taken, free or released. */
  #next = 1;
  /** Taken ids beyond it: adopted from a kernel with higher numbers. */
  #ahead = new Set<number>();
  #free: number[] = [];
  /** Ids that become free or held with the next commit, and whether they are held then. */
  #released = new Map<number, boolean>();
  /** Ids that are no longer in rules, but may be in entries of clients. */
  readonly held = new Set<number>();

  constructor(first: number, step: number, most: number) {
    this.#first = first;
    this.#step = step;
    this.#most = most;
  }

  /** Returns undefined if all are taken. Held ids and those just released are the last resort. */
  take(): number | undefined {
    const free = this.#free.pop();
    if (free !== undefined) return free;
    this.#skip();
    if (this.#next <= this.#most) return this.#idOf(this.#next++);
    const [[held], [released]] = [this.held, this.#released.keys()];
    const last = held ?? released;
    if (last !== undefined && !this.held.delete(last)) this.#released.delete(last);
    return last;
  }

  get hasMore(): boolean {
    this.#skip();
    return this.#free.length + this.held.size + this.#released.size > 0 || this.#next <= this.#most;
  }

  /** @param holds whether the id becomes free only after its entries of clients are gone */
  release(id: number, holds: boolean): void {
    this.#ahead.delete(id);
    this.#released.set(id, holds);
  }

  /** Takes back an id that was just released, or is held. @returns false if it is neither */
  reclaim(id: number): boolean {
    const isBack = this.#released.delete(id) || this.held.delete(id);
    if (isBack && !this.#isPassed(id)) this.#ahead.add(id);
    return isBack;
  }

  committed(): void {
    for (const [id, holds] of this.#released) {
      if (holds) this.held.add(id);
      else this.#setFree(id);
    }
    this.#released.clear();
  }

  forgotten(ids: Iterable<number>): void {
    for (const id of ids) if (this.held.delete(id)) this.#setFree(id);
  }

  /** Resets to the given taken ids, and ids that the kernel still has. */
  reset(taken: ReadonlySet<number>, kernel: ReadonlySet<number>): void {
    this.#next = 1;
    this.#free = [];
    this.held.clear();
    this.#ahead = new Set(taken);
    this.#released = new Map(
      [...kernel].flatMap((id) => (taken.has(id) ? [] : [[id, this.#first === FIRST_STICKY]])),
    );
    this.#skip();
  }

  /** Skips numbers that are not available. */
  #skip(): void {
    const isPassed = (id: number) => this.#ahead.delete(id) || this.#released.has(id) || this.held.has(id);
    while (isPassed(this.#idOf(this.#next))) this.#next++;
  }

  /** Numbers not skipped yet are found later. */
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
 * The ids of the service ports of one family: dense and reused. No id is reused before its elements have left
 * the kernel: packets in flight during a transaction may still carry it.
 */
export class ListIds {
  readonly #plain = new IdPool(LEAST_REGISTER_VALUE, PLAIN_STEP, MOST_PLAIN_PORTS);
  readonly #sticky: IdPool;
  readonly #mostSticky: number;
  readonly #ids = new Map<ServicePortKey, number>();
  /** The ids by which the kernel may count clients. */
  readonly #counting = new Set<number>();
  /**
   * The former ids of service ports, which get them back if they return before the next commit, or while the
   * kernel counts connections of clients by them. With affinity, they get them back only before the commit,
   * because the ids of endpoints change after it.
   */
  readonly #lapsed = new Map<ServicePortKey, number>();

  /** @param mostSticky {@link MOST_STICKY_PORTS}, fewer in tests */
  constructor(mostSticky = MOST_STICKY_PORTS) {
    this.#mostSticky = mostSticky;
    this.#sticky = new IdPool(FIRST_STICKY, STICKY_STEP, mostSticky);
  }

  copy(): ListIds {
    const copy = new ListIds(this.#mostSticky);
    copy.adopt(this.#ids, new Set());
    for (const [key, id] of this.#ids) copy.#ids.set(key, id);
    return copy;
  }

  /**
   * Former ids of service ports whose clients the kernel remembers. They are given only if no others
   * are left: the kernel may still have entries of clients for them.
   */
  get held(): ReadonlySet<number> {
    return new Set([...this.#sticky.held, ...this.#plain.held]);
  }

  /** Whether there are {@link ListIds.held} ids. */
  get holdsAny(): boolean {
    return this.#sticky.held.size + this.#plain.held.size > 0;
  }

  /** Frees held ids: the kernel has no entries of clients for them any longer. */
  forgotten(ids: readonly number[]): void {
    for (const pool of [this.#sticky, this.#plain]) pool.forgotten(ids);
    this.#dropLapsed();
  }

  /** The id of a service port; undefined if it has none. */
  of(key: ServicePortKey): number | undefined {
    return this.#ids.get(key);
  }

  /** Whether a service port has an id of a kind, or one is left for it. */
  hasFor(key: ServicePortKey, isSticky: boolean): boolean {
    const known = this.#ids.get(key);
    return (known !== undefined && known >= FIRST_STICKY === isSticky) || this.#pool(isSticky).hasMore;
  }

  /** Gives a service port an id, replacing one of the other kind. @returns undefined if none is left */
  assign(key: ServicePortKey, isSticky: boolean): number | undefined {
    const known = this.#ids.get(key);
    if (known !== undefined && known >= FIRST_STICKY === isSticky) return known;
    const id = this.#reclaim(key, isSticky) ?? this.#pool(isSticky).take();
    if (id === undefined) return undefined;
    this.release(key);
    this.#ids.set(key, id);
    return id;
  }

  /** Records that the kernel may count clients by the id of a service port. */
  countsClients(key: ServicePortKey): void {
    const id = this.#ids.get(key);
    if (id !== undefined) this.#counting.add(id);
  }

  release(key: ServicePortKey): void {
    const id = this.#ids.get(key);
    if (id === undefined) return;
    this.#ids.delete(key);
    this.#lapsed.set(key, id);
    const isSticky = id >= FIRST_STICKY;
    this.#pool(isSticky).release(id, this.#counting.delete(id) || isSticky);
  }

  /** Records that the kernel has the current ids and no released ones. */
  committed(): void {
    this.#plain.committed();
    this.#sticky.committed();
    this.#dropLapsed();
  }

  /**
   * Gives service ports the ids that the kernel has for them, and gives the others ids that the kernel does
   * not have.
   * @param wanted the id of each service port in the kernel: of the right kind, no id twice
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

  #dropLapsed(): void {
    for (const [key, id] of this.#lapsed) if (!this.#plain.held.has(id)) this.#lapsed.delete(key);
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
