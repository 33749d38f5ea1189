import type { ByFamily, Family } from "../base/family.ts";
import { pieceMeter } from "../base/pieces.ts";
import { type Excess, excessOf } from "../model/budgets.ts";
import { EQUAL, portNameOf } from "../model/endpoint.ts";
import type { EndpointSlice } from "../model/endpoint-slice.ts";
import { hasFamily, type Service } from "../model/service.ts";
import { type PortOfService, usesClusterEndpoints, usesLocalEndpoints } from "../model/service-port.ts";
import {
  type AddressCounts,
  drawsIn,
  type FamilyContext,
  type FeatureBudgetParts,
  hasIntervals,
  intervalsIn,
  type ListWeights,
  type NodeContext,
} from "./node-context.ts";
import { mostRangeElements } from "./source-ranges.ts";

/** The endpoints of one port of slices, whatever their conditions: they may become ready at any time. */
export interface EndpointCount extends ListWeights {
  readonly count: number;
  /** Number of endpoints on this node. */
  readonly local: number;
}

/** What a Service and its slices would have at most, including endpoints that are not ready. */
export interface ServiceCount {
  /** The number of elements in the kernel. */
  readonly elements: number;
  /** What it wants of each budget that it uses, by the budget's name. */
  readonly amounts: ReadonlyMap<string, ByFamily<number>>;
}

/** Shared to save memory: most Services use no feature. */
export const NO_AMOUNTS: ServiceCount["amounts"] = new Map();

/** The per-Service budget that a Service exceeds; undefined if it exceeds none. */
export function ownExcess(
  service: Service,
  { elements, amounts }: ServiceCount,
  nodeContext: NodeContext,
): Excess | undefined {
  if (service.excess !== undefined) return service.excess;
  // Limits are the same in each family.
  const [context] = nodeContext;
  if (context === undefined) return undefined;
  for (const { name, budget } of context.features) {
    const ofService = budget?.ofService;
    const amount = amounts.get(name);
    if (ofService === undefined || amount === undefined) continue;
    const excess = excessOf(ofService.words, amount.ip + amount.ip6, ofService.limit);
    if (excess !== undefined) return excess;
  }
  return excessOf("maxServiceElements", elements, context.maxServiceElements);
}

/**
 * Counts what a Service and its slices may have, in steps and without creating it: ports, addresses and
 * endpoints multiply, so a Service of a few kilobytes can have millions of elements.
 * @param budgets those of all features
 */
export function* counting(
  service: Service,
  slices: readonly EndpointSlice[],
  nodeContext: NodeContext,
  budgets: readonly FeatureBudgetParts[],
): Generator<undefined, ServiceCount> {
  const isPieceDone = pieceMeter();
  let elements = 0;
  let amounts: Map<string, ByFamily<number>> | undefined;
  for (const context of nodeContext) {
    const { family } = context;
    if (!hasFamily(service, family)) continue;
    const endpoints = yield* countingByPort(slices, context);
    for (const { name, amountOf } of budgets) {
      const amount = amountOf({ service, endpoints }, context);
      if (amount === 0) continue;
      amounts ??= new Map();
      amounts.set(name, { ip: 0, ip6: 0, ...amounts.get(name), [family]: amount });
    }
    if (service.ports.length === 0) continue;
    const addresses = frontendAddresses(service, context);
    for (const { name, budget, mostElements } of context.features) {
      const amount = amounts?.get(name)?.[family] ?? 0;
      // By default, an element of each port leads to a chain of the feature.
      if (amount > 0)
        elements += budget?.elements === undefined ? service.ports.length : budget.elements * amount;
      if (mostElements !== undefined) elements += mostElements(addresses);
    }
    const inClusterIPs = 1;
    elements += inClusterIPs + rangeElements(service, addresses.guarded, family);
    for (const spec of service.ports) {
      const port = { family, service, spec };
      elements +=
        frontendElements(port, addresses, context) +
        listElements(port, endpoints.get(portNameOf(spec)), context);
      if (isPieceDone(1)) yield;
    }
  }
  return { elements, amounts: amounts ?? NO_AMOUNTS };
}

