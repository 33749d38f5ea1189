import type { Endpoint } from "../model/endpoint.ts";
import type { EndpointChoice } from "../model/endpoint-choice.ts";
import type { Service } from "../model/service.ts";
import {
  isExternallyAccessible,
  type ServicePort,
  usesClusterEndpoints,
  usesLocalEndpoints,
} from "../model/service-port.ts";
import { joinParts } from "../nft/elements.ts";
import type { Refusal } from "./chain-names.ts";
import { type EmptyList, type ServicePortLists, servicePortLists } from "./endpoint-list.ts";
import type { FrontendRules } from "./frontend-rules.ts";
import type { PortInterval } from "./interval-frontends.ts";
import { frontendKey, intervalKey, nodePortKey } from "./keys.ts";
import { type ListName, MOST_STICKY_ENDPOINTS, type Way } from "./list-ids.ts";
import {
  affinitySecondsOf,
  type DesiredElement,
  drawsIn,
  type FamilyContext,
  type FeatureElements,
  type FrontendClients,
  intervalsIn,
  type PortPart,
} from "./node-context.ts";
import { CLUSTER_IPS, HAIRPIN_CONNECTIONS } from "./sets.ts";
import { sourceRanges } from "./source-ranges.ts";

/** The rules of one service port: a pure function of the port, its endpoints and the context. */
export interface ServicePortRules {
  readonly port: ServicePort;
  /** Their `port` is this one. */
  readonly frontends: readonly FrontendRules[];
  /**
   * The same for each interval of ports at each address, with the whole interval in keys. Another service
   * port may have some of its ports: see `DividedIntervals`.
   */
  readonly intervals: readonly FrontendRules[];
  readonly lists: ServicePortLists;
  /** Elements that several service ports may share. */
  readonly shared: readonly DesiredElement[];
  /** The "Local" policies for which only other nodes have endpoints. */
  readonly noLocalEndpoints: readonly ("internal" | "external")[];
  /** Elements that features want; service ports may share them. Absent for none. */
  readonly ofFeatures?: readonly FeatureElements[];
}

/**
 * Renders one service port.
 * @param before its Service as last rendered, whose {@link sourceRanges} stay if they are the same
 */
export function renderServicePort(
  port: ServicePort,
  choice: EndpointChoice,
  context: FamilyContext,
  before?: Service,
): ServicePortRules {
  const { service } = port;
  const ofClusterIP = clusterFrontend(port, choice);
  const external = externalFrontends(port, choice, context, before);
  const lists = servicePortLists(choice.cluster, choice.local, {
    drawOf: (endpoints) => drawsIn(context)?.drawOf(port, endpoints, context),
    affinitySeconds: affinitySecondsOf(service, context),
    ...(usesClusterEndpoints(port) && usesLocalEndpoints(port) && { bothLists: true }),
  });
  const intervalPart = intervalsIn(context);
  const intervals = intervalPart?.intervalsOf(port) ?? NO_INTERVALS;
  const hairpinSet = intervals.length === 0 ? undefined : intervalPart?.kind.hairpins;
  const ofFeatures = context.features.flatMap((feature) => {
    const elements = feature.elementsOf?.(port, choice, context) ?? NO_ELEMENTS;
    return elements.length === 0 ? [] : [{ part: feature, elements }];
  });
  const portParts = context.features.flatMap((feature) => feature.partOf?.(port, context) ?? []);
  return {
    port,
    frontends: [ofClusterIP, ...external, ...nodePortFrontend(port, choice)],
    intervals: intervalFrontends(intervals, ofClusterIP, external),
    lists: withExtras(lists, intervals.length > 0 ? emptyLists(port, choice) : undefined, portParts),
    shared: [
      { set: CLUSTER_IPS, key: service.clusterIPs[port.family], value: "" },
      ...hairpinElements(choice, HAIRPIN_CONNECTIONS, (one) => [port.spec.protocol, one.port]),
      // The same for all ports of all intervals: addresses are enough.
      ...(hairpinSet === undefined ? NO_ELEMENTS : hairpinElements(choice, hairpinSet, () => [])),
    ],
    noLocalEndpoints: noLocalEndpoints(port, choice),
    ...(ofFeatures.length > 0 && { ofFeatures }),
  };
}

