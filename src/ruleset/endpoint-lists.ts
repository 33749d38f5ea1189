import type { Endpoint } from "../model/endpoint.ts";
import { joinParts } from "../nft/elements.ts";
import { firstIndex } from "./balancers.ts";
import { type Balancer, balancerName } from "./chain-names.ts";
import { type EndpointList, endpointIds } from "./endpoint-ids.ts";
import { FRONTEND_MAPS, type FrontendKind, type SetName } from "./sets.ts";

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
}

/**
 * A list of at least one endpoint.
 * @param endpoints sorted by target
 */
export function balancedList(
  kind: FrontendKind,
  endpoints: readonly Endpoint[],
  list: EndpointList,
  affinitySeconds: number,
): BalancedList {
  const balancer: Balancer = { kind, shortcut: list === "shortcut", count: endpoints.length, affinitySeconds };
  const targets = endpoints.map(({ target }) => target);
  return affinitySeconds === 0 ? { balancer, targets } : { balancer, targets, ids: endpointIds(endpoints, list) };
}

/** The element that sends connections to a frontend to one of its lists. */
export function dispatchElement({ kind, key }: Frontend, { balancer }: BalancedList): DesiredElement {
  const { services, shortcut } = FRONTEND_MAPS[kind];
  return { set: balancer.shortcut ? shortcut : services, key, value: `goto ${balancerName(balancer)}` };
}

/** The elements by which a list's chain finds the endpoints: by index, with session affinity by index and id. */
export function listElements({ kind, key }: Frontend, { balancer, targets, ids }: BalancedList): DesiredElement[] {
  const { endpoints, affinityIds } = FRONTEND_MAPS[kind];
  const first = firstIndex(balancer);
  const indexed: SetName = ids === undefined ? endpoints : affinityIds;
  const values = ids === undefined ? targets : ids.map(String);
  const elements: DesiredElement[] = values.map((value, i) => ({
    set: indexed,
    key: joinParts(key, first + i),
    value,
  }));
  ids?.forEach((id, i) => {
    elements.push({ set: endpoints, key: joinParts(key, id), value: targets[i] as string });
  });
  return elements;
}
