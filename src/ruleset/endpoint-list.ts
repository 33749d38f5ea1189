import { SharedValues } from "../base/shared-values.ts";
import type { Endpoint } from "../model/endpoint.ts";
import { type Balancer, chooserName, type Refusal } from "./chain-names.ts";
import { type ListDraw, RANDOM } from "./draws.ts";
import type { Way } from "./list-ids.ts";
import type { PortPart } from "./node-context.ts";
import { drawCount } from "./setting-grids.ts";

/** A list of endpoints among which connections are balanced. */
export interface EndpointList extends Pick<ListDraw, "slots"> {
  readonly balancer: Balancer;
  /** The endpoints as `address . port`, sorted; at least one. */
  readonly targets: readonly string[];
}

/** The lists of a service port: the endpoints of the cluster and of this node. Empty lists are absent. */
export interface ServicePortLists {
  readonly cluster?: EndpointList;
  readonly local?: EndpointList;
  readonly isSticky: boolean;
  /** Only with intervals of ports: the ways of connections that lead to no endpoint. */
  readonly empty?: readonly EmptyList[];
  /** What it wants of features; absent for nothing. */
  readonly parts?: readonly PortPart[];
}

/** A way that leads to no endpoint. */
export interface EmptyList {
  readonly way: Way;
  readonly refusal: Refusal;
}

/** How a service port wants connections to be balanced. */
export interface Balancing extends Pick<Balancer, "affinitySeconds" | "bothLists"> {
  /** How to draw one of these endpoints; at random if undefined. */
  readonly drawOf: (endpoints: readonly Endpoint[]) => ListDraw | undefined;
}

/** Shares equal balancers, to save memory. */
const balancers = new SharedValues<Balancer>();

/**
 * The lists of a service port.
 * @param cluster endpoints for the policy "Cluster", sorted by target
 * @param local the same for the policy "Local"
 */
export function servicePortLists(
  cluster: readonly Endpoint[],
  local: readonly Endpoint[],
  balancing: Balancing,
): ServicePortLists {
  const isSticky = balancing.affinitySeconds > 0;
  // No object spread: V8 gives each object that a spread creates its own hidden class of 200 bytes.
  if (local.length === 0)
    return cluster.length === 0 ? { isSticky } : { cluster: listOf(cluster, balancing), isSticky };
  const ownList = listOf(local, balancing, true);
  if (cluster.length === 0) return { local: ownList, isSticky };
  return { cluster: listOf(cluster, balancing), local: ownList, isSticky };
}

function listOf(
  endpoints: readonly Endpoint[],
  { drawOf, affinitySeconds, bothLists }: Balancing,
  isLocal = false,
): EndpointList {
  // A single endpoint needs no choice: all ways to draw share its chain.
  const draw: ListDraw | undefined = endpoints.length === 1 ? undefined : drawOf(endpoints);
  const { method, count, slots } = draw ?? { method: RANDOM, count: drawCount(endpoints.length) };
  const balancer: Balancer = {
    method,
    count,
    affinitySeconds,
    local: isLocal && affinitySeconds > 0,
    ...(bothLists && affinitySeconds > 0 && { bothLists }),
  };
  const key = [chooserName(balancer), affinitySeconds, balancer.local, balancer.bothLists].join();
  const shared = balancers.share(key, balancer);
  const targets = endpoints.map(({ target }) => target);
  return slots === undefined ? { balancer: shared, targets } : { balancer: shared, targets, slots };
}

/** The values at the numbers of a list. @param values one for each target */
export function numberedValues({ slots }: EndpointList, values: readonly string[]): readonly string[] {
  return slots === undefined ? values : Array.from(slots, (index) => values[index] as string);
}
