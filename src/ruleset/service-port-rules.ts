import { isExternallyAccessible, type ServicePort } from "../model/service-port.ts";
import type { EndpointChoice } from "../model/topology.ts";
import { joinParts } from "../nft/elements.ts";
import type { StaticChainName } from "./chain-names.ts";
import { DROP_CHAIN, EXTERNAL_LOCAL, MARK_FOR_MASQUERADE, REJECT_CHAIN } from "./chain-names.ts";
import {
  type BalancedList,
  type Balancing,
  balancedList,
  type DesiredElement,
  dispatchElement,
  type Frontend,
} from "./endpoint-lists/endpoint-lists.ts";
import { type FirewallChain, firewallChain } from "./firewall.ts";
import type { FamilyContext } from "./node-context.ts";
import { CLUSTER_IPS, FIREWALL_IPS, FRONTEND_MAPS, HAIRPIN_CONNECTIONS } from "./sets.ts";

/** All that belongs to one frontend. Only one service port can have a frontend: see conflicts in family-state.ts. */
export interface FrontendRules extends Frontend {
  /** Its elements, except for those of its lists: see {@link listElements}. */
  readonly elements: readonly DesiredElement[];
  readonly lists: readonly BalancedList[];
  /** The chain that guards the frontend by source ranges. */
  readonly firewall?: FirewallChain;
}

/** The rules of one service port in the ruleset of its family: a pure function of the port, its choice and the context. */
export interface ServicePortRules {
  readonly port: ServicePort;
  readonly frontends: readonly FrontendRules[];
  /** Elements that several service ports may want alike. */
  readonly shared: readonly DesiredElement[];
  /** The policies of "Local" for which this node has no endpoint while others do. */
  readonly noLocalEndpoints: readonly ("internal" | "external")[];
}

/** Renders one service port. */
export function renderServicePort(port: ServicePort, choice: EndpointChoice, context: FamilyContext): ServicePortRules {
  return {
    port,
    frontends: [
      clusterFrontend(port, choice, context),
      ...externalFrontends(port, choice, context),
      ...nodePortFrontend(port, choice, context),
    ],
    shared: [
      { set: CLUSTER_IPS, key: port.service.clusterIPs[port.family], value: "" },
      ...hairpinElements(port, choice),
    ],
    noLocalEndpoints: noLocalEndpoints(port, choice),
  };
}

/** The verdict of a frontend in the map of balancers when none of its traffic is balanced there. */
export const NOT_BALANCED = "return";

type NoLocalEndpoints = ServicePortRules["noLocalEndpoints"];

/** One for all: most service ports miss no endpoints. */
const NONE_MISSING: NoLocalEndpoints = [];

function noLocalEndpoints(port: ServicePort, { hasAny, local }: EndpointChoice): NoLocalEndpoints {
  if (!hasAny || local.length > 0 || !(port.service.internalPolicyLocal || port.service.externalPolicyLocal)) {
    return NONE_MISSING;
  }
  const { internalPolicyLocal, externalPolicyLocal } = port.service;
  return [
    ...(internalPolicyLocal ? (["internal"] as const) : []),
    ...(externalPolicyLocal && isExternallyAccessible(port) ? (["external"] as const) : []),
  ];
}

/** The treatment of connections to a frontend: see {@link FrontendRules}. */
type Treatment = Pick<FrontendRules, "elements" | "lists">;

/** Without a second spread: V8 gives every object that is made by two a hidden class of its own, 200 bytes. */
function frontendRules({ kind, key }: Frontend, { elements, lists }: Treatment): FrontendRules {
  return { kind, key, elements, lists };
}

/** Sends all traffic to one list. */
function balanced(frontend: Frontend, list: BalancedList): Treatment {
  return { elements: [dispatchElement(frontend, list)], lists: [list] };
}

function withoutEndpoints({ kind, key }: Frontend, choice: EndpointChoice): Treatment {
  return { elements: [{ set: FRONTEND_MAPS[kind].noEndpoints, key, value: noEndpointsVerdict(choice) }], lists: [] };
}

/** Keeps traffic for an address of a Service from falling through to another Service's NodePort of that number. */
function endedHere({ kind, key }: Frontend, { elements, lists }: Treatment): Treatment {
  if (kind === "nodeport") return { elements, lists };
  return { elements: [...elements, { set: FRONTEND_MAPS.service.services, key, value: NOT_BALANCED }], lists };
}