/** Adds to lists what only service ports with intervals, or with parts of features, have. */
function withExtras(
  lists: ServicePortLists,
  empty: readonly EmptyList[] | undefined,
  parts: readonly PortPart[],
): ServicePortLists {
  if (empty === undefined && parts.length === 0) return lists;
  // No object spread: V8 gives each object that a spread creates its own hidden class of 200 bytes.
  const { cluster, local, isSticky } = lists;
  return { cluster, local, isSticky, empty, parts: parts.length > 0 ? parts : undefined };
}

/** Tells which clients a frontend serves; undefined if it serves none. */
export function frontendClientsOf({ key, way, refusal, guard }: FrontendRules): FrontendClients | undefined {
  // Without a local endpoint, the policy "Local" serves only pods and the node itself.
  const isInsideOnly = way === "external-local" && refusal === "no-local-endpoints";
  if (way === undefined || (refusal !== undefined && !isInsideOnly)) return undefined;
  return { key, isInsideOnly, ranges: guard?.id };
}

/** Describes the limit that the rules of a service port exceed; undefined if they exceed none. */
export function limitExceededBy({ lists }: Pick<ServicePortRules, "lists">): string | undefined {
  if (!lists.isSticky) return undefined;
  // An endpoint in both lists has only one id.
  const count = new Set([...(lists.cluster?.targets ?? []), ...(lists.local?.targets ?? [])]).size;
  if (count <= MOST_STICKY_ENDPOINTS) return undefined;
  return `a Service with session affinity can have ${MOST_STICKY_ENDPOINTS} endpoints, and this one has ${count}`;
}

type NoLocalEndpoints = ServicePortRules["noLocalEndpoints"];

/** Shared, because most service ports have none of these. */
const NO_POLICIES: NoLocalEndpoints = [];
const NO_ELEMENTS: readonly DesiredElement[] = [];
const NO_FRONTENDS: readonly FrontendRules[] = [];
const NO_INTERVALS: readonly PortInterval[] = [];

function noLocalEndpoints(port: ServicePort, { hasAny, local }: EndpointChoice): NoLocalEndpoints {
  const { internalPolicyLocal, externalPolicyLocal } = port.service;
  const isAnyLocal = internalPolicyLocal || externalPolicyLocal;
  if (!isAnyLocal || !hasAny || local.length > 0) return NO_POLICIES;
  return [
    ...(internalPolicyLocal ? (["internal"] as const) : []),
    ...(externalPolicyLocal && isExternallyAccessible(port) ? (["external"] as const) : []),
  ];
}

/** The ways of connections to the cluster IP and of those from outside. */
const internalWay = ({ internalPolicyLocal }: Service): ListName =>
  internalPolicyLocal ? "local" : "cluster";
const externalWay = ({ externalPolicyLocal }: Service): Way =>
  externalPolicyLocal ? "external-local" : "external-cluster";

function clusterFrontend(port: ServicePort, choice: EndpointChoice): FrontendRules {
  const { service, spec, family } = port;
  const key = frontendKey(service.clusterIPs[family], spec.protocol, spec.port);
  const way = internalWay(service);
  return choice[way].length === 0 ? { port, key, refusal: refusal(choice) } : { port, key, way };
}

function externalFrontends(
  port: ServicePort,
  choice: EndpointChoice,
  context: FamilyContext,
  before: Service | undefined,
): readonly FrontendRules[] {
  const { service, spec, family } = port;
  if (service.externalIPs[family].length + service.loadBalancerIPs[family].length === 0) return NO_FRONTENDS;
  const loadBalancerIPs = new Set(service.loadBalancerIPs[family]);
  const addresses = new Set([...service.externalIPs[family], ...loadBalancerIPs]);
  addresses.delete(service.clusterIPs[family]);
  if (addresses.size === 0) return NO_FRONTENDS;
  const guard = sourceRanges(port, context, before);
  return [...addresses].sort().map((address) => {
    const rules = externalFrontend(frontendKey(address, spec.protocol, spec.port), port, choice);
    if (guard === undefined || !loadBalancerIPs.has(address)) return rules;
    // The way leads through the check even without endpoints: a forbidden client is dropped, not refused.
    return { ...rules, way: rules.way ?? "external-cluster", guard };
  });
}

