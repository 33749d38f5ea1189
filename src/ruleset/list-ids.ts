import type { ServicePortKey } from "../model/ids.ts";
import { joinParts } from "../nft/elements.ts";
import type { FrontendKind } from "./frontend-kinds.ts";
import { AFFINITY_IDS } from "./sets.ts";

/**
 * The numbers that represent the endpoints of a service port in `meta priority` and in maps. A list id is the
 * id of a service port plus a {@link Way}. With session affinity, each endpoint has an id, too, which the
 * kernel remembers for clients. The bits of an id:
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
 * What an affinity entry's key adds to the id of the service port, for the entry of each list. If all
 * connections use the same list, it is always the number of the cluster's.
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

function isStickyId(id: number): boolean {
  return id >= FIRST_STICKY;
}

/** Reads a list or endpoint id; undefined for other numbers. */
export function parseId(id: number): ParsedId | undefined {
  if (id < LEAST_REGISTER_VALUE + PLAIN_STEP) return undefined;
  const isSticky = isStickyId(id);
  if (isSticky && id < FIRST_STICKY + STICKY_STEP) return undefined;
  const rest = id % (isSticky ? STICKY_STEP : PLAIN_STEP);
  const servicePort = id - rest;
  if (!isSticky && listNumber(servicePort) > MOST_PLAIN_PORTS) return undefined;
  return { servicePort, isSticky, way: WAYS[rest] };
}

/** The number of a service port in texts: `list 17`. */
export function listNumber(servicePortId: number): number {
  return isStickyId(servicePortId)
    ? (servicePortId - FIRST_STICKY) / STICKY_STEP
    : (servicePortId - LEAST_REGISTER_VALUE) / PLAIN_STEP;
}

/**
 * Ids of one kind. A taken id that is released becomes free with the next commit, when the kernel no longer
 * has it. If entries of clients may have it, it is held until these are gone. Memory grows with the number of
 * ids, not with their size, because the kernel may have any id.
 */
export class IdPool {
  readonly #first: number;
  readonly #step: number;
  readonly #most: number;
  /** All lower numbers were taken before. Those that are free again are in `#free`. */
  #next = 1;
  #free: number[] = [];
  /** Taken ids of higher numbers: adopted from a kernel. */
  #ahead = new Set<number>();
  /** Ids released since the last commit, and whether they are held after the next one. */
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
    for (const lastResort of [this.held, this.#released]) {
      const [id] = lastResort.keys();
      if (id !== undefined && lastResort.delete(id)) return id;
    }
    return undefined;
  }

  /** Whether {@link IdPool.take} returns an id. */
  get hasMore(): boolean {
    this.#skip();
    return this.#free.length + this.held.size + this.#released.size > 0 || this.#next <= this.#most;
  }

  /** @param holds whether entries of clients may have the id */
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

  markCommitted(): void {
    for (const [id, holds] of this.#released) {
      if (holds) this.held.add(id);
      else this.#setFree(id);
    }
    this.#released.clear();
  }

  freeHeld(ids: Iterable<number>): void {
    for (const id of ids) if (this.held.delete(id)) this.#setFree(id);
  }

  /** Starts again with the given taken ids, and with ids that the kernel has until the next commit. */
  reset(taken: ReadonlySet<number>, kernel: ReadonlySet<number>): void {
    this.#next = 1;
    this.#free = [];
    this.held.clear();
    this.#ahead = new Set(taken);
    // Any id with session affinity may be in entries of clients.
    const released = [...kernel].filter((id) => !taken.has(id));
    this.#released = new Map(released.map((id) => [id, isStickyId(id)]));
    this.#skip();
  }

