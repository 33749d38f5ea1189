import { assertNever } from "../base/errors.ts";
import type { Endpoint } from "./endpoint.ts";
import type { Node } from "./node.ts";
import { type ServicePort, usesClusterEndpoints, usesLocalEndpoints } from "./service-port.ts";

/** The hints in effect: none, zone hints (KEP-2433) or node hints (KEP-3015). */
export type TopologyMode = "none" | "same-zone" | "same-node";

/** The endpoints in a list: ready ones, or terminating ones where no ready one exists (KEP-1669). */
export type FallbackMode = "ready" | "terminating";

/** The endpoints that a service port uses on this node, and the rules that chose them. */
export interface EndpointChoice {
  /** For "Cluster" policy; empty when the service port never uses it. */
  readonly cluster: readonly Endpoint[];
  /** For "Local" policy; empty when the service port never uses it. */
  readonly local: readonly Endpoint[];
  /** Whether any endpoint is usable, even if not from this node. */
  readonly hasAny: boolean;
  readonly topology: TopologyMode;
  readonly clusterFallback: FallbackMode;
  readonly localFallback: FallbackMode;
  /** The endpoints that a list lacks because this node ejected them; absent for none. */
  readonly ejected?: readonly Endpoint[];
}

/** Why an endpoint is not in a list. */
export type ExclusionReason =
  | "not-ready"
  | "terminating"
  | "not-serving"
  | "not-local"
  | "drained"
  | "ejected"
  | "other-zone"
  | "other-node";

/** The node and zone that hints are compared with. */
export type Place = Pick<Node, "name" | "zone">;

/**
 * Chooses the endpoints of a service port like kube-proxy's CategorizeEndpoints. For each policy, uses ready
 * ones that the hints allow, otherwise terminating ones that still serve. Drained endpoints are used only if
 * no others are left.
 * @param ejection the endpoints that do not answer this node; none if absent
 */
export function chooseEndpoints(
  port: ServicePort,
  endpoints: readonly Endpoint[],
  place: Place,
  ejection?: Ejection,
): EndpointChoice {
  const forCluster = usesClusterEndpoints(port);
  const forLocal = usesLocalEndpoints(port);
  const candidates = withoutDrainedReady(endpoints);
  const topology = forCluster ? topologyMode(candidates, place) : "none";
  const readyHere = (e: Endpoint) => e.source.ready && hintsAllow(e, topology, place);
  const cluster = forCluster ? withFallback(candidates, readyHere, isServingTerminating) : NO_ENDPOINTS;
  const local = forLocal
    ? withFallback(
        endpoints,
        (e) => e.local && e.source.ready,
        (e) => e.local && isServingTerminating(e),
      )
    : NO_ENDPOINTS;
  const answering = withoutEjected(cluster.list, ejection);
  const answeringHere = withoutEjected(local.list, ejection);
  const isUsable = (e: Endpoint) => e.source.ready || isServingTerminating(e);
  return {
    cluster: answering.list,
    local: answeringHere.list,
    hasAny: cluster.list.length > 0 || (forLocal && endpoints.some(isUsable)),
    topology,
    clusterFallback: cluster.mode,
    localFallback: local.mode,
    ...(answering.ejected.length + answeringHere.ejected.length > 0 && {
      ejected: [...new Set([...answering.ejected, ...answeringHere.ejected])],
    }),
  };
}

/** The endpoints that a feature ejects from lists. */
export interface Ejection {
  /** `address . port`, in the order of ejection. */
  readonly targets: ReadonlySet<string>;
  /** Maximum share of a list, in percent. */
  readonly maxEjected: number;
}

/**
 * The number of endpoints of a list that may be ejected: at most the share, and never the last one.
 * @param length the number of endpoints in the list
 * @param maxEjected the share, in percent
 */
export function mostEjected(length: number, maxEjected: number): number {
  return Math.min(Math.floor((length * maxEjected) / 100), length - 1);
}