function nodePortFrontend(port: ServicePort, choice: EndpointChoice): FrontendRules[] {
  const { protocol, nodePort } = port.spec;
  return nodePort === 0 ? [] : [externalFrontend(nodePortKey(port.family, protocol, nodePort), port, choice)];
}

/**
 * Serves intervals at the addresses of the port. An interval leads to the port's lists even if these are
 * empty, so that intervals change only with the Service.
 */
function intervalFrontends(
  intervals: readonly PortInterval[],
  ofClusterIP: FrontendRules,
  external: readonly FrontendRules[],
): readonly FrontendRules[] {
  if (intervals.length === 0) return NO_FRONTENDS;
  const { service } = ofClusterIP.port;
  const ofPort = [
    { ...ofClusterIP, way: internalWay(service) },
    ...external.map((frontend) => ({ ...frontend, way: externalWay(service) })),
  ];
  return intervals.flatMap((interval) => ofPort.map((frontend) => atInterval(frontend, interval)));
}

/**
 * The rules of a frontend, with an interval in place of its port or interval, and without its refusal:
 * {@link ServicePortLists.empty} refuses for intervals.
 */
export function atInterval(
  { port, key: frontend, way, guard }: FrontendRules,
  interval: PortInterval,
): FrontendRules {
  const key = intervalKey(frontend, interval);
  if (guard === undefined) return way === undefined ? { port, key } : { port, key, way };
  return way === undefined ? { port, key, guard } : { port, key, way, guard };
}

/** The ways that lead intervals to no endpoint. */
function emptyLists({ service }: ServicePort, choice: EndpointChoice): readonly EmptyList[] {
  const internal = internalWay(service);
  // `hasAny`, because `choice.cluster` is empty, too, if the service port does not use the cluster's list.
  const isExternalEmpty = !choice.hasAny || (service.externalPolicyLocal && choice.local.length === 0);
  const ways: readonly Way[] = [
    ...(choice[internal].length === 0 ? [internal] : []),
    ...(isExternalEmpty ? [externalWay(service)] : []),
  ];
  return ways.map((way) => ({ way, refusal: refusal(choice) }));
}

/**
 * The policy "Cluster" masquerades traffic, so that answers come back through this node. "Local" keeps the
 * source; without a local endpoint it drops, so that a load balancer tries other nodes.
 */
function externalFrontend(key: string, port: ServicePort, choice: EndpointChoice): FrontendRules {
  if (!choice.hasAny) return { port, key, refusal: refusal(choice) };
  if (!port.service.externalPolicyLocal) return { port, key, way: "external-cluster" };
  const way = "external-local";
  return choice.local.length === 0 ? { port, key, way, refusal: refusal(choice) } : { port, key, way };
}

/**
 * Refuses immediately if no node has an endpoint. Drops if only other nodes have endpoints, which the policy
 * "Local" does not use.
 */
function refusal({ hasAny }: EndpointChoice): Refusal {
  return hasAny ? "no-local-endpoints" : "no-endpoints";
}

/**
 * A local endpoint that reaches itself through a Service must not see its own address as the source.
 * @param portOf the parts of a key after both addresses
 */
function hairpinElements(
  { cluster, local }: EndpointChoice,
  set: string,
  portOf: (endpoint: Endpoint) => readonly (string | number)[],
): readonly DesiredElement[] {
  if (!cluster.some(isLocal) && !local.some(isLocal)) return NO_ELEMENTS;
  const own = [...cluster, ...local].filter(isLocal);
  const keys = own.map((endpoint) => joinParts(endpoint.address, endpoint.address, ...portOf(endpoint)));
  return [...new Set(keys)].map((key) => ({ set, key, value: "" }));
}

function isLocal({ local }: Endpoint): boolean {
  return local;
}
