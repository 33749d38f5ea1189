import { SharedValues } from "../base/shared-values.ts";
import type { Endpoint } from "../model/endpoint.ts";
import type { Scheduler } from "../model/scheduler.ts";
import { type Balancer, balancerName, type Refusal } from "./chain-names.ts";
import type { Way } from "./list-ids.ts";
import { slotTable } from "./slot-table.ts";

/** A list of endpoints among which connections are balanced. */
export interface EndpointList {
  readonly balancer: Balancer;
  /** The endpoints as `address . port`, sorted; one at least. */
  readonly targets: readonly string[];
  /** For each slot the index of its target. */
  readonly slots?: Uint32Array;
}

/** The lists of a service port: of the whole cluster, and of this node alone. Absent where there are no such endpoints. */
export interface ServicePortLists {
  readonly cluster?: EndpointList;
  readonly local?: EndpointList;
  readonly isSticky: boolean;
  /** Only of a service port with ranges of ports: the ways by which these lead to no endpoint. */
  readonly empty?: readonly EmptyList[];
}

/** A way by which connections find no endpoint. */
export interface EmptyList {
  readonly way: Way;
  readonly refusal: Refusal;
}

/** How a service port wants connections to be balanced. */
export interface Balancing extends Pick<Balancer, "affinitySeconds" | "both"> {
  readonly scheduler: Scheduler;
}

/** One for all lists that are balanced alike. */
const balancers = new SharedValues<Balancer>();

/**
 * The lists of a service port.
 * @param cluster endpoints for connections by a policy of Cluster, sorted by target
 * @param local the same by a policy of Local
 */
export function servicePortLists(
  cluster: readonly Endpoint[],
  local: readonly Endpoint[],
  balancing: Balancing,
): ServicePortLists {
  const isSticky = balancing.affinitySeconds > 0;
  // Without a spread: V8 gives every object that is made by one a hidden class of its own, 200 bytes.
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
    // A single endpoint needs no choice, and shares the chain of all others.
    scheduler: endpoints.length === 1 ? "random" : scheduler,
    slots: slots !== undefined,
    count: slots?.length ?? endpoints.length,
    affinitySeconds,
    local: isLocal && affinitySeconds > 0,
    ...(both && affinitySeconds > 0 && { both }),
  };
  const shared = balancers.share(balancerName(balancer), balancer);
  const targets = endpoints.map(({ target }) => target);
  return slots === undefined ? { balancer: shared, targets } : { balancer: shared, targets, slots };
}

/** The slot table of a list, undefined for one that needs none: no hash, and all weights alike. */
function slotsOf(endpoints: readonly Endpoint[], scheduler: Scheduler): Uint32Array | undefined {
  const [first] = endpoints;
  if (first === undefined || endpoints.length === 1) return undefined;
  const isHashed = scheduler === "source-hash" || scheduler === "flow-hash";
  if (!isHashed && endpoints.every(({ weight }) => weight === first.weight)) return undefined;
  // Weights of 0 come only where nothing else is left, and then all of them are.
  const owners = endpoints.map(({ address, port, weight }) => ({
    address,
    port,
    weight: Math.max(1, weight),
  }));
  return slotTable(owners);
}

/** The values that a list's chain finds by index or slot. @param values one for each target */
export function numberedValues({ slots }: EndpointList, values: readonly string[]): readonly string[] {
  return slots === undefined ? values : Array.from(slots, (index) => values[index] as string);
}

/** Whether any endpoint may have any index; a slot's place decides which hash leads to it. */
export function isPlaceable({ slots }: EndpointList): boolean {
  return slots === undefined;
}
