import { resultOf } from "../base/pieces.ts";
import { type Endpoint, portNameOf, SlicesByPort } from "../model/endpoint.ts";
import {
  chooseEndpoints,
  type EndpointChoice,
  type ExclusionReason,
  whyExcluded,
} from "../model/endpoint-choice.ts";
import type { ServiceName } from "../model/ids.ts";
import type { ObjectCache } from "../model/object-cache.ts";
import { type ServicePort, usesClusterEndpoints, usesLocalEndpoints } from "../model/service-port.ts";
import type { Refusal } from "./chain-names.ts";
import { ejectionFor } from "./ejection.ts";
import { counting, ownExcess } from "./element-count.ts";
import type { FamilyState } from "./family-state.ts";
import type { FrontendRules } from "./frontend-rules.ts";
import { parseFrontendKey } from "./keys.ts";
import { contextOf, drawsIn, type FamilyContext, type NodeContext } from "./node-context.ts";
import type { RulesetState } from "./ruleset-state.ts";
import { renderServicePort, type ServicePortRules } from "./service-port-rules.ts";

/** An endpoint of a service port, and whether it is used. */
export interface EndpointView {
  readonly endpoint: Endpoint;
  /** Whether the list for "Cluster" traffic uses the endpoint, or why not; undefined without such a list. */
  readonly cluster: "used" | ExclusionReason | undefined;
  /** The same for "Local" traffic. */
  readonly local: "used" | ExclusionReason | undefined;
}

/** The kind of address by which a client reaches a frontend. */
export type FrontendOrigin = "cluster-ip" | "external-ip" | "load-balancer-ip" | "node-port";

/** The outcome of a connection to a frontend from outside the cluster and this node. */
export type FrontendOutcome = "served" | Refusal;

/** Display names of the kinds of frontends. */
export const ORIGIN_NAMES: Readonly<Record<FrontendOrigin, string>> = {
  "cluster-ip": "cluster IP",
  "external-ip": "external IP",
  "load-balancer-ip": "load-balancer IP",
  "node-port": "NodePort",
};

/** Display names of the reasons to exclude an endpoint. */
export const EXCLUSION_NAMES: Readonly<Record<ExclusionReason, string>> = {
  "not-ready": "not ready",
  terminating: "terminating",
  "not-serving": "not serving",
  "not-local": "not on this node",
  drained: "drained (weight 0)",
  ejected: "ejected: it does not answer this node",
  "other-zone": "hinted for other zones",
  "other-node": "hinted for other nodes",
};

/** A frontend that a service port wants. */
export interface FrontendView {
  readonly origin: FrontendOrigin;
  /** `10.96.0.10 . tcp . 53`, or `0.0.0.0 . tcp . 30080` for a NodePort; for an interval, a piece. */
  readonly key: string;
  /** "" for a NodePort. */
  readonly address: string;
  /** 1..65535; the first port of an interval. */
  readonly port: number;
  /** The last port of an interval; absent for a single port. */
  readonly lastPort?: number;
  /** The policy for connections from outside; of a cluster IP, for all connections. */
  readonly policy: "cluster" | "local";
  readonly outcome: FrontendOutcome;
  /** The endpoints of connections from outside. */
  readonly endpoints: readonly Endpoint[];
  /** Whether the frontend is restricted to the source ranges of the Service. */
  readonly guarded: boolean;
  /** The service port that has it; undefined if the service port is excluded. */
  readonly owner: ServicePort | undefined;
}

/** One service port as this node serves it. */
export interface ServicePortView {
  readonly port: ServicePort;
  readonly choice: EndpointChoice;
  readonly endpoints: readonly EndpointView[];
  readonly frontends: readonly FrontendView[];
}

/**
 * Shows how this node serves a Service: one view for each service port, IPv4 first; none for an unknown
 * Service. A Service beyond a budget has no rules, and may have millions of pairs of a frontend and an
 * endpoint: it shows only the first service port of each family with its cluster IP.
 * @param nodeContext the context of the programmed families
 * @param state the desired state, which knows the owners of frontends
 * @param ports which of the service ports; all if absent
 */