/** The annotation of the Service decides, or else the proxy's default. */
function balancingOf({ service }: ServicePort, context: FamilyContext): Balancing {
  return { scheduler: service.scheduler ?? context.scheduler, affinitySeconds: service.affinitySeconds };
}

function clusterFrontend(port: ServicePort, choice: EndpointChoice, context: FamilyContext): FrontendRules {
  const { service, spec, family } = port;
  const frontend: Frontend = {
    kind: "service",
    key: joinParts(service.clusterIPs[family], spec.protocol, spec.port),
  };
  const [endpoints, list] = service.internalPolicyLocal
    ? ([choice.local, "local"] as const)
    : ([choice.cluster, "cluster"] as const);
  if (endpoints.length === 0) return frontendRules(frontend, withoutEndpoints(frontend, choice));
  return frontendRules(
    frontend,
    balanced(frontend, balancedList("service", endpoints, list, balancingOf(port, context))),
  );
}

function externalFrontends(port: ServicePort, choice: EndpointChoice, context: FamilyContext): FrontendRules[] {
  const { service, spec, family } = port;
  const loadBalancerIPs = new Set(service.loadBalancerIPs[family]);
  const addresses = new Set([...service.externalIPs[family], ...loadBalancerIPs]);
  addresses.delete(service.clusterIPs[family]);
  if (addresses.size === 0) return [];
  const firewall = firewallChain(port, context);
  return [...addresses].sort().map((address) => {
    const frontend: Frontend = { kind: "service", key: joinParts(address, spec.protocol, spec.port) };
    const rules = frontendRules(frontend, externalTreatment(frontend, port, choice, context));
    if (firewall === undefined || !loadBalancerIPs.has(address)) return rules;
    const guard: DesiredElement = { set: FIREWALL_IPS, key: frontend.key, value: `goto ${firewall.name}` };
    return { ...rules, elements: [...rules.elements, guard], firewall };
  });
}

function nodePortFrontend(port: ServicePort, choice: EndpointChoice, context: FamilyContext): FrontendRules[] {
  if (port.spec.nodePort === 0) return [];
  const frontend: Frontend = { kind: "nodeport", key: joinParts(port.spec.protocol, port.spec.nodePort) };
  return [frontendRules(frontend, externalTreatment(frontend, port, choice, context))];
}

/**
 * Traffic by an external policy of "Cluster" is masqueraded, for its answers must come back through this node;
 * by "Local" it keeps its source, and without a local endpoint it is dropped, so that a load balancer's other
 * nodes can answer.
 */
function externalTreatment(
  frontend: Frontend,
  port: ServicePort,
  choice: EndpointChoice,
  context: FamilyContext,
): Treatment {
  if (!choice.hasAny) return withoutEndpoints(frontend, choice);
  const { kind, key } = frontend;
  const { externalPolicyLocal } = port.service;
  const balancing = balancingOf(port, context);
  const external = (chain: StaticChainName): DesiredElement => {
    return { set: FRONTEND_MAPS[kind].external, key, value: `jump ${chain}` };
  };
  if (!externalPolicyLocal) {
    const { elements, lists } = balanced(frontend, balancedList(kind, choice.cluster, "cluster", balancing));
    return { elements: [external(MARK_FOR_MASQUERADE), ...elements], lists };
  }
  const shortcut = balanced(frontend, balancedList(kind, choice.cluster, "shortcut", balancing));
  const own =
    choice.local.length > 0
      ? balanced(frontend, balancedList(kind, choice.local, "local", balancing))
      : endedHere(frontend, withoutEndpoints(frontend, choice));
  return {
    elements: [external(EXTERNAL_LOCAL[kind]), ...shortcut.elements, ...own.elements],
    lists: [...shortcut.lists, ...own.lists],
  };
}

/** No endpoint anywhere: refused at once. Some, but not for this policy: dropped. */
function noEndpointsVerdict({ hasAny }: EndpointChoice): string {
  return hasAny ? `goto ${DROP_CHAIN}` : `goto ${REJECT_CHAIN}`;
}

/** A local endpoint that reaches itself through a Service must not see its own address as the source. */
function hairpinElements({ spec }: ServicePort, { cluster, local }: EndpointChoice): DesiredElement[] {
  const keys = new Set<string>();
  for (const list of [cluster, local]) {
    for (const endpoint of list) {
      if (!endpoint.local) continue;
      keys.add(joinParts(endpoint.address, endpoint.address, spec.protocol, endpoint.port));
    }
  }
  return [...keys].map((key) => ({ set: HAIRPIN_CONNECTIONS, key, value: "" }));
}
