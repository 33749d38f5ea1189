import type { Endpoint } from "../model/endpoint.ts";
import type { PortRange, Service } from "../model/service.ts";
import {
  isExternallyAccessible,
  type ServicePort,
  usesClusterEndpoints,
  usesLocalEndpoints,
} from "../model/service-port.ts";
import type { EndpointChoice } from "../model/topology.ts";
import { joinParts } from "../nft/elements.ts";
import type { Refusal } from "./chain-names.ts";
import { type EmptyList, type ServicePortLists, servicePortLists } from "./endpoint-list.ts";
import { frontendKey, nodePortKey, rangeKey } from "./keys.ts";
import { type ListName, MOST_STICKY_ENDPOINTS, type Way } from "./list-ids.ts";
import { affinitySecondsOf, type FamilyContext } from "./node-context.ts";
import { CLUSTER_IPS, HAIRPIN_CONNECTIONS, RANGES, type SetName } from "./sets.ts";
import { type SourceRanges, sourceRanges } from "./source-ranges.ts";

/** One element that a service port wants in a set or map; `value` is "" in a set. */
export interface DesiredElement {
  readonly set: SetName;
  readonly key: string;
  readonly value: string;
}

/** All that belongs to one frontend. Only one service port can have a frontend: see conflicts in family-state.ts. */
export interface FrontendRules {
  /** `10.96.0.10 . tcp . 53`, or `0.0.0.0 . tcp . 30080` for a NodePort. */
  readonly key: string;
  /** The way by which it leads to the lists of the service port; undefined where it leads to none. */
  readonly way?: Way;
  /** Only of a port without endpoints: for ranges, the lists say it. */
  readonly refusal?: Refusal;
  /** The source ranges that guard the frontend. */
  readonly guard?: SourceRanges;
}

/** The rules of one service port in the ruleset of its family: a pure function of the port, its choice and the context. */
export interface ServicePortRules {
  readonly port: ServicePort;
  readonly frontends: readonly FrontendRules[];
  /** The same for each range of ports at each address, with the whole range in keys: see port-ranges.ts for what it gets of it. */
  readonly ranges: readonly FrontendRules[];
  readonly lists: ServicePortLists;
  /** Elements that several service ports may want alike. */
  readonly shared: readonly DesiredElement[];
  /** The policies of "Local" for which this node has no endpoint while others do. */
  readonly noLocalEndpoints: readonly ("internal" | "external")[];
}

/** Renders one service port. */
export function renderServicePort(
  port: ServicePort,
  choice: EndpointChoice,
  context: FamilyContext,
): ServicePortRules {
  const { service } = port;
  // The annotation of the Service decides, or else the proxy's default.
  const scheduler = service.scheduler ?? context.scheduler;
  const ofAddresses = [clusterFrontend(port, choice), ...externalFrontends(port, choice, context)];
  const lists = servicePortLists(choice.cluster, choice.local, {
    scheduler,
    affinitySeconds: affinitySecondsOf(service, context),
    ...(usesClusterEndpoints(port) && usesLocalEndpoints(port) && { both: true }),
  });
  const ranges = servedRanges(port, context);
  const isRanged = ranges.length > 0;
  return {
    port,
    frontends: [...ofAddresses, ...nodePortFrontend(port, choice)],
    ranges: rangeFrontends(service, ranges, ofAddresses),
    lists: isRanged ? { ...lists, empty: emptyLists(port, choice) } : lists,
    shared: [
      { set: CLUSTER_IPS, key: service.clusterIPs[port.family], value: "" },
      ...hairpinElements(port, choice),
      ...(isRanged ? rangeHairpinElements(choice) : NOTHING),
    ],
    noLocalEndpoints: noLocalEndpoints(port, choice),
  };
}