/** Counts source ranges. If these allow the node, the guarded addresses themselves are among them. */
function rangeElements(service: Service, guarded: number, family: Family): number {
  return guarded === 0 ? 0 : mostRangeElements[family](service.loadBalancerSourceRanges[family]) + guarded;
}

interface FrontendAddresses extends AddressCounts {
  /** Whether a port of the Service has intervals: `explicitPorts` then has all of its ports. */
  readonly haveIntervals: boolean;
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
    haveIntervals: service.ports.some((spec) => hasIntervals({ service, spec }, context)),
  };
}

/** Counts the elements of a service port's frontends and intervals. */
function frontendElements(
  { service, spec }: PortOfService,
  { external, guarded, haveIntervals }: FrontendAddresses,
  context: FamilyContext,
): number {
  const outside = external + (spec.nodePort === 0 ? 0 : 1);
  const listedOrRefused = 1 + outside;
  // Listed and refused: by the policy Local, or because source ranges are checked first.
  const alsoRefused = service.externalPolicyLocal ? outside : guarded;
  const inRangeLists = guarded;
  const ofPort = listedOrRefused + alsoRefused + inRangeLists;
  if (!haveIntervals) return ofPort;
  const explicit = 1 + external;
  const intervals = countOf({ service, spec }, context);
  if (intervals === 0) return ofPort + explicit;
  // Intervals of other Services may split each in two.
  const pieces = 2 * intervals;
  const emptyLists = 2;
  return ofPort + explicit + pieces * (1 + external + inRangeLists) + emptyLists;
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

function listElements(
  port: PortOfService,
  endpoints: EndpointCount | undefined,
  context: FamilyContext,
): number {
  if (endpoints === undefined) return 0;
  const { count: all, local } = endpoints;
  const numbersOf = (count: number) =>
    drawsIn(context)?.mostNumbers(port, endpoints, count, context) ?? count;
  const isDoubled = hasIntervals(port, context);
  const hairpins = isDoubled ? 2 * local : local;
  let elements = hairpins;
  if (usesClusterEndpoints(port)) elements += ofList(port, all, numbersOf(all), isDoubled);
  if (usesLocalEndpoints(port) && local > 0) elements += ofList(port, local, numbersOf(local), isDoubled);
  return elements;
}

/** Intervals need the same number again, except for the numbers of endpoints with session affinity. */
function ofList({ service }: PortOfService, endpoints: number, numbers: number, isDoubled: boolean): number {
  if (service.affinitySeconds === 0) return isDoubled ? 2 * (1 + numbers) : 1 + numbers;
  // One element for how to choose, and one for how long to remember.
  return 1 + numbers + 2 + endpoints + (isDoubled ? 1 + endpoints : 0);
}

/** The endpoints of a family's slices by the names of their ports: reads each slice once, in steps. */
function* countingByPort(
  slices: readonly EndpointSlice[],
  context: FamilyContext,
): Generator<undefined, ReadonlyMap<string, EndpointCount>> {
  const { family, place } = context;
  const weightOf = drawsIn(context)?.shareOf ?? EQUAL;
  const isPieceDone = pieceMeter();
  const counted = new Map<string, Writable<EndpointCount>>();
  for (const slice of slices) {
    const { length } = slice.endpoints;
    if (slice.family !== family || length === 0) continue;
    const local = slice.endpoints.countOn(place.name);
    const weight = weightOf(slice);
    for (const port of slice.ports) {
      const name = portNameOf(port);
      let of = counted.get(name);
      if (of === undefined) {
        of = { count: 0, local: 0, sum: 0, lightest: Number.POSITIVE_INFINITY, heaviest: 0 };
        counted.set(name, of);
      }
      of.count += length;
      of.local += local;
      of.sum += length * weight;
      of.heaviest = Math.max(of.heaviest, weight);
      // Drained endpoints are never in a list with others.
      if (weight > 0) of.lightest = Math.min(of.lightest, weight);
    }
    if (isPieceDone(slice.ports.length + length)) yield;
  }
  return counted;
}

type Writable<T> = { -readonly [Field in keyof T]: T[Field] };
