import { SharedValues } from "../base/shared-values.ts";
import type { Endpoint } from "../model/endpoint.ts";
import type { EndpointChoice } from "../model/endpoint-choice.ts";
import { type Balancer, chooserName, type Refusal } from "./chain-names.ts";
import { type ListDraw, RANDOM } from "./draws.ts";
import type { ListName, Way } from "./list-ids.ts";
import type { PortPart } from "./node-context.ts";
import { drawCount } from "./setting-grids.ts";
import { MOST_DELETED } from "./stale-elements.ts";

/** A list of endpoints among which connections are balanced. */
export interface EndpointList extends Pick<ListDraw, "slots"> {
  readonly balancer: Balancer;
  /** The endpoints as `address . port`, sorted; at least one. */
  readonly targets: readonly string[];
}

/** The lists of a service port: the endpoints of the cluster and of this node. Empty lists are undefined. */
export interface ServicePortLists {
  readonly cluster?: EndpointList | undefined;
  readonly local?: EndpointList | undefined;
  readonly isSticky: boolean;
  /** Only with intervals of ports: the ways of connections that lead to no endpoint. */
  readonly empty?: readonly EmptyList[] | undefined;
  /** What it wants of features; undefined for nothing. */
  readonly parts?: readonly PortPart[] | undefined;
}

/** Whether no way leads to an endpoint. */
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
  return {
    cluster: cluster.length === 0 ? undefined : listOf(cluster, balancing),
    local: local.length === 0 ? undefined : listOf(local, balancing, true),
    isSticky: balancing.affinitySeconds > 0,
  };
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

/** Whether lists are too long to be deleted at once. Those with slots are not, as in {@link grownChoice}. */
export function areLong({ cluster, local }: Pick<ServicePortLists, ListName> = {}): boolean {
  const lists = [cluster, local].flatMap((list) => list ?? []);
  const count = lists.reduce((sum, { targets }) => sum + targets.length, 0);
  return count > MOST_DELETED && lists.every(({ slots }) => slots === undefined);
}

/** Minimum number of endpoints that a list may gain at once: nobody waits long for so many (75 to 225 ms). */
const LEAST_ADDED = 1000;

/**
 * Limits how many endpoints a service port gains at once, so that nobody waits for a hundred thousand of one.
 * Those that go, go at once. A list with slots is not limited: each change of endpoints changes most of its
 * slots.
 * @param wanted the lists of `choice`
 * @param before the lists that the table has; undefined for none
 * @param most the number of elements that each list may add, at least {@link LEAST_ADDED} endpoints
 * @returns `choice` itself if it is within the limit
 */
export function grownChoice(
  choice: EndpointChoice,
  wanted: ServicePortLists,
  before: ServicePortLists | undefined,
  most: number,
): EndpointChoice {
  const known = before?.isSticky === wanted.isSticky ? before : undefined;
  // With session affinity, an endpoint has two elements.
  const added = Math.max(LEAST_ADDED, Math.floor(wanted.isSticky ? most / 2 : most));
  const grown = (name: ListName) =>
    wanted[name]?.slots === undefined
      ? grownList(choice[name], known?.[name]?.targets ?? [], added)
      : choice[name];
  const [cluster, local] = [grown("cluster"), grown("local")];
  const isWhole = cluster === choice.cluster && local === choice.local;
  return isWhole ? choice : { ...choice, cluster, local };
}

/** The endpoints that were there before, and the first others. @param before their targets, sorted alike */
function grownList(all: readonly Endpoint[], before: readonly string[], added: number): readonly Endpoint[] {
  if (all.length <= added) return all;
  let left = added;
  let index = 0;
  const grown = all.filter(({ target }) => {
    for (let known = before[index]; known !== undefined && known < target; known = before[++index]);
    return before[index] === target || left-- > 0;
  });
  return grown.length === all.length ? all : grown;
}
