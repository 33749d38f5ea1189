import type { Clock, Timer } from "../base/clock.ts";
import { AppError } from "../base/errors.ts";
import { byFamily, FAMILIES, type Family } from "../base/family.ts";
import { NftStoppedError } from "../kernel/nft-errors.ts";
import type { TableReader } from "../kernel/table-reader.ts";
import { readEndingTargets } from "../kernel/vanished.ts";
import type { EndpointSlice } from "../model/endpoint-slice.ts";
import type { ServiceName } from "../model/ids.ts";
import type { ObjectCache } from "../model/object-cache.ts";
import type { Ruleset, Table } from "../nft/ast/ruleset.ts";
import { joinParts } from "../nft/elements.ts";
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

/** A TCP endpoint that no EndpointSlice names any more. */
export interface VanishedEndpoint {
  readonly family: Family;
  /** `address . port` */
  readonly target: string;
  /** The Services that it left, in this order; none if an earlier process saw it leave. */
  readonly services: readonly ServiceName[];
  /** The time at which it left, milliseconds since 1970. */
  readonly leftAt: number;
}

/** Parts of {@link VanishedEndpoints}. */
export interface VanishedEndpointsParts {
  readonly cache: ObjectCache;
  /** Wall clock, milliseconds since 1970. */
  readonly now: () => number;
  /** Time for which an endpoint must be gone before its connections are reset, milliseconds. */
  readonly delayMs: number;
}

/**
 * The delay of the daemon, milliseconds. An endpoint that moves to another EndpointSlice, or whose
 * EndpointSlices are recreated, is in none for a moment, but still alive.
 */
export const VANISHED_DELAY = 3000;

const VANISHED_PERIOD = VANISHED_SECONDS * 1000;

/**
 * Tracks TCP endpoints that no EndpointSlice of any Service names any more. Neither the conditions of an
 * endpoint (ready, serving, terminating) nor its Service matter, only its address and port. The cost of an
 * update is proportional to the changed EndpointSlices.
 */