export function viewService(
  cache: ObjectCache,
  name: ServiceName,
  nodeContext: NodeContext,
  { families, budgets }: Pick<RulesetState, "families" | "budgets">,
  ports?: { readonly from: number; readonly to: number },
): ServicePortView[] {
  const service = cache.service(name);
  if (service === undefined) return [];
  // Counts again, as the Service may have changed since its rules were made.
  const slices = cache.slices(name);
  const count = resultOf(counting(service, slices, nodeContext, budgets.features));
  const excess = ownExcess(service, count, nodeContext);
  const isOver = (excess ?? budgets.excessOf(name)) !== undefined;
  const all = budgets.asServed(service);
  const own = isOver ? all.filter(({ family }, index) => all[index - 1]?.family !== family) : all;
  const shown = own.slice(ports?.from, ports?.to);
  const names = new Set(shown.map(({ spec }) => portNameOf(spec)));
  const byPort = resultOf(SlicesByPort.reading(isOver ? [] : slices, names));
  const loadBalancerIPs = new Set([...service.loadBalancerIPs.ip, ...service.loadBalancerIPs.ip6]);
  return shown.flatMap((port) => {
    const context = contextOf(nodeContext, port.family);
    if (context === undefined) return [];
    const endpoints = resultOf(byPort.endpointsOf(port, context.place.name, drawsIn(context)?.shareOf));
    const choice = chooseEndpoints(port, endpoints, context.place, ejectionFor(port, cache, context));
    const state = families[port.family];
    const rules = renderServicePort(port, choice, context);
    const pieces = rules.intervals.flatMap((interval) => {
      const own = state?.piecesOf(interval) ?? [];
      return own.length === 0 ? [interval] : own;
    });
    const frontends = isOver ? rules.frontends.slice(0, 1) : [...rules.frontends, ...pieces];
    return [
      {
        port,
        choice,
        endpoints: endpoints.map((endpoint) => viewEndpoint(port, endpoint, choice, context)),
        frontends: frontends.map((frontend) =>
          viewFrontend(port, frontend, refusalAt(rules, frontend), loadBalancerIPs, choice, state),
        ),
      },
    ];
  });
}

function viewEndpoint(
  port: ServicePort,
  endpoint: Endpoint,
  choice: EndpointChoice,
  { place }: FamilyContext,
): EndpointView {
  const inList = (policy: "cluster" | "local") => whyExcluded(endpoint, choice, policy, place) ?? "used";
  return {
    endpoint,
    cluster: usesClusterEndpoints(port) ? inList("cluster") : undefined,
    local: usesLocalEndpoints(port) ? inList("local") : undefined,
  };
}

/** How a frontend without endpoints refuses; undefined if it has endpoints. */
function refusalAt({ lists }: ServicePortRules, { key, way, refusal }: FrontendRules): Refusal | undefined {
  const isInterval = parseFrontendKey(key).lastPort !== undefined;
  return isInterval ? lists.empty?.find((one) => one.way === way)?.refusal : refusal;
}

function viewFrontend(
  { service, family }: ServicePort,
  { key, way, guard }: FrontendRules,
  refusal: Refusal | undefined,
  loadBalancerIPs: ReadonlySet<string>,
  choice: EndpointChoice,
  state: FamilyState | undefined,
): FrontendView {
  const { address = "", protocol, ...ports } = parseFrontendKey(key);
  const origin = originOf(address);
  const isLocal = origin === "cluster-ip" ? service.internalPolicyLocal : service.externalPolicyLocal;
  return {
    origin,
    key,
    address,
    ...ports,
    policy: isLocal ? "local" : "cluster",
    outcome: refusal ?? (way === undefined ? "no-endpoints" : "served"),
    endpoints: isLocal ? choice.local : choice.cluster,
    guarded: guard !== undefined,
    // If the service port has no port of an interval, shows the owner of its first port.
    owner: state?.ownerOf(key) ?? state?.frontendAt(address, protocol, ports.port, false)?.port,
  };

  function originOf(of: string): FrontendOrigin {
    if (of === "") return "node-port";
    if (of === service.clusterIPs[family]) return "cluster-ip";
    return loadBalancerIPs.has(of) ? "load-balancer-ip" : "external-ip";
  }
}
