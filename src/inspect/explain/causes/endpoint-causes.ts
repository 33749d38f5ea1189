import { FAMILY_NAMES } from "../../../base/family.ts";
import { listText } from "../../../base/text.ts";
import type { EndpointSlice } from "../../../model/endpoint-slice.ts";
import type { ServicePort } from "../../../model/service-port.ts";
import type { ExplainInput } from "../explain-input.ts";
import type { Verdict } from "../explanation.ts";
import type { Match } from "../match.ts";
import { portSpecText, portText } from "../words.ts";

/** A verdict without its result: cause, message and action. */
export type Reason = Omit<Verdict, "result">;

/** Why a Service port has no endpoint to go to. */
export function noEndpointReason(match: Match, input: ExplainInput): Reason {
  const { view, port } = match;
  if (view.choice.hasAny) return notLocal(match, input);
  if (view.endpoints.length > 0) return notReady(match);
  const slices = input.cache.slices(port.service.name).filter(({ family }) => family === port.family);
  return slices.some(({ endpoints }) => endpoints.length > 0) ? otherPort(port, slices) : none(port, slices);
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
    action: `if the Service has a selector, compare it with the labels of the pods: kubectl -n ${namespace} get service ${name} -o wide; kubectl -n ${namespace} get pods --show-labels`,
  };
}

function otherPort({ service, spec }: ServicePort, slices: readonly EndpointSlice[]): Reason {
  const names = new Set(slices.flatMap(({ ports }) => ports.map(({ name, protocol }) => named(name, protocol))));
  const theirs = names.size === 0 ? "no port at all" : `only ${listText([...names].sort())}`;
  return {
    cause: "port-name",
    message: `the port of Service ${service.name} is named ${named(spec.name, spec.protocol)}, and its EndpointSlices have ${theirs}`,
    action: "use one name and protocol in both, and let a container have the targetPort if that is a name",
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
  const state = isAllGone ? "is terminating and serves no more" : "is not ready";
  return {
    cause: "not-ready",
    message:
      count === 1
        ? `the only endpoint of ${portText(port)} ${state}`
        : `each of the ${count} endpoints of ${portText(port)} ${state}`,
    action:
      pod === undefined
        ? `see why they are not: kubectl -n ${namespace} get pods`
        : `see why its readiness probe fails: kubectl -n ${namespace} describe pod ${pod}`,
  };
}

function notLocal({ port, view, frontend }: Match, { cache }: ExplainInput): Reason {
  const { service, spec } = port;
  const isInternal = frontend.origin === "cluster-ip";
  const policy = isInternal ? "internalTrafficPolicy" : "externalTrafficPolicy";
  const ready = view.endpoints.filter(({ endpoint: { source } }) => source.ready);
  const nodes = new Set(ready.map(({ endpoint: { source } }) => source.nodeName || "an unknown node"));
  const where = nodes.size === 0 ? "" : `; they run on ${listText([...nodes].sort())}`;
  const check = service.healthCheckNodePort === 0 ? "" : ` (health check port ${service.healthCheckNodePort})`;
  return {
    cause: "no-local-endpoints",
    message: `${policy} of Service ${service.name} is Local, and no ready endpoint of its port ${portSpecText(spec)} runs on this node, ${cache.node.name}${where}`,
    action: isInternal
      ? "run a pod of it on this node (a DaemonSet does on each), or set internalTrafficPolicy to Cluster"
      : `send to nodes that have an endpoint, as load balancers do${check}, run a pod here, or set externalTrafficPolicy to Cluster`,
  };
}
