import { type ByFamily, byFamily, FAMILIES, type Family } from "../../src/base/family.ts";
import { resultOf } from "../../src/base/pieces.ts";
import type { ClientLimits } from "../../src/features/client-limits/limits.ts";
import type { ConnectionLife } from "../../src/features/connection-life/life.ts";
import type { ConnectionTimeouts } from "../../src/features/connection-timeouts/timeouts.ts";
import type { PassiveHealthSetting } from "../../src/features/passive-health-checks/check.ts";
import { FEATURES } from "../../src/features/registry.ts";
import type { Scheduler } from "../../src/features/schedulers/scheduler.ts";
import { ALL_FEATURES, isEnabled } from "../../src/features/selection.ts";
import { MAX_SERVICE_ELEMENTS, SHARED_BUDGET } from "../../src/model/budgets.ts";
import { type Endpoint, SlicesByPort } from "../../src/model/endpoint.ts";
import type { EndpointSlice, SliceEndpoint, SlicePort } from "../../src/model/endpoint-slice.ts";
import { SliceEndpoints } from "../../src/model/endpoint-slice.ts";
import { type ServiceName, type ServicePortKey, serviceName } from "../../src/model/ids.ts";
import { familyOf } from "../../src/model/ip.ts";
import { type Node, type ServiceCIDR, unknownNode } from "../../src/model/node.ts";
import { ObjectCache } from "../../src/model/object-cache.ts";
import type { Service, ServicePortSpec } from "../../src/model/service.ts";
import { type ServicePort, servicePortsOf } from "../../src/model/service-port.ts";
import { counting } from "../../src/ruleset/element-count.ts";
import { budgetsOf } from "../../src/ruleset/feature-budget.ts";
import type { PortInterval } from "../../src/ruleset/interval-frontends.ts";
import { MOST_STICKY_PORTS } from "../../src/ruleset/list-ids.ts";
import type { FamilyContext, NodeContext } from "../../src/ruleset/node-context.ts";
import { Renderer } from "../../src/ruleset/renderer.ts";

/** The node that tests run on. */
export const HERE = { name: "node-1", zone: "zone-a" } as const;

/** Objects for a {@link ObjectCache}. */
export interface Objects {
  readonly services?: readonly Service[];
  readonly slices?: readonly EndpointSlice[];
}

/** A port of a Service, with the ranges of the annotation. */
interface PortOptions extends ServicePortSpec {
  readonly ranges?: readonly PortInterval[];
}

/** The options of a Service in a test. Lists of addresses may contain both families. */
export interface ServiceOptions extends ConnectionLife {
  /** The UID is `uid-` and this name. */
  readonly name?: string;
  readonly createdAt?: number;
  readonly clusterIPs?: readonly string[];
  readonly ports?: readonly PortOptions[];
  readonly externalIPs?: readonly string[];
  readonly loadBalancerIPs?: readonly string[];
  readonly sourceRanges?: readonly string[];
  readonly affinitySeconds?: number;
  readonly internal?: "Cluster" | "Local";
  readonly external?: "Cluster" | "Local";
  readonly scheduler?: Scheduler;
  readonly passiveHealthCheck?: PassiveHealthSetting;
  readonly clientLimits?: ClientLimits;
  readonly connectionTimeouts?: ConnectionTimeouts;
}

/** Returns the {@link ServiceName} of `namespace/name`, or of a bare name in the namespace `default`. */
export function named(text: string): ServiceName {
  const [namespace = "", name] = text.split("/");
  return name === undefined ? serviceName("default", namespace) : serviceName(namespace, name);
}

/** Returns a Service. The default is `default/web` at 10.96.0.10, port 80/tcp. */
export function service(options: ServiceOptions = {}): Service {
  const clusterIPs = addressesByFamily(options.clusterIPs ?? ["10.96.0.10"]);
  const name = named(options.name ?? "web");
  return {
    name,
    uid: `uid-${name}`,
    createdAt: options.createdAt ?? 1000,
    clusterIPs: byFamily((family) => clusterIPs[family][0] ?? ""),
    ports: (options.ports ?? [port(80)]).map(({ ranges: _, ...spec }) => spec),
    externalIPs: addressesByFamily(options.externalIPs ?? []),
    loadBalancerIPs: addressesByFamily(options.loadBalancerIPs ?? []),
    loadBalancerSourceRanges: addressesByFamily(options.sourceRanges ?? []),
    affinitySeconds: options.affinitySeconds ?? 0,
    internalPolicyLocal: options.internal === "Local",
    externalPolicyLocal: options.external === "Local",
    healthCheckNodePort: 0,
    deleting: false,
    ...featuresOf(options),
  };
}

