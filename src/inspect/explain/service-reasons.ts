import { FAMILY_NAMES } from "../../base/family.ts";
import { listText } from "../../base/text.ts";
import type { EndpointSlice } from "../../model/endpoint-slice.ts";
import type { ObjectCache } from "../../model/object-cache.ts";
import type { ServicePort } from "../../model/service-port.ts";
import { joinParts } from "../../nft/elements.ts";
import type { Result } from "../connection-result.ts";
import type { ExplainInput } from "./explain-input.ts";
import type { Connection, ExplainedEndpoint, Verdict } from "./explanation.ts";
import type { Match } from "./match.ts";
import { portSpecText, portText } from "./words.ts";

/** A verdict without its result: cause, message and action. */
export type Reason = Omit<Verdict, "result">;

/** Returns the reason why a Service port has no usable endpoint. */
export function noEndpointReason(match: Match, input: ExplainInput): Reason {
  const { view, port, frontend } = match;
  if (frontend.outcome === "no-local-endpoints") return notLocal(match, input);
  if (view.endpoints.length > 0) return notReady(match);
  const slices = input.cache.slices(port.service.name).filter(({ family }) => family === port.family);
  const hasEndpoints = slices.some(({ endpoints }) => endpoints.length > 0);
  return hasEndpoints ? otherPort(port, slices, input) : none(port, slices);
}

function none({ service, family }: ServicePort, slices: readonly EndpointSlice[]): Reason {
  const [namespace, name] = service.name.split("/");
  const found =
    slices.length === 0
      ? `there is no ${FAMILY_NAMES[family]} EndpointSlice for it`
      : "its EndpointSlices name no address";
  return {
    cause: "no-endpoints",
    message: `Service ${service.name} has no endpoints: ${found}`,
    action: "if the Service has a selector, compare it with the labels of the pods",
    commands: [
      `kubectl -n ${namespace} get service ${name} -o wide`,
      `kubectl -n ${namespace} get pods --show-labels`,
    ],
  };
}

/**
 * Caches the ports of the last EndpointSlices as text: the ports of a Service are explained one after
 * another, and may be thousands, like those of its slices.
 */
const lastPorts = new WeakMap<ExplainInput, { readonly of: string; readonly text: string }>();

function portsOfSlices(
  { service, family }: ServicePort,
  slices: readonly EndpointSlice[],
  input: ExplainInput,
): string {
  const of = `${family} ${service.name}`;
  const last = lastPorts.get(input);
  if (last?.of === of) return last.text;
  const names = new Set(
    slices.flatMap(({ ports }) => ports.map(({ name, protocol }) => named(name, protocol))),
  );
  const text = names.size === 0 ? "no port at all" : `only ${listText([...names].sort())}`;
  lastPorts.set(input, { of, text });
  return text;
}

function otherPort(port: ServicePort, slices: readonly EndpointSlice[], input: ExplainInput): Reason {
  const { service, spec } = port;
  const theirs = portsOfSlices(port, slices, input);
  return {
    cause: "port-name",
    message: `the port of Service ${service.name} is named ${named(spec.name, spec.protocol)}, but its EndpointSlices have ${theirs}`,
    action:
      "use the same name and protocol in both; if the targetPort is a name, a container must have a port of this name",
  };
}

function named(name: string, protocol: string): string {
  return `${JSON.stringify(name)} (${protocol})`;
}

function notReady({ port, view }: Match): Reason {
  const [namespace] = port.service.name.split("/");
  const count = view.endpoints.length;
  const pods = view.endpoints.flatMap(({ endpoint: { source } }) => (source.pod === "" ? [] : [source.pod]));
  const pod = pods[0]?.split("/").at(-1);
  const isAllGone = view.endpoints.every(({ endpoint }) => endpoint.source.terminating);
  const state = isAllGone ? "is terminating and no longer serves" : "is not ready";
  return {
    cause: "not-ready",
    message:
      count === 1
        ? `the only endpoint of ${portText(port)} ${state}`
        : `each of the ${count} endpoints of ${portText(port)} ${state}`,
    action: pod === undefined ? "find out why they are not ready" : "find out why its readiness probe fails",
    commands: [
      pod === undefined ? `kubectl -n ${namespace} get pods` : `kubectl -n ${namespace} describe pod ${pod}`,
    ],
  };
}

function notLocal({ port, view, frontend }: Match, { cache }: ExplainInput): Reason {
  const { service, spec } = port;
  const isInternal = frontend.origin === "cluster-ip";
  const policy = isInternal ? "internalTrafficPolicy" : "externalTrafficPolicy";
  const ready = view.endpoints.filter(({ endpoint: { source } }) => source.ready);
  const nodes = new Set(ready.map(({ endpoint: { source } }) => source.nodeName || "an unknown node"));
  const where = nodes.size === 0 ? "" : `; they run on ${listText([...nodes].sort())}`;
  const check =
    service.healthCheckNodePort === 0 ? "" : ` (health check port ${service.healthCheckNodePort})`;
  return {
    cause: "no-local-endpoints",
    message: `${policy} of Service ${service.name} is Local, but no ready endpoint of its port ${portSpecText(spec)} runs on this node, ${cache.node.name}${where}`,
    action: isInternal
      ? "run a pod of it on this node (a DaemonSet does on each), or set internalTrafficPolicy to Cluster"
      : `send to nodes that have an endpoint, as load balancers do${check}, run a pod here, or set externalTrafficPolicy to Cluster`,
  };
}

