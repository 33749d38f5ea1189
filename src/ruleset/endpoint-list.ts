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

export function isWithoutEndpoints({ cluster, local }: ServicePortLists): boolean {
  return cluster === undefined && local === undefined;
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
  const shared = sharedBalancer(balancer);
  const targets = endpoints.map(({ target }) => target);
  return slots === undefined ? { balancer: shared, targets } : { balancer: shared, targets, slots };
}

function sharedBalancer(balancer: Balancer): Balancer {
  const { affinitySeconds, local, bothLists } = balancer;
  return balancers.share([chooserName(balancer), affinitySeconds, local, bothLists].join(), balancer);
}

/** Minimum number of endpoints that a list may gain at once: nobody waits long for so many (75 ms). */
const LEAST_ADDED = 1000;

/**
 * Limits how many endpoints lists gain at once, so that nobody waits for a hundred thousand of one service
 * port. Those that go, go at once. A list with slots is not limited: each change of endpoints changes most of
 * its slots.
 * @param before the lists that the table has; undefined for none
 * @param most the number of elements that each list may add, at least {@link LEAST_ADDED} endpoints
 * @returns `wanted` itself if it is within the limit
 */
export function grownLists(
  wanted: ServicePortLists,
  before: ServicePortLists | undefined,
  most: number,
): ServicePortLists {
  const known = before?.isSticky === wanted.isSticky ? before : undefined;
  // With session affinity, an endpoint has two elements.
  const endpoints = wanted.isSticky ? most / 2 : most;
  const local = wanted.local && grownList(wanted.local, known?.local, endpoints);
  const cluster = wanted.cluster && grownList(wanted.cluster, known?.cluster, endpoints);
  if (local === wanted.local && cluster === wanted.cluster) return wanted;
  return { ...wanted, ...(local && { local }), ...(cluster && { cluster }) };
}

function grownList(wanted: EndpointList, before: EndpointList | undefined, most: number): EndpointList {
  const { targets, slots, balancer } = wanted;
  const added = Math.max(LEAST_ADDED, Math.floor(most));
  if (slots !== undefined || targets.length <= added) return wanted;
  const grown = grownTargets(targets, before?.targets ?? [], added);
  return grown.length === targets.length
    ? wanted
    : { balancer: sharedBalancer({ ...balancer, count: drawCount(grown.length) }), targets: grown };
}

/** The targets that were there before, and the first others. @param before sorted, as the result */
function grownTargets(targets: readonly string[], before: readonly string[], added: number): string[] {
  let left = added;
  let index = 0;
  return targets.filter((target) => {
    for (let known = before[index]; known !== undefined && known < target; known = before[++index]);
    return before[index] === target || left-- > 0;
  });
}

/** The values at the numbers of a list. @param values one for each target */
export function numberedValues({ slots }: EndpointList, values: readonly string[]): readonly string[] {
  return slots === undefined ? values : Array.from(slots, (index) => values[index] as string);
}