/** The limit that the rules of a service port exceed; undefined when they exceed none. */
export function excessOf({ lists }: Pick<ServicePortRules, "lists">): string | undefined {
  if (!lists.isSticky) return undefined;
  // An endpoint in both lists has one id.
  const count = new Set([...(lists.cluster?.targets ?? []), ...(lists.local?.targets ?? [])]).size;
  if (count <= MOST_STICKY_ENDPOINTS) return undefined;
  return `a Service with session affinity can have ${MOST_STICKY_ENDPOINTS} endpoints, and this one has ${count}`;
}

type NoLocalEndpoints = ServicePortRules["noLocalEndpoints"];

/** One for all: most service ports miss no endpoints. */
const NONE_MISSING: NoLocalEndpoints = [];

function noLocalEndpoints(port: ServicePort, { hasAny, local }: EndpointChoice): NoLocalEndpoints {
  if (
    !hasAny ||
    local.length > 0 ||
    !(port.service.internalPolicyLocal || port.service.externalPolicyLocal)
  ) {
    return NONE_MISSING;
  }
  const { internalPolicyLocal, externalPolicyLocal } = port.service;
  return [
    ...(internalPolicyLocal ? (["internal"] as const) : []),
    ...(externalPolicyLocal && isExternallyAccessible(port) ? (["external"] as const) : []),
  ];
}

/** The ways that connections to the cluster IP and those from outside take. */
const internalWay = ({ internalPolicyLocal }: Service): ListName =>
  internalPolicyLocal ? "local" : "cluster";
const externalWay = ({ externalPolicyLocal }: Service): Way =>
  externalPolicyLocal ? "external-local" : "external-cluster";

function clusterFrontend({ service, spec, family }: ServicePort, choice: EndpointChoice): FrontendRules {
  const key = frontendKey(service.clusterIPs[family], spec.protocol, spec.port);
  const way = internalWay(service);
  return choice[way].length === 0 ? { key, refusal: refusal(choice) } : { key, way };
}

function externalFrontends(
  port: ServicePort,
  choice: EndpointChoice,
  context: FamilyContext,
): readonly FrontendRules[] {
  const { service, spec, family } = port;
  if (service.externalIPs[family].length + service.loadBalancerIPs[family].length === 0) return NO_FRONTENDS;
  const loadBalancerIPs = new Set(service.loadBalancerIPs[family]);
  const addresses = new Set([...service.externalIPs[family], ...loadBalancerIPs]);
  addresses.delete(service.clusterIPs[family]);
  if (addresses.size === 0) return [];
  const guard = sourceRanges(port, context);
  return [...addresses].sort().map((address) => {
    const rules = externalFrontend(frontendKey(address, spec.protocol, spec.port), port, choice);
    if (guard === undefined || !loadBalancerIPs.has(address)) return rules;
    // Without endpoints, too, the way leads past the check: who may not come is dropped, not refused.
    return { ...rules, way: rules.way ?? "external-cluster", guard };
  });
}

function nodePortFrontend(port: ServicePort, choice: EndpointChoice): FrontendRules[] {
  const { protocol, nodePort } = port.spec;
  return nodePort === 0 ? [] : [externalFrontend(nodePortKey(port.family, protocol, nodePort), port, choice)];
}

const NOTHING: readonly DesiredElement[] = [];
const NO_FRONTENDS: readonly FrontendRules[] = [];

const NONE: readonly PortRange[] = [];

/** The ranges of ports of a service port that get rules. */
export function servedRanges(
  { spec: { ranges = NONE } }: Pick<ServicePort, "spec">,
  { portRanges }: Pick<FamilyContext, "portRanges">,
): readonly PortRange[] {
  return portRanges === "off" ? NONE : ranges;
}

/**
 * A range is served as the port is, at the same addresses, and leads to its lists whether these have endpoints or not:
 * ranges come and go with the Service alone.
 */
function rangeFrontends(
  service: Service,
  ranges: readonly PortRange[],
  [ofClusterIP, ...external]: readonly FrontendRules[],
): readonly FrontendRules[] {
  if (ranges.length === 0 || ofClusterIP === undefined) return NO_FRONTENDS;
  const ofPort = [
    { ...ofClusterIP, way: internalWay(service) },
    ...external.map((frontend) => ({ ...frontend, way: externalWay(service) })),
  ];
  return ranges.flatMap((range) => ofPort.map((frontend) => atRange(frontend, range)));
}