  /** Skips numbers that are not available; {@link IdPool.#setFree} finds them later. */
  #skip(): void {
    const isTaken = (id: number) => this.#ahead.delete(id) || this.#released.has(id) || this.held.has(id);
    while (isTaken(this.#idOf(this.#next))) this.#next++;
  }

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
  /** The ids by which the kernel may count connections of clients. */
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
    // Takes the ids out of the pools of the copy, which has no service ports yet.
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

  /** Frees held ids, as the kernel has no entries of clients for them any longer. */
  freeHeld(ids: readonly number[]): void {
    for (const pool of [this.#sticky, this.#plain]) pool.freeHeld(ids);
    this.#dropLapsed();
  }

  /** The id of a service port; undefined if it has none. */
  of(key: ServicePortKey): number | undefined {
    return this.#ids.get(key);
  }

  /** Whether a service port has an id of a kind, or one is left for it. */
  hasFor(key: ServicePortKey, isSticky: boolean): boolean {
    const known = this.#ids.get(key);
    return (known !== undefined && isStickyId(known) === isSticky) || this.#pool(isSticky).hasMore;
  }

  /** Gives a service port an id, replacing one of the other kind. @returns undefined if none is left */
  assign(key: ServicePortKey, isSticky: boolean): number | undefined {
    const known = this.#ids.get(key);
    if (known !== undefined && isStickyId(known) === isSticky) return known;
    const id = this.#reclaim(key, isSticky) ?? this.#pool(isSticky).take();
    if (id === undefined) return undefined;
    this.release(key);
    this.#ids.set(key, id);
    return id;
  }

  /** Records that the kernel may count clients by the id of a service port. */
  noteCountedClients(key: ServicePortKey): void {
    const id = this.#ids.get(key);
    if (id !== undefined) this.#counting.add(id);
  }

  /** Takes the id of a service port from it. It is free after the next commit. */
  release(key: ServicePortKey): void {
    const id = this.detach(key);
    if (id === undefined) return;
    this.#lapsed.set(key, id);
    this.releaseDetached(id);
  }

  /** Takes the id of a service port from it. Nobody gets it before {@link ListIds.releaseDetached}. */
  detach(key: ServicePortKey): number | undefined {
    const id = this.#ids.get(key);
    this.#ids.delete(key);
    return id;
  }

  releaseDetached(id: number): void {
    const isSticky = isStickyId(id);
    this.#pool(isSticky).release(id, this.#counting.delete(id) || isSticky);
  }

  /** Records that the kernel has the current ids and no released ones. */
  markCommitted(): void {
    this.#plain.markCommitted();
    this.#sticky.markCommitted();
    this.#dropLapsed();
  }

  /**
   * Gives service ports the ids that the kernel has for them, and gives the others ids that the kernel does
   * not have.
   * @param wanted the id of each service port in the kernel: as sticky as the service port, no id twice
   * @param kernel all ids in the kernel
   * @returns the service ports whose ids changed
   */
  adopt(wanted: ReadonlyMap<ServicePortKey, number>, kernel: ReadonlySet<number>): ServicePortKey[] {
    const changed: ServicePortKey[] = [];
    const taken = new Set(wanted.values());
    const withoutId: { readonly key: ServicePortKey; readonly isSticky: boolean }[] = [];
    for (const [key, before] of this.#ids) {
      const id = wanted.get(key);
      if (id === before) continue;
      if (id === undefined && !kernel.has(before) && !taken.has(before)) {
        taken.add(before);
        continue;
      }
      changed.push(key);
      if (id === undefined) withoutId.push({ key, isSticky: isStickyId(before) });
      else this.#ids.set(key, id);
    }
    for (const isSticky of [true, false]) {
      const ofKind = (ids: Iterable<number>) => new Set([...ids].filter((id) => isStickyId(id) === isSticky));
      this.#pool(isSticky).reset(ofKind(taken), ofKind(kernel));
    }
    for (const { key, isSticky } of withoutId) this.#ids.set(key, this.#pool(isSticky).take() ?? 0);
    return changed;
  }

  #dropLapsed(): void {
    for (const [key, id] of this.#lapsed) if (!this.#plain.held.has(id)) this.#lapsed.delete(key);
  }

  #reclaim(key: ServicePortKey, isSticky: boolean): number | undefined {
    const id = this.#lapsed.get(key);
    return id !== undefined && isStickyId(id) === isSticky && this.#pool(isSticky).reclaim(id)
      ? id
      : undefined;
  }

  #pool(isSticky: boolean): IdPool {
    return isSticky ? this.#sticky : this.#plain;
  }
}