function featuresOf(options: ServiceOptions): Pick<Service, "features"> {
  const { clientLimits, connectionTimeouts, passiveHealthCheck, scheduler } = options;
  const { onEndpointRemoved, drainTimeoutMs } = options;
  const life = {
    ...(onEndpointRemoved !== undefined && { onEndpointRemoved }),
    ...(drainTimeoutMs !== undefined && { drainTimeoutMs }),
  };
  const byPort = new Map(
    options.ports?.flatMap(({ name, ranges }) => (ranges === undefined ? [] : [[name, ranges] as const])),
  );
  const features = {
    ...(byPort.size > 0 && { "port-ranges": { byPort } }),
    ...(clientLimits && { "client-limits": clientLimits }),
    ...(Object.keys(life).length > 0 && { "connection-life": life }),
    ...(connectionTimeouts && { "connection-timeouts": connectionTimeouts }),
    ...(passiveHealthCheck && { "passive-health-checks": { check: passiveHealthCheck } }),
    ...(scheduler && { schedulers: { scheduler } }),
  };
  return Object.keys(features).length === 0 ? {} : { features };
}

/** Returns a Service's port. By default it has no name and no NodePort, and is TCP. */
export function port(number: number, options: Partial<Omit<PortOptions, "port">> = {}): PortOptions {
  return { name: "", protocol: "tcp", port: number, nodePort: 0, ...options };
}

/** Returns the only port of a Service in one family. */
export function servicePort(options: ServiceOptions = {}, family: Family = "ip"): ServicePort {
  const found = servicePortsOf(service(options)).find((candidate) => candidate.family === family);
  if (found === undefined) throw new Error(`no service port in ${family}`);
  return found;
}

/** The options of a slice in a test. */
export interface SliceOptions {
  readonly name?: string;
  /** The Service that it belongs to. Default: `web`. */
  readonly service?: string;
  /** Default: port 8080/tcp without a name. */
  readonly ports?: readonly SlicePort[];
  /** Bare addresses are ready endpoints on no node. */
  readonly endpoints?: readonly (SliceEndpoint | string)[];
  /** Default: the family of the first endpoint. */
  readonly family?: Family;
  /** Default: 1. */
  readonly weight?: number;
}

/** Returns an EndpointSlice. */
export function slice(options: SliceOptions = {}): EndpointSlice {
  const endpoints = (options.endpoints ?? []).map((given) =>
    typeof given === "string" ? endpoint(given) : given,
  );
  const owner = named(options.service ?? "web");
  const family = options.family ?? familyOf(endpoints[0]?.address ?? "");
  const name = options.name ?? `${owner.slice(owner.indexOf("/") + 1)}-${family}`;
  return {
    namespace: owner.slice(0, owner.indexOf("/")),
    name,
    uid: `uid-${name}`,
    service: owner,
    family,
    ports: options.ports ?? [slicePort(8080)],
    endpoints: new SliceEndpoints(endpoints),
    ...(options.weight !== undefined && { features: { schedulers: { weight: options.weight } } }),
    lastChangeTriggerTime: 0,
  };
}

/** Returns a slice's port. By default it has no name and is TCP. */
export function slicePort(number: number, options: Partial<Omit<SlicePort, "port">> = {}): SlicePort {
  return { name: "", protocol: "tcp", port: number, ...options };
}

/** Returns an endpoint. By default it is ready, on no node, and has no zone or hints. */
export function endpoint(
  address: string,
  options: Partial<Omit<SliceEndpoint, "address">> = {},
): SliceEndpoint {
  return {
    address,
    nodeName: "",
    zone: "",
    ready: true,
    serving: true,
    terminating: false,
    zoneHints: [],
    nodeHints: [],
    pod: "",
    ...options,
  };
}

/** Returns an endpoint on {@link HERE}. */
export function localEndpoint(
  address: string,
  options: Partial<Omit<SliceEndpoint, "address">> = {},
): SliceEndpoint {
  return endpoint(address, { nodeName: HERE.name, ...options });
}

/** The conditions of a terminating endpoint that still serves. */
export const DRAINING = { ready: false, serving: true, terminating: true } as const;
/** The conditions of an endpoint that no longer serves. */
export const GONE = { ready: false, serving: false, terminating: true } as const;
/** The conditions of an endpoint that does not serve yet. */
export const STARTING = { ready: false, serving: false, terminating: false } as const;

/** Returns a Node. */
export function node(options: Partial<Node> = {}): Node {
  return { ...unknownNode(HERE.name), uid: "uid-node", zone: HERE.zone, ...options };
}

