import { SharedValues } from "../base/shared-values.ts";
import type { Endpoint } from "../model/endpoint.ts";
import type { Scheduler } from "../model/scheduler.ts";
import type { Balancer, Refusal } from "./chain-names.ts";
import type { Way } from "./list-ids.ts";
import type { PortPart } from "./node-context.ts";
import { drawCount } from "./setting-grids.ts";
import { slotTable } from "./slot-table.ts";

/** A list of endpoints among which connections are balanced. */
export interface EndpointList {
  readonly balancer: Balancer;
  /** The endpoints as `address . port`, sorted; at least one. */
  readonly targets: readonly string[];
  /** The index of the target for each slot. */
  readonly slots?: Uint32Array;
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
export interface Balancing extends Pick<Balancer, "affinitySeconds" | "both"> {
  readonly scheduler: Scheduler;
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
  { scheduler, affinitySeconds, both }: Balancing,
  isLocal = false,
): EndpointList {
  const slots = slotsOf(endpoints, scheduler);
  const balancer: Balancer = {
    // A single endpoint needs no choice: all schedulers share its chain.
    scheduler: endpoints.length === 1 ? "random" : scheduler,
    slots: slots !== undefined,
    count: slots?.length ?? drawCount(endpoints.length),
    affinitySeconds,
    local: isLocal && affinitySeconds > 0,
    ...(both && affinitySeconds > 0 && { both }),
  };
  const shared = balancers.share(Object.values(balancer).join(), balancer);
  const targets = endpoints.map(({ target }) => target);
  return slots === undefined ? { balancer: shared, targets } : { balancer: shared, targets, slots };
}

/** The slot table of a list; undefined without a hash and with equal weights. */
function slotsOf(endpoints: readonly Endpoint[], scheduler: Scheduler): Uint32Array | undefined {
  const [first] = endpoints;
  if (first === undefined || endpoints.length === 1) return undefined;
  const isHashed = scheduler === "source-hash" || scheduler === "flow-hash";
  if (!isHashed && endpoints.every(({ weight }) => weight === first.weight)) return undefined;
  // A list has weights of 0 only if all its weights are 0.
  const owners = endpoints.map(({ address, port, weight }) => ({
    address,
    port,
    weight: Math.max(1, weight),
  }));
  return slotTable(owners);
}

/** The values at a list's indexes or slots. @param values one for each target */
export function numberedValues({ slots }: EndpointList, values: readonly string[]): readonly string[] {
  return slots === undefined ? values : Array.from(slots, (index) => values[index] as string);
}

/** Whether endpoints may have any index. Slots have fixed indexes, because a hash selects them. */
export function isPlaceable({ slots }: EndpointList): boolean {
  return slots === undefined;
}
