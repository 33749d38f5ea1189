import type { Family } from "../base/family.ts";
import { type Excess, excessOf } from "../model/budgets.ts";
import { portNameOf } from "../model/endpoint.ts";
import type { EndpointSlice } from "../model/endpoint-slice.ts";
import { hasFamily, type Service, type ServicePortSpec } from "../model/service.ts";
import { type PortOfService, usesClusterEndpoints, usesLocalEndpoints } from "../model/service-port.ts";
import {
  type AddressCounts,
  drawsIn,
  type FamilyContext,
  hasIntervals,
  intervalsIn,
  type NodeContext,
} from "./node-context.ts";
import { mostElements } from "./source-ranges.ts";

/** Counts the endpoints of some slices, whatever their conditions: they may become ready at any time. */
interface Endpoints {
  readonly count: number;
  /** Number of endpoints on this node. */
  readonly local: number;
  /** A slice once for each of its ports that they have. */
  readonly slices: readonly EndpointSlice[];
}

/**
 * The per-Service budget that a Service exceeds; undefined if it exceeds none.
 * @param count its {@link elementCount}
 */
export function ownExcess(
  service: Service,
  slices: readonly EndpointSlice[],
  count: number,
  nodeContext: NodeContext,
): Excess | undefined {
  const [context] = nodeContext;
  if (service.excess !== undefined || context === undefined) return service.excess;
  for (const { budget } of context.features) {
    if (budget?.ofService === undefined) continue;
    const { limit, words } = budget.ofService;
    const amount = nodeContext.reduce((sum, one) => sum + budget.amountOf({ service, slices }, one), 0);
    const excess = excessOf(words, amount, limit);
    if (excess !== undefined) return excess;
  }
  return excessOf("maxServiceElements", count, context.maxServiceElements);
}

/**
 * The maximum number of elements of a Service and its slices in the kernel, including endpoints that are not
 * ready. Computed without creating them: ports, addresses and endpoints multiply, so a Service of a few
 * kilobytes can have millions.
 */
export function elementCount(
  service: Service,
  slices: readonly EndpointSlice[],
  nodeContext: NodeContext,
): number {
  let count = 0;
  for (const context of nodeContext) {
    const { family } = context;
    if (!hasFamily(service, family) || service.ports.length === 0) continue;
    const addresses = frontendAddresses(service, context);
    const counted = countedByPort(slices, context);
    for (const { budget, mostElements: ofAddresses } of context.features) {
      const amount = budget?.amountOf({ service, slices }, context) ?? 0;
      if (amount > 0)
        count += budget?.elements === undefined ? service.ports.length : budget.elements * amount;
      if (ofAddresses !== undefined) count += ofAddresses(addresses);
    }
    count += 1 + rangeElements(service, addresses.guarded, family);
    for (const spec of service.ports) {
      const port = { family, service, spec };
      count +=
        frontendElements(port, addresses, context) +
        listElements(port, counted.get(portNameOf(spec)), context);
    }
  }
  return count;
}

/** Counts source ranges, and what leads to them from guarded addresses. */
function rangeElements(service: Service, guarded: number, family: Family): number {
  return guarded === 0 ? 0 : mostElements(family, service.loadBalancerSourceRanges[family]) + guarded;
}

interface FrontendAddresses extends AddressCounts {
  /** Whether a port of the Service has intervals. */
  readonly areExplicit: boolean;
}

function frontendAddresses(service: Service, context: FamilyContext): FrontendAddresses {
  const { family } = context;
  const balanced = service.loadBalancerIPs[family];
  const addresses = [...service.externalIPs[family], ...balanced];
  const external = addresses.length < 2 ? addresses.length : new Set(addresses).size;
  const guarded = service.loadBalancerSourceRanges[family].length === 0 ? 0 : balanced.length;
  return {
    external,
    guarded,
    areExplicit: service.ports.some((spec) => hasIntervals({ service, spec }, context)),
  };
}

/** Counts elements in `lists`, refusals by policy, and checks of source ranges. */
function frontendElements(
  { service, spec }: PortOfService,
  { external, guarded, areExplicit }: FrontendAddresses,
  context: FamilyContext,
): number {
  const outside = external + (spec.nodePort === 0 ? 0 : 1);
  const ofPort = 1 + outside + (service.externalPolicyLocal ? outside : guarded) + guarded;
  if (!areExplicit) return ofPort;
  // Explicit ports have one more element. Each dividing interval may split one in two; two lists may be
  // empty.
  const intervals = countOf({ service, spec }, context);
  return ofPort + 1 + external + (intervals === 0 ? 0 : 2 * intervals * (1 + external + guarded) + 2);
}

/** Number of intervals of a service port. */
function countOf(port: Pick<PortOfService, "service" | "spec">, context: FamilyContext): number {
  return intervalsIn(context)?.intervalsOf(port)?.length ?? 0;
}

/**
 * The number of intervals of a Service at all of its addresses of a family. The kernel has as many, and up to
 * twice as many if older intervals of other Services divide them.
 */
export function intervalCount(service: Service, context: FamilyContext): number {
  if (!hasFamily(service, context.family)) return 0;
  const count = service.ports.reduce((sum, spec) => sum + countOf({ service, spec }, context), 0);
  return count === 0 ? 0 : count * (1 + frontendAddresses(service, context).external);
}

/** The number of endpoints of some ports of a Service, counted at each port. */
export function endpointCount(
  slices: readonly EndpointSlice[],
  ports: readonly ServicePortSpec[],
  context: FamilyContext,
): number {
  if (ports.length === 0) return 0;
  const counted = countedByPort(slices, context);
  return ports.reduce((sum, spec) => sum + (counted.get(portNameOf(spec))?.count ?? 0), 0);
}

function listElements(port: PortOfService, endpoints: Endpoints | undefined, context: FamilyContext): number {
  if (endpoints === undefined) return 0;
  const { count: all, local, slices } = endpoints;
  const numbersOf = (count: number) => drawsIn(context)?.mostNumbers(port, slices, count, context) ?? count;
  const isDoubled = hasIntervals(port, context);
  let count = isDoubled ? 2 * local : local;
  if (usesClusterEndpoints(port)) count += ofList(port, all, numbersOf(all), isDoubled);
  if (usesLocalEndpoints(port) && local > 0) count += ofList(port, local, numbersOf(local), isDoubled);
  return count;
}

/** Intervals need the same number again, except for the numbers of endpoints with session affinity. */
function ofList({ service }: PortOfService, endpoints: number, numbers: number, isDoubled: boolean): number {
  if (service.affinitySeconds === 0) return isDoubled ? 2 * (1 + numbers) : 1 + numbers;
  // One element for how to choose, and one for how long to remember.
  return 1 + numbers + 2 + endpoints + (isDoubled ? 1 + endpoints : 0);
}

/** The endpoints of a family's slices by the names of their ports: reads each slice once. */
function countedByPort(
  slices: readonly EndpointSlice[],
  { family, place }: FamilyContext,
): ReadonlyMap<string, Endpoints> {
  const counted = new Map<string, { count: number; local: number; slices: EndpointSlice[] }>();
  for (const slice of slices) {
    if (slice.family !== family || slice.endpoints.length === 0) continue;
    const local = slice.endpoints.countOn(place.name);
    for (const port of slice.ports) {
      const name = portNameOf(port);
      const of = counted.get(name) ?? { count: 0, local: 0, slices: [] };
      of.count += slice.endpoints.length;
      of.local += local;
      of.slices.push(slice);
      counted.set(name, of);
    }
  }
  return counted;
}