/** The rules of a frontend, for a range of ports in the place of its port or range. */
export function atRange({ key: frontend, way, guard }: FrontendRules, range: PortRange): FrontendRules {
  const key = rangeKey(frontend, range);
  if (guard === undefined) return way === undefined ? { key } : { key, way };
  return way === undefined ? { key, guard } : { key, way, guard };
}

/** The ways by which ranges lead to no endpoint, refused or dropped as ports are. */
function emptyLists({ service }: ServicePort, choice: EndpointChoice): readonly EmptyList[] {
  const internal = internalWay(service);
  const isExternalEmpty = !choice.hasAny || (service.externalPolicyLocal && choice.local.length === 0);
  const ways: readonly Way[] = [
    ...(choice[internal].length === 0 ? [internal] : []),
    ...(isExternalEmpty ? [externalWay(service)] : []),
  ];
  return ways.map((way) => ({ way, refusal: refusal(choice) }));
}

/**
 * Traffic by an external policy of "Cluster" is masqueraded, for its answers must come back through this node;
 * by "Local" it keeps its source, and without a local endpoint it is dropped, so that a load balancer's other
 * nodes can answer.
 */
function externalFrontend(key: string, { service }: ServicePort, choice: EndpointChoice): FrontendRules {
  if (!choice.hasAny) return { key, refusal: refusal(choice) };
  if (!service.externalPolicyLocal) return { key, way: "external-cluster" };
  const way = "external-local";
  return choice.local.length === 0 ? { key, way, refusal: refusal(choice) } : { key, way };
}

/** No endpoint anywhere: refused at once. Some, but not for this policy: dropped. */
function refusal({ hasAny }: EndpointChoice): Refusal {
  return hasAny ? "dropped" : "refused";
}

/** A local endpoint that reaches itself through a Service must not see its own address as the source. */
function hairpinElements(
  { spec }: ServicePort,
  { cluster, local }: EndpointChoice,
): readonly DesiredElement[] {
  if (!cluster.some(isLocal) && !local.some(isLocal)) return NOTHING;
  const own = [...cluster, ...local].filter(isLocal);
  const keys = own.map(({ address, port }) => joinParts(address, address, spec.protocol, port));
  return [...new Set(keys)].map((key) => ({ set: HAIRPIN_CONNECTIONS, key, value: "" }));
}

function isLocal({ local }: Endpoint): boolean {
  return local;
}

/** The same at every port: one set of addresses does for all ranges. */
function rangeHairpinElements({ cluster, local }: EndpointChoice): DesiredElement[] {
  const addresses = [...cluster, ...local].flatMap((endpoint) => (endpoint.local ? endpoint.address : []));
  return [...new Set(addresses)].map((address) => ({
    set: RANGES.hairpins,
    key: joinParts(address, address),
    value: "",
  }));
}

/** The rules of a frontend that a service port wants, by its key. @throws for one that it does not want */
export function frontendOf(rules: ServicePortRules, key: string): FrontendRules {
  const { frontends } = rules;
  const frontend =
    frontends.length > FEW ? indexOf(frontends).get(key) : frontends.find((one) => one.key === key);
  if (frontend === undefined) throw new Error(`${rules.port.key} does not have the frontend ${key}`);
  return frontend;
}

/** Up to so many frontends, a search is faster than an index. */
const FEW = 8;

/** The frontends by key, of service ports that have many: with tens of thousands of addresses, a search for each takes minutes. */
const indexes = new WeakMap<readonly FrontendRules[], ReadonlyMap<string, FrontendRules>>();

function indexOf(frontends: readonly FrontendRules[]): ReadonlyMap<string, FrontendRules> {
  const known = indexes.get(frontends);
  if (known !== undefined) return known;
  const index = new Map(frontends.map((frontend) => [frontend.key, frontend]));
  indexes.set(frontends, index);
  return index;
}
