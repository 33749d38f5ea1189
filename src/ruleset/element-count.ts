import type { EndpointSlice } from "../model/endpoint-slice.ts";
import type { Service, ServicePortSpec } from "../model/service.ts";
import { type Excess, excessOf } from "../model/service-budget.ts";
import {
  type ServicePort,
  servicePortsOf,
  usesClusterEndpoints,
  usesLocalEndpoints,
} from "../model/service-port.ts";
import type { FamilyContext, NodeContext } from "./node-context.ts";
import { servedRanges } from "./service-port-rules.ts";
import { slotCountOf, type Weights } from "./slot-table.ts";

/** The endpoints of some slices, whatever their conditions: one that is not ready may be so in a moment. */
interface Endpoints extends Weights {
  readonly heaviest: number;
  /** Those on this node. */
  readonly local: number;
}

/**
 * The budget of its own that a Service exceeds; undefined for none.
 * @param count its {@link elementCount}
 */
export function ownExcess(service: Service, count: number, nodeContext: NodeContext): Excess | undefined {
  const { maxServiceElements = Number.POSITIVE_INFINITY, maxServicePortRanges = Number.POSITIVE_INFINITY } =
    nodeContext[0] ?? {};
  const ranges = nodeContext.reduce((sum, context) => sum + rangeCount(service, context), 0);
  return (
    service.excess ??
    excessOf("maxServicePortRanges", ranges, maxServicePortRanges) ??
    excessOf("maxServiceElements", count, maxServiceElements)
  );
}

/**
 * The most elements that the kernel can have for a Service and its slices, endpoints that are not ready included. They are
 * counted, not made: ports, addresses and endpoints multiply, and a Service of some kilobytes can have millions.
 */
export function elementCount(
  service: Service,
  slices: readonly EndpointSlice[],
  nodeContext: NodeContext,
): number {
  let count = 0;
  for (const context of nodeContext) {
    const ports = servicePortsOf(service).filter(({ family }) => family === context.family);
    if (ports.length === 0) continue;
    const addresses = frontendAddresses(service, context);
    const endpoints = endpointsByPort(slices, context);
    count +=
      1 +
      (addresses.guarded > 0
        ? service.loadBalancerSourceRanges[context.family].length + addresses.guarded
        : 0);
    for (const port of ports) {
      count +=
        frontendElements(port, addresses, context) +
        listElements(port, endpoints.get(portKey(port.spec)), context);
    }
  }
  return count;
}

interface FrontendAddresses {
  readonly external: number;
  /** Those of them that only source ranges may reach. */
  readonly guarded: number;
  /** Some port of the Service has ranges. */
  readonly areRanged: boolean;
}

function frontendAddresses(service: Service, { family }: FamilyContext): FrontendAddresses {
  const balanced = service.loadBalancerIPs[family];
  const external = new Set([...service.externalIPs[family], ...balanced]).size;
  const guarded = service.loadBalancerSourceRanges[family].length === 0 ? 0 : balanced.length;
  return { external, guarded, areRanged: service.ports.some(({ ranges }) => ranges !== undefined) };
}

/** A frontend has an element in `lists`, and one that refuses where its policy has no endpoint; a guarded one has a check. */
function frontendElements(
  { service, spec }: ServicePort,
  { external, guarded, areRanged }: FrontendAddresses,
  context: FamilyContext,
): number {
  const outside = external + (spec.nodePort === 0 ? 0 : 1);
  const ofPort = 1 + outside + (service.externalPolicyLocal ? outside : guarded) + guarded;
  if (!areRanged) return ofPort;
  // Explicit ports are once more in a set. A range may be in two pieces, for each that divides it; two lists may be empty.
  const ranges = servedRanges({ spec }, context).length;
  return ofPort + 1 + external + (ranges === 0 ? 0 : 2 * ranges * (1 + external + guarded) + 2);
}

/**
 * The ranges of ports of a Service at all of its addresses of a family: as many intervals in the kernel, and up to twice as
 * many where older ranges of others divide them.
 */
export function rangeCount(service: Service, context: FamilyContext): number {
  if (service.clusterIPs[context.family] === "") return 0;
  const ranges = service.ports.reduce((sum, spec) => sum + servedRanges({ spec }, context).length, 0);
  return ranges === 0 ? 0 : ranges * (1 + frontendAddresses(service, context).external);
}

function listElements(port: ServicePort, endpoints: Endpoints | undefined, context: FamilyContext): number {
  if (endpoints === undefined) return 0;
  const lists = [
    ...(usesClusterEndpoints(port) ? [endpoints] : []),
    ...(usesLocalEndpoints(port) && endpoints.local > 0 ? [{ ...endpoints, count: endpoints.local }] : []),
  ];
  const numbers = lists.map((list) => 1 + numbersOf(port.service, list, context));
  const members = port.service.affinitySeconds > 0 ? lists.map(({ count }) => count) : [];
  // For ranges once more, but for the numbers of endpoints with session affinity.
  const isRanged = servedRanges(port, context).length > 0;
  const ofRanges = members.length > 0 ? members.map((count) => 1 + count) : numbers;
  const all = [...numbers, ...members, ...(isRanged ? [...ofRanges, endpoints.local] : [])];
  return all.reduce((sum, each) => sum + each, endpoints.local);
}

/** How many numbers lead to the endpoints of a list: its slots, or one for each. */
function numbersOf({ scheduler }: Service, list: Endpoints, context: FamilyContext): number {
  const wanted = scheduler ?? context.scheduler;
  const isSlotted = wanted === "source-hash" || wanted === "flow-hash" || list.lightest < list.heaviest;
  return isSlotted && list.count > 1 ? Math.max(slotCountOf(list), list.count) : list.count;
}

function portKey({ name, protocol }: Pick<ServicePortSpec, "name" | "protocol">): string {
  return `${protocol} ${name}`;
}

/** The endpoints of each port of the slices of a family, by its name and protocol. */
function endpointsByPort(
  slices: readonly EndpointSlice[],
  { family, place }: FamilyContext,
): ReadonlyMap<string, Endpoints> {
  const found = new Map<string, Endpoints>();
  for (const slice of slices) {
    if (slice.family !== family || slice.endpoints.length === 0) continue;
    const own = endpointsOf(slice, place.name);
    for (const port of slice.ports) {
      const key = portKey(port);
      const known = found.get(key);
      found.set(key, known === undefined ? own : sumOf(known, own));
    }
  }
  return found;
}

function endpointsOf({ endpoints, weight }: EndpointSlice, nodeName: string): Endpoints {
  const count = endpoints.length;
  let local = 0;
  if (nodeName !== "") for (const endpoint of endpoints) if (endpoint.nodeName === nodeName) local++;
  // Drained endpoints share no list with others.
  return {
    count,
    local,
    sum: count * weight,
    lightest: weight || Number.POSITIVE_INFINITY,
    heaviest: weight,
  };
}

function sumOf(a: Endpoints, b: Endpoints): Endpoints {
  return {
    count: a.count + b.count,
    local: a.local + b.local,
    sum: a.sum + b.sum,
    lightest: Math.min(a.lightest, b.lightest),
    heaviest: Math.max(a.heaviest, b.heaviest),
  };
}
