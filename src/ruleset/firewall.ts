import type { Family } from "../base/family.ts";
import { cidrContains, mergeCidrs } from "../model/ip.ts";
import type { ServicePort } from "../model/service-port.ts";
import { differs } from "../nft/ast/expression.ts";
import type { Chain } from "../nft/ast/ruleset.ts";
import { type FirewallName, firewallName } from "./chain-names.ts";
import { addressSet, sourceAddress } from "./keys.ts";
import type { FamilyContext } from "./node-context.ts";
import { recordingRules } from "./refusals.ts";

/** A chain that guards load-balancer addresses. */
export interface FirewallChain extends Chain {
  readonly name: FirewallName;
}

/**
 * The chain that guards a service port's load-balancer addresses by `loadBalancerSourceRanges`, or undefined
 * when there is nothing to guard. It is the only thing that a Service may add besides map elements.
 *
 * Where the node itself is allowed, so are the load-balancer addresses: a node that has such an address bound
 * to itself uses it as the source of its own requests to it (kube-proxy does the same).
 */
export function firewallChain({ service, spec }: ServicePort, context: FamilyContext): FirewallChain | undefined {
  const { family, nodeAddress } = context;
  const cidrs = service.loadBalancerSourceRanges[family];
  const addresses = service.loadBalancerIPs[family];
  if (cidrs.length === 0 || addresses.length === 0) return undefined;
  const allowsNode = nodeAddress !== "" && cidrs.some((cidr) => cidrContains(cidr, nodeAddress));
  const length = family === "ip" ? 32 : 128;
  const allowed = [...cidrs, ...(allowsNode ? addresses.map((ip) => `${ip}/${length}`) : [])];
  if (allowsEverything(family, allowed)) return undefined;
  const isForbidden = differs(sourceAddress(family), addressSet(family, allowed));
  return {
    name: firewallName({ service, spec }),
    rules: [...recordingRules(context, isForbidden), [isForbidden, { drop: null }]],
  };
}

function allowsEverything(family: Family, cidrs: readonly string[]): boolean {
  return mergeCidrs(family, cidrs).some((range) => range.kind === "prefix" && range.length === 0);
}