/**
 * The cause and action for a connection that goes to endpoints. It may still fail because hints leave few
 * endpoints, because these terminate, or because of the endpoints themselves.
 */
export function balancedReason(
  { protocol }: Connection,
  match: Match | undefined,
  endpoints: readonly ExplainedEndpoint[],
  cache: ObjectCache,
): Reason {
  const used = endpoints.filter(({ probability }) => probability > 0);
  const of = match === undefined ? "that the rules have for it" : `of ${portText(match.port)}`;
  const isOf = (reason: string) => endpoints.some(({ excluded }) => excluded?.reason === reason);
  const isKept = isOf("affinity");
  const which = isKept
    ? "the endpoint that session affinity keeps for this client,"
    : isOf("hash")
      ? "the endpoint that the hash selects for this client,"
      : whichText(used.length, endpoints.length);
  const goes = `goes to ${which} ${of}`;
  const hinted = endpoints.filter(({ excluded }) => isHint(excluded?.reason));
  if (hinted.length > 0 && !isKept) return hintsReason(used.length, hinted, of, cache);
  if (match !== undefined && areTerminating(used, match)) return terminatingReason(goes);
  const ports = new Set(used.map(({ port }) => port));
  const port = ports.size === 1 ? `port ${used[0]?.port} (${protocol})` : "that port";
  return {
    cause: "served",
    message: goes,
    action: `if it still fails, check whether the pod listens on ${port} and whether a NetworkPolicy lets the client in`,
  };
}

function whichText(used: number, all: number): string {
  if (used > 1) return `one of ${used} endpoints`;
  return all === 1 ? "the only endpoint" : "the only usable endpoint";
}

function isHint(reason: string | undefined): boolean {
  return reason === "other-zone" || reason === "other-node";
}

function hintsReason(
  used: number,
  hinted: readonly ExplainedEndpoint[],
  of: string,
  { node }: ObjectCache,
): Reason {
  const byNode = hinted[0]?.excluded?.reason === "other-node";
  const here = byNode ? `on ${node.name}` : `in ${node.zone}`;
  return {
    cause: "hints",
    message: `goes to ${used} of ${used + hinted.length} ready endpoints ${of}: hints keep the others for other ${byNode ? "nodes" : "zones"}`,
    action: `if it fails, these few endpoints are broken or overloaded: run more of them ${here}, or remove the hints (spec.trafficDistribution, annotation service.kubernetes.io/topology-mode)`,
  };
}

function areTerminating(used: readonly ExplainedEndpoint[], { view }: Match): boolean {
  const targets = new Set(used.map(({ address, port }) => joinParts(address, port)));
  const views = view.endpoints.filter(({ endpoint }) => targets.has(endpoint.target));
  return views.length > 0 && views.every(({ endpoint: { source } }) => !source.ready);
}

function terminatingReason(goes: string): Reason {
  return {
    cause: "terminating-endpoints",
    message: `${goes}, though none is ready: terminating endpoints are used as fallback`,
    action: "find out why no new pod becomes ready: the terminating ones will soon be gone",
  };
}

/** The evidence that source ranges need. */
interface Guarded {
  readonly connection: Connection;
  readonly match: Match | undefined;
}

/** Whether only some clients are served, and the client was assumed. */
export function dependsOnClient(result: Result, { connection, match }: Guarded): boolean {
  return result === "served" && connection.from.known !== "given" && match?.frontend.guarded === true;
}

/** The verdict for an assumed client: names the ranges, and the outcome for a client within them. */
export function sourceRangesVerdict(reason: Reason, { match }: Guarded): Verdict {
  const ranges = match === undefined ? [] : rangesOf(match);
  return {
    ...reason,
    result: "varies",
    cause: "source-ranges",
    message: `allowed from ${listText(ranges)}, dropped otherwise; ${reason.message}`,
  };
}

/** The cause of a drop for a client outside of the source ranges. */
export function sourceRangeReason({ connection, match }: Guarded): Reason {
  const of =
    match === undefined ? "" : ` of Service ${match.port.service.name} (${listText(rangesOf(match))})`;
  return {
    cause: "source-ranges",
    message: `${connection.from.address} is in none of the loadBalancerSourceRanges${of}`,
    action: "add its address to spec.loadBalancerSourceRanges to allow it",
  };
}

function rangesOf({ port: { service, family } }: Match): readonly string[] {
  return service.loadBalancerSourceRanges[family];
}
