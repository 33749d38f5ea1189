import type { Endpoint } from "../model/endpoint.ts";
import { isExternallyAccessible, type ServicePort } from "../model/service-port.ts";
import type { EndpointChoice } from "../model/topology.ts";
import type { Chain } from "../nft/ast/ruleset.ts";
import { joinParts } from "../nft/elements.ts";
import { type Balancer, balancerName, SHORTCUT_OFFSET } from "./balancers.ts";
import { EXTERNAL_LOCAL, MARK_FOR_MASQUERADE, REJECT_CHAIN } from "./base-chains.ts";
import { type EndpointList, endpointIds } from "./endpoint-ids.ts";
import { firewallChain } from "./firewall.ts";
import type { FamilyContext } from "./node-context.ts";
import { CLUSTER_IPS, FIREWALL_IPS, FRONTEND_MAPS, type FrontendKind, HAIRPIN_CONNECTIONS } from "./sets.ts";

/** One element that a service port wants in a set or map; `value` is "" in a set. */
export interface DesiredElement {
  readonly set: string;
  readonly key: string;
  readonly value: string;
}

/** All that belongs to one frontend. Only one service port can have a frontend: see claims in state.ts. */
export interface FrontendRules {
  readonly kind: FrontendKind;
  /** `10.96.0.10 . tcp . 53`, or `tcp . 30080` for a NodePort. */
  readonly key: string;
  readonly elements: readonly DesiredElement[];
  readonly balancers: readonly Balancer[];
  /** The chain that guards the frontend by source ranges. */
  readonly firewall?: Chain;
}

/** What one service port adds to the ruleset of its family: a pure function of the port, its choice and the context. */
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
      clusterFrontend(port, choice),
      ...externalFrontends(port, choice, firewallChain(port, context)),
      ...nodePortFrontend(port, choice),
    ],
    shared: [
      { set: CLUSTER_IPS, key: port.service.clusterIPs[port.family], value: "" },
      ...hairpinElements(port, choice),
    ],
    noLocalEndpoints: noLocalEndpoints(port, choice),
  };
}

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

/** Elements and balancers of one frontend, collected. */
class FrontendBuilder {
  readonly kind: FrontendKind;
  readonly key: string;
  readonly elements: DesiredElement[] = [];
  readonly balancers: Balancer[] = [];
  readonly #affinitySeconds: number;

  constructor(kind: FrontendKind, key: string, affinitySeconds: number) {
    this.kind = kind;
    this.key = key;
    this.#affinitySeconds = affinitySeconds;
  }

  element(map: "services" | "external" | "shortcut" | "noEndpoints", value: string): void {
    this.elements.push({ set: FRONTEND_MAPS[this.kind][map], key: this.key, value });
  }

  /** Sends traffic that one map catches to a list of endpoints. */
  balance(map: "services" | "shortcut", endpoints: readonly Endpoint[], list: EndpointList): void {
    const balancer: Balancer = {
      kind: this.kind,
      shortcut: list === "shortcut",
      count: endpoints.length,
      affinitySeconds: this.#affinitySeconds,
    };
    this.balancers.push(balancer);
    this.element(map, `goto ${balancerName(balancer)}`);
    if (this.#affinitySeconds > 0) this.#stickyEndpoints(endpoints, list);
    else this.#indexedEndpoints(endpoints, list === "shortcut" ? SHORTCUT_OFFSET : 0);
  }

  #indexedEndpoints(endpoints: readonly Endpoint[], offset: number): void {
    const set = FRONTEND_MAPS[this.kind].endpoints;
    for (let i = 0; i < endpoints.length; i++) {
      this.elements.push({ set, key: joinParts(this.key, offset + i), value: (endpoints[i] as Endpoint).target });
    }
  }

  #stickyEndpoints(endpoints: readonly Endpoint[], list: EndpointList): void {
    const { endpoints: targets, affinityIds } = FRONTEND_MAPS[this.kind];
    const offset = list === "shortcut" ? SHORTCUT_OFFSET : 0;
    endpointIds(endpoints, list).forEach((id, i) => {
      this.elements.push({ set: affinityIds, key: joinParts(this.key, offset + i), value: String(id) });
      this.elements.push({ set: targets, key: joinParts(this.key, id), value: (endpoints[i] as Endpoint).target });
    });
  }
}

function clusterFrontend(port: ServicePort, choice: EndpointChoice): FrontendRules {
  const { service, spec, family } = port;
  const key = joinParts(service.clusterIPs[family], spec.protocol, spec.port);
  const frontend = new FrontendBuilder("service", key, service.affinitySeconds);
  const endpoints = service.internalPolicyLocal ? choice.local : choice.cluster;
  if (endpoints.length > 0) {
    frontend.balance("services", endpoints, service.internalPolicyLocal ? "local" : "cluster");
  } else {
    frontend.element("noEndpoints", noEndpointsVerdict(choice));
  }
  return frontend;
}

function externalFrontends(
  { service, spec, family }: ServicePort,
  choice: EndpointChoice,
  firewall: Chain | undefined,
): FrontendRules[] {
  const loadBalancerIPs = new Set(service.loadBalancerIPs[family]);
  const addresses = new Set([...service.externalIPs[family], ...loadBalancerIPs]);
  addresses.delete(service.clusterIPs[family]);
  return [...addresses].sort().map((address) => {
    const key = joinParts(address, spec.protocol, spec.port);
    const frontend = new FrontendBuilder("service", key, service.affinitySeconds);
    treatExternalTraffic(frontend, service.externalPolicyLocal, choice);
    if (firewall === undefined || !loadBalancerIPs.has(address)) return frontend;
    frontend.elements.push({ set: FIREWALL_IPS, key, value: `goto ${firewall.name}` });
    const { kind, elements, balancers } = frontend;
    return { kind, key, elements, balancers, firewall };
  });
}

function nodePortFrontend({ service, spec }: ServicePort, choice: EndpointChoice): FrontendRules[] {
  if (spec.nodePort === 0) return [];
  const key = joinParts(spec.protocol, spec.nodePort);
  const frontend = new FrontendBuilder("nodeport", key, service.affinitySeconds);
  treatExternalTraffic(frontend, service.externalPolicyLocal, choice);
  return [frontend];
}

/**
 * Traffic by an external policy of "Cluster" is masqueraded, for its answers must come back through this node;
 * by "Local" it keeps its source, and without a local endpoint it is dropped, so that a load balancer's other
 * nodes can answer.
 */
function treatExternalTraffic(frontend: FrontendBuilder, local: boolean, choice: EndpointChoice): void {
  if (!choice.hasAny) {
    frontend.element("noEndpoints", noEndpointsVerdict(choice));
    return;
  }
  if (!local) {
    frontend.element("external", `jump ${MARK_FOR_MASQUERADE}`);
    frontend.balance("services", choice.cluster, "cluster");
    return;
  }
  frontend.element("external", `jump ${EXTERNAL_LOCAL[frontend.kind]}`);
  frontend.balance("shortcut", choice.cluster, "shortcut");
  if (choice.local.length > 0) frontend.balance("services", choice.local, "local");
  else frontend.element("noEndpoints", noEndpointsVerdict(choice));
}

/** No endpoint anywhere: refused at once. Some, but not for this policy: dropped. */
function noEndpointsVerdict({ hasAny }: EndpointChoice): string {
  return hasAny ? "drop" : `goto ${REJECT_CHAIN}`;
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