/** Returns a ServiceCIDR. */
export function serviceCIDR(name: string, cidrs: readonly string[]): ServiceCIDR {
  return { name, uid: `uid-${name}`, cidrs: addressesByFamily(cidrs) };
}

const NODE_ADDRESSES: ByFamily<string> = { ip: "192.0.2.2", ip6: "fd00:c0::2" };
const POD_CIDRS: ByFamily<string> = { ip: "10.244.0.0/16", ip6: "fd00:244::/32" };
const SERVICE_CIDRS: ByFamily<string> = { ip: "10.96.0.0/16", ip6: "fd00:10:96::/112" };

/** The differences of a node context from the tests' default. */
export type ContextOptions = Partial<Omit<FamilyContext, "family">> & {
  readonly resetVanished?: boolean;
  readonly refusalLogSize?: number;
};

/** Returns the context of one family. The defaults are those of the recorded town. */
export function familyContext(
  family: Family,
  { resetVanished = false, refusalLogSize = 65_536, ...options }: ContextOptions = {},
): FamilyContext {
  const settings = { maxLimitedClients: 65_536, resetVanished, refusalLogSize, ...options.settings };
  return {
    family,
    place: HERE,
    nodeAddress: NODE_ADDRESSES[family],
    localTraffic: { kind: "sources", cidrs: [POD_CIDRS[family]] },
    masqueradeAll: false,
    masqueradeMark: 0x4000,
    nodePorts: { kind: "addresses", addresses: [NODE_ADDRESSES[family]] },
    loopbackNodePorts: false,
    serviceCIDRs: [SERVICE_CIDRS[family]],
    apiServers: [],
    affinityMapSize: 1024,
    maxAffinitySeconds: 86_400,
    maxServiceElements: MAX_SERVICE_ELEMENTS,
    ...SHARED_BUDGET,
    maxStickyPorts: MOST_STICKY_PORTS,
    features: FEATURES.filter((feature) => isEnabled(feature, { features: ALL_FEATURES, settings })).flatMap(
      ({ ruleset }) => ruleset ?? [],
    ),
    lacking: [],
    ...options,
    settings,
  };
}

/** Returns the {@link familyContext} of both families. */
export function testNodeContext(options: ContextOptions = {}): FamilyContext[] {
  return FAMILIES.map((family) => familyContext(family, options));
}

/** Returns the maximum number of elements of a Service and its slices. */
export function elementCount(
  of: Service,
  slices: readonly EndpointSlice[],
  nodeContext: NodeContext,
): number {
  return resultOf(counting(of, slices, nodeContext, budgetsOf(nodeContext))).elements;
}

/** Returns an object cache of these objects, on {@link HERE}. */
export function cacheOf({ services = [], slices = [] }: Objects): ObjectCache {
  const cache = new ObjectCache(HERE.name);
  for (const each of services) cache.putService(each);
  for (const each of slices) cache.putSlice(each);
  return cache;
}

/** Returns a renderer that has rendered all these objects once. */
export function renderAll(
  objects: Objects,
  nodeContext: NodeContext = testNodeContext(),
  excluded: ReadonlySet<ServicePortKey> = new Set(),
): Renderer {
  const cache = cacheOf(objects);
  const renderer = new Renderer(cache, nodeContext);
  renderer.update(cache.takeDirty(), excluded);
  return renderer;
}

/**
 * Returns the renderer after it has deleted the lists of source ranges that no frontend uses: each update
 * deletes only some of them.
 */
export function withoutStaleRanges(renderer: Renderer): Renderer {
  while (renderer.state.hasStale) renderer.update([]);
  return renderer;
}

/** Returns the elements of a map as `key: value`, or of a set as keys. */
export function elementsOf(renderer: Renderer, set: string, family: Family = "ip"): string[] {
  const elements = renderer.state.families[family]?.table.sets.get(set)?.elements;
  if (elements === undefined) throw new Error(`no set ${set}`);
  return [...elements].map(([key, value]) => (value === "" ? key : `${key}: ${value}`));
}

/** Returns the names of the chains, sorted. */
export function chainNames(renderer: Renderer, family: Family = "ip"): string[] {
  return [...(renderer.state.families[family]?.table.chains.keys() ?? [])].sort();
}

function addressesByFamily(addresses: readonly string[]): ByFamily<readonly string[]> {
  return byFamily((family) => addresses.filter((address) => familyOf(address) === family));
}

/** Returns the endpoints of one service port in some slices. */
export function endpointsOf(
  slices: readonly EndpointSlice[],
  ...port: Parameters<SlicesByPort["endpointsOf"]>
): Endpoint[] {
  return resultOf(resultOf(SlicesByPort.reading(slices)).endpointsOf(...port));
}
