import type { ByFamily } from "../base/family.ts";
import { assign, lookup, matches } from "../nft/ast/expression.ts";
import type { Rule, Statement } from "../nft/ast/json.ts";
import { REGISTER, toBalancer, toList } from "./balancers.ts";
import { PORTS } from "./frontend-kinds.ts";
import { destinationAddress, packetNodePortKey } from "./keys.ts";
import { TO_OWN_LIST } from "./list-ids.ts";
import type { FamilyContext } from "./node-context.ts";
import { LISTS } from "./sets.ts";

/**
 * The destinations of the userspace proxy of loopback NodePorts: addresses that no machine has. Our rules
 * lead only these connections, by their port, to the endpoints of the NodePort. Like a cluster IP, they need
 * a route; the default route is enough.
 * Source: RFC 7600 section 4.8 (IPv4 dummy address), RFC 9780 (dummy IPv6 prefix)
 */
export const LOOPBACK_NODEPORT_ADDRESSES: ByFamily<string> = { ip: "192.0.0.8", ip6: "100:0:0:1::1" };

/**
 * Leads connections of the userspace proxy to the endpoints for outside clients: with
 * `externalTrafficPolicy: Local`, those on this node. kube-proxy does the same (KEP-6032).
 */
export function loopbackNodePorts(context: FamilyContext): Rule[] {
  if (!context.loopbackNodePorts) return [];
  const listOfNodePort = assign(REGISTER, lookup(packetNodePortKey(context.family), LISTS));
  return [[toLoopbackNodePorts(context), listOfNodePort, toList(TO_OWN_LIST), toBalancer(PORTS)]];
}

/** Refuses connections without endpoints here, as no machine has the address. */
export function refuseLoopbackNodePorts(context: FamilyContext): Rule[] {
  return context.loopbackNodePorts ? [[toLoopbackNodePorts(context), { reject: null }]] : [];
}

function toLoopbackNodePorts({ family }: FamilyContext): Statement {
  return matches(destinationAddress(family), LOOPBACK_NODEPORT_ADDRESSES[family]);
}
