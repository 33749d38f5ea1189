import { SharedValues } from "../../base/shared-values.ts";
import type { Endpoint } from "../../model/endpoint.ts";
import type { Scheduler } from "../../model/scheduler.ts";
import { joinParts } from "../../nft/elements.ts";
import { firstIndex } from "../balancers.ts";
import { type Balancer, balancerName } from "../chain-names.ts";
import { FRONTEND_MAPS, type FrontendKind, type SetName } from "../sets.ts";
import { type EndpointList, endpointIds } from "./endpoint-ids.ts";
import { fillSlots, slotCount } from "./slot-table.ts";

/** One element that a service port wants in a set or map; `value` is "" in a set. */
export interface DesiredElement {
  readonly set: SetName;
  readonly key: string;
  readonly value: string;
}

/** A frontend's key in the maps of its kind: `10.96.0.10 . tcp . 53`, or `tcp . 30080` for a NodePort. */
export interface Frontend {
  readonly kind: FrontendKind;
  readonly key: string;
}

/** A list of endpoints among which connections to a frontend are balanced. */
export interface BalancedList {
  readonly balancer: Balancer;
  /** The endpoints as `address . port`, sorted. */
  readonly targets: readonly string[];
  /** The id of each target, for session affinity: decimal numbers. */
  readonly ids?: readonly string[];
  /** For each slot the index of its target. */
  readonly slots?: Uint32Array;
}

/** One for all lists that are balanced alike, and one verdict that leads there. */
const balancers = new SharedValues<Balancer>();
const verdicts = new SharedValues<string>();

/** How a service port wants connections to be balanced. */
export type Balancing = Pick<Balancer, "scheduler" | "affinitySeconds">;

/**
 * A list of at least one endpoint.
 * @param endpoints sorted by target
 */
export function balancedList(
  kind: FrontendKind,
  endpoints: readonly Endpoint[],
  list: EndpointList,
  { scheduler, affinitySeconds }: Balancing,
): BalancedList {
  const slots = slotsOf(endpoints, scheduler);
  const balancer: Balancer = {
    kind,
    // A single endpoint needs no choice, and shares the chain of all others.
    scheduler: endpoints.length === 1 ? "random" : scheduler,
    slots: slots !== undefined,
    shortcut: list === "shortcut",
    count: slots?.length ?? endpoints.length,
    affinitySeconds,
  };
  return {
    balancer: balancers.share(balancerName(balancer), balancer),
    targets: endpoints.map(({ target }) => target),
    ...(affinitySeconds === 0 ? {} : { ids: endpointIds(endpoints, list).map(String) }),
    ...(slots === undefined ? {} : { slots }),
  };
}

/** The tables of lists that several frontends of a service port have. */
const tables = new WeakMap<readonly Endpoint[], Uint32Array>();

/** The slot table of a list, undefined for one that needs none: no hash, and all weights alike. */
function slotsOf(endpoints: readonly Endpoint[], scheduler: Scheduler): Uint32Array | undefined {
  const [first] = endpoints;
  if (first === undefined || endpoints.length === 1) return undefined;
  const isHashed = scheduler === "source-hash" || scheduler === "flow-hash";
  if (!isHashed && endpoints.every(({ weight }) => weight === first.weight)) return undefined;
  const known = tables.get(endpoints);
  if (known !== undefined) return known;
  // Weights of 0 come only where nothing else is left, and then all of them are.
  const owners = endpoints.map(({ address, port, weight }) => ({ address, port, weight: Math.max(1, weight) }));
  const table = fillSlots(owners, slotCount(owners));
  tables.set(endpoints, table);
  return table;
}

/** The element that sends connections to a frontend to one of its lists. */
export function dispatchElement({ kind, key }: Frontend, { balancer }: BalancedList): DesiredElement {
  const { services, shortcut } = FRONTEND_MAPS[kind];
  const name = balancerName(balancer);
  return { set: balancer.shortcut ? shortcut : services, key, value: verdicts.share(name, `goto ${name}`) };
}

/** The values that a list's chain finds by index or slot: endpoints, or with session affinity their ids. */
export function indexedValues({ targets, ids, slots }: BalancedList): readonly string[] {
  const values = ids ?? targets;
  return slots === undefined ? values : Array.from(slots, (index) => values[index] as string);
}

/** Whether any endpoint may have any index; a slot's place decides which hash leads to it. */
export function isPlaceable({ slots }: BalancedList): boolean {
  return slots === undefined;
}

/** The map in which a list's chain looks an index up. */
export function indexedSet(kind: FrontendKind, { ids }: BalancedList): SetName {
  const { endpoints, affinityIds } = FRONTEND_MAPS[kind];
  return ids === undefined ? endpoints : affinityIds;
}

/** The key of a list's index, counted from 0. */
export function indexKey({ key }: Frontend, { balancer }: BalancedList, index: number): string {
  return joinParts(key, firstIndex(balancer) + index);
}

/** The map in which the chain of a list with session affinity looks an id up, and its key there. */
export function idElementOf({ kind, key }: Frontend, id: string): Pick<DesiredElement, "set" | "key"> {
  return { set: FRONTEND_MAPS[kind].endpoints, key: joinParts(key, id) };
}