export class VanishedEndpoints {
  readonly #parts: VanishedEndpointsParts;
  /** The counted EndpointSlices of each Service. */
  readonly #slices = new Map<ServiceName, readonly EndpointSlice[]>();
  /** The number of EndpointSlices that name each target. */
  readonly #named: Readonly<Record<Family, Map<string, number>>> = byFamily(() => new Map());
  /** For targets that other Services still name, the Services that they left, in this order. */
  readonly #leaving: Readonly<Record<Family, Map<string, readonly ServiceName[]>>> = byFamily(
    () => new Map(),
  );
  /** Vanished endpoints by target, oldest first. */
  readonly #gone: Readonly<Record<Family, Map<string, VanishedEndpoint>>> = byFamily(() => new Map());

  /** When {@link VanishedEndpoints.putInto} was last called, milliseconds since 1970. */
  #putAt = Number.NEGATIVE_INFINITY;

  constructor(parts: VanishedEndpointsParts) {
    this.#parts = parts;
  }

  /** Reads the current EndpointSlices of these Services. */
  update(services: Iterable<ServiceName>): void {
    const left: Omit<VanishedEndpoint, "leftAt">[] = [];
    for (const service of services) {
      const before = new Set(this.#slices.get(service));
      const after = new Set(this.#parts.cache.slices(service));
      if (after.size === 0) this.#slices.delete(service);
      else this.#slices.set(service, [...after]);
      const added = [...after].filter((slice) => !before.has(slice));
      for (const slice of added) this.#name(slice);
      const kept = new Set(added.flatMap(targetsOf));
      for (const slice of before) if (!after.has(slice)) left.push(...this.#unname(slice, kept));
    }
    const leftAt = this.#parts.now();
    for (const one of left) if (!this.#named[one.family].has(one.target)) this.#add({ ...one, leftAt });
  }

  /** Returns true if an EndpointSlice names a target. */
  isNamed(family: Family, target: string): boolean {
    return this.#named[family].has(target);
  }

  /**
   * Adopts an endpoint that an earlier process saw leave, unless it is known or named.
   * @param remaining the time for which its connections are still reset, milliseconds
   */
  adopt(family: Family, target: string, remaining: number): void {
    const { now, delayMs } = this.#parts;
    if (remaining <= 0) return;
    const leftAt = now() - delayMs - VANISHED_PERIOD + Math.min(remaining, VANISHED_PERIOD);
    this.#addMissed({ family, target, services: [], leftAt });
  }

  /** Adds an endpoint that left while no process was running, unless it is known or named. */
  addMissed(family: Family, target: string, services: readonly ServiceName[]): void {
    this.#addMissed({ family, target, services, leftAt: this.#parts.now() });
  }

  /** Returns the endpoints whose connections are reset, oldest first. */
  held(): VanishedEndpoint[] {
    const now = this.#parts.now();
    return FAMILIES.flatMap((family) =>
      [...this.#gone[family].values()].filter((one) => this.#begin(one) <= now && now < this.#end(one)),
    );
  }

  /** Puts the endpoints whose connections are reset into a desired state. */
  putInto({ families }: Pick<RulesetState, "families">): void {
    this.#putAt = this.#parts.now();
    const held = this.held();
    for (const family of FAMILIES) {
      const own = held.filter((one) => one.family === family);
      families[family]?.setVanished(new Set(own.map(({ target }) => target)));
    }
  }

  /**
   * Returns the next time at which {@link VanishedEndpoints.putInto} has another result, milliseconds since
   * 1970. It may have passed already; undefined for never.
   */
  nextChangeAt(): number | undefined {
    let next: number | undefined;
    for (const family of FAMILIES) {
      for (const one of this.#gone[family].values()) {
        const at = [this.#begin(one), this.#end(one)].find((moment) => moment > this.#putAt);
        if (at !== undefined && (next === undefined || at < next)) next = at;
      }
    }
    return next;
  }

  #begin({ leftAt }: VanishedEndpoint): number {
    return leftAt + this.#parts.delayMs;
  }

  #end(endpoint: VanishedEndpoint): number {
    return this.#begin(endpoint) + VANISHED_PERIOD;
  }

  #name(slice: EndpointSlice): void {
    const named = this.#named[slice.family];
    for (const target of targetsOf(slice)) {
      named.set(target, (named.get(target) ?? 0) + 1);
      this.#gone[slice.family].delete(target);
    }
  }

  /**
   * Returns the targets that nothing names any more.
   * @param kept targets that the Service has in other slices
   */
  #unname(slice: EndpointSlice, kept: ReadonlySet<string>): Omit<VanishedEndpoint, "leftAt">[] {
    const { family, service } = slice;
    const [named, leaving] = [this.#named[family], this.#leaving[family]];
    return targetsOf(slice).flatMap((target) => {
      const services = [...(leaving.get(target) ?? []).filter((other) => other !== service), service];
      const count = (named.get(target) ?? 0) - 1;
      if (count > 0) {
        named.set(target, count);
        if (!kept.has(target)) leaving.set(target, services);
        return [];
      }
      named.delete(target);
      leaving.delete(target);
      return [{ family, target, services }];
    });
  }

  /** Adds an endpoint, and deletes those whose time is over and, if there are too many, the oldest. */
  #add(endpoint: VanishedEndpoint): void {
    const gone = this.#gone[endpoint.family];
    gone.delete(endpoint.target);
    gone.set(endpoint.target, endpoint);
    const now = this.#parts.now();
    for (const [target, oldest] of gone) {
      if (gone.size <= MOST_VANISHED && now < this.#end(oldest)) return;
      gone.delete(target);
    }
  }

  #addMissed(endpoint: VanishedEndpoint): void {
    const { family, target } = endpoint;
    if (!this.isNamed(family, target) && !this.#gone[family].has(target)) this.#add(endpoint);
  }
}

/**
 * Returns a tracker of all EndpointSlices of a cache, without a delay, for comparisons with the kernel.
 * @param now wall clock, milliseconds since 1970
 */
export function allSlicesOf(cache: ObjectCache, now: () => number): VanishedEndpoints {
  const vanished = new VanishedEndpoints({ cache, now, delayMs: 0 });
  vanished.update(new Set(cache.allSlices().map(({ service }) => service)));
  return vanished;
}

function targetsOf({ ports, endpoints }: EndpointSlice): string[] {
  const numbers = ports.flatMap(({ protocol, port }) => (protocol === "tcp" ? [port] : []));
  return endpoints.flatMap(({ address }) => numbers.map((port) => joinParts(address, port)));
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
  for (const table of Object.values(kernel)) {
    for (const { target, expires } of await remembered(tables, table)) {
      vanished.adopt(table.family, target, 1000 * (expires - VANISHED_MARGIN));
    }
    addMissed(vanished, table, state);
  }
  vanished.putInto(state);
}

/**
 * Returns the elements in the kernel, the first to expire first. None if they cannot be read: the sync must
 * not fail.
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
      if (at !== undefined) timer = clock.after(Math.max(0, at - clock.now()), request);
    },
  };
}
