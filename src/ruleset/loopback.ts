import type { ByFamily } from "../base/family.ts";
import { assign, lookup, matches } from "../nft/ast/expression.ts";
import type { Rule, Statement } from "../nft/ast/json.ts";
import { REGISTER, toBalancer, toList } from "./balancers.ts";
import { destinationAddress, packetNodePortKey } from "./keys.ts";
import { TO_OWN_LIST } from "./list-ids.ts";
import type { FamilyContext } from "./node-context.ts";
import { LISTS, PORTS } from "./sets.ts";

/**
 * The destinations of the userspace proxy of loopback NodePorts: addresses that no machine has, so that rules of our own
 * lead these connections, and no others, by the port to the NodePort's endpoints. Like a cluster IP, they need a route:
 * the default route will do.
 * Source: RFC 7600 section 4.8 (IPv4 dummy address), RFC 9780 (dummy IPv6 prefix)
 */
export const LOOPBACK_NODEPORT_ADDRESSES: ByFamily<string> = { ip: "192.0.0.8", ip6: "100:0:0:1::1" };

/**
 * The userspace proxy of loopback NodePorts is led to the endpoints for connections from outside, with
 * `externalTrafficPolicy: Local` to those on this node, as kube-proxy's leads its own (KEP-6032).
 */
export function loopbackNodePorts(context: FamilyContext): Rule[] {
  if (!context.loopbackNodePorts) return [];
  const listOfNodePort = assign(REGISTER, lookup(packetNodePortKey(context.family), LISTS));
  return [[toLoopbackNodePorts(context), listOfNodePort, toList(TO_OWN_LIST), toBalancer(PORTS)]];
}

/** No endpoint: refused here, for the address is nobody's. */
export function refuseLoopbackNodePorts(context: FamilyContext): Rule[] {
  return context.loopbackNodePorts ? [[toLoopbackNodePorts(context), { reject: null }]] : [];
}

function toLoopbackNodePorts({ family }: FamilyContext): Statement {
  return matches(destinationAddress(family), LOOPBACK_NODEPORT_ADDRESSES[family]);
}
