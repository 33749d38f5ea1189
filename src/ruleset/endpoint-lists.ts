import type { Endpoint } from "../model/endpoint.ts";
import type { Scheduler } from "../model/scheduler.ts";
import { joinParts } from "../nft/elements.ts";
import { firstIndex } from "./balancers.ts";
import { type Balancer, balancerName } from "./chain-names.ts";
import { type EndpointList, endpointIds } from "./endpoint-ids.ts";
import { FRONTEND_MAPS, type FrontendKind, type SetName } from "./sets.ts";
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
  /** The id of each target, for session affinity. */
  readonly ids?: readonly number[];
  /** For each slot the index of its target. */
  readonly slots?: Uint32Array;
}

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
    balancer,
    targets: endpoints.map(({ target }) => target),
    ...(affinitySeconds === 0 ? {} : { ids: endpointIds(endpoints, list) }),
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
  return { set: balancer.shortcut ? shortcut : services, key, value: `goto ${balancerName(balancer)}` };
}

/**
 * The elements by which a list's chain finds the endpoints: by index or slot, with session affinity
 * by these and id.
 */
export function listElements(
  { kind, key }: Frontend,
  { balancer, targets, ids, slots }: BalancedList,
): DesiredElement[] {
  const { endpoints, affinityIds } = FRONTEND_MAPS[kind];
  const first = firstIndex(balancer);
  const indexed: SetName = ids === undefined ? endpoints : affinityIds;
  const values = ids === undefined ? targets : ids.map(String);
  const byIndex = slots === undefined ? values : Array.from(slots, (index) => values[index] as string);
  const elements: DesiredElement[] = byIndex.map((value, i) => ({
    set: indexed,
    key: joinParts(key, first + i),
    value,
  }));
  ids?.forEach((id, i) => {
    elements.push({ set: endpoints, key: joinParts(key, id), value: targets[i] as string });
  });
  return elements;
}