/** Never removes more than the share, or the last endpoint. Removes them in the order of ejection. */
function withoutEjected(list: readonly Endpoint[], ejection: Ejection | undefined) {
  if (ejection === undefined || ejection.targets.size === 0) return { list, ejected: NO_ENDPOINTS.list };
  const most = mostEjected(list.length, ejection.maxEjected);
  const byTarget = new Map(list.map((endpoint) => [endpoint.target, endpoint]));
  const ejected = new Set<Endpoint>();
  for (const target of ejection.targets) {
    const endpoint = byTarget.get(target);
    if (endpoint !== undefined && ejected.size < most) ejected.add(endpoint);
  }
  return { list: list.filter((endpoint) => !ejected.has(endpoint)), ejected: [...ejected] };
}

/** Why the choice's list for a policy excludes an endpoint; undefined if it does not. */
export function whyExcluded(
  endpoint: Endpoint,
  choice: EndpointChoice,
  policy: "cluster" | "local",
  place: Place,
): ExclusionReason | undefined {
  if (policy === "local" && !endpoint.local) return "not-local";
  const mode = policy === "local" ? choice.localFallback : choice.clusterFallback;
  if (mode === "terminating" && !isServingTerminating(endpoint)) return "not-serving";
  if (mode === "ready" && !endpoint.source.ready)
    return endpoint.source.terminating ? "terminating" : "not-ready";
  // A list has only drained endpoints or none.
  const [used] = choice[policy];
  if (isDrained(endpoint) && used !== undefined && !isDrained(used)) return "drained";
  if (policy === "cluster" && !hintsAllow(endpoint, choice.topology, place))
    return choice.topology === "same-node" ? "other-node" : "other-zone";
  const isEjected = choice.ejected?.includes(endpoint) && !choice[policy].includes(endpoint);
  return isEjected ? "ejected" : undefined;
}

const NO_ENDPOINTS = { list: [] as readonly Endpoint[], mode: "ready" as FallbackMode };

function withFallback(
  endpoints: readonly Endpoint[],
  isReady: (endpoint: Endpoint) => boolean,
  isFallback: (endpoint: Endpoint) => boolean,
): { list: readonly Endpoint[]; mode: FallbackMode } {
  const ready = endpoints.filter(isReady);
  if (ready.length > 0) return { list: withoutDrained(ready), mode: "ready" };
  const fallback = endpoints.filter(isFallback);
  return fallback.length > 0 ? { list: withoutDrained(fallback), mode: "terminating" } : NO_ENDPOINTS;
}

/** Whether it gets new connections only if no other endpoint can. */
function isDrained({ share }: Endpoint): boolean {
  return share === 0;
}

function withoutDrained(endpoints: readonly Endpoint[]): readonly Endpoint[] {
  if (!endpoints.some(isDrained)) return endpoints;
  const others = endpoints.filter((endpoint) => !isDrained(endpoint));
  return others.length > 0 ? others : endpoints;
}

/** Excludes drained endpoints before hints apply: if a zone has only drained ones, others serve it. */
function withoutDrainedReady(endpoints: readonly Endpoint[]): readonly Endpoint[] {
  if (!endpoints.some((endpoint) => endpoint.source.ready && !isDrained(endpoint))) return endpoints;
  return endpoints.filter((endpoint) => !endpoint.source.ready || !isDrained(endpoint));
}

/** Whether it is not ready, but still serves while it terminates. */
function isServingTerminating({ source }: Endpoint): boolean {
  return !source.ready && source.serving && source.terminating;
}

/**
 * Hints count only when every ready endpoint has them and one of them names our node or zone. The controller
 * of EndpointSlices writes them for a traffic distribution: PreferSameZone and PreferSameNode.
 */
function topologyMode(endpoints: readonly Endpoint[], place: Place): TopologyMode {
  const areFor = (own: string, hintsOf: (source: Endpoint["source"]) => readonly string[]) =>
    endpoints.every(({ source }) => !source.ready || hintsOf(source).length > 0) &&
    endpoints.some(({ source }) => source.ready && hintsOf(source).includes(own));
  if (areFor(place.name, ({ nodeHints }) => nodeHints)) return "same-node";
  return areFor(place.zone, ({ zoneHints }) => zoneHints) ? "same-zone" : "none";
}

function hintsAllow({ source }: Endpoint, mode: TopologyMode, place: Place): boolean {
  switch (mode) {
    case "none":
      return true;
    case "same-node":
      return source.nodeHints.includes(place.name);
    case "same-zone":
      return source.zoneHints.includes(place.zone);
    default:
      return assertNever(mode);
  }
}
