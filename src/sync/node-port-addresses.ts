import { FAMILIES, type Family } from "../base/family.ts";
import type { ProxyOptions } from "../config/options.ts";
import type { HostAddresses } from "../kernel/addresses.ts";
import { cidrContains, compareAddresses, isLoopback } from "../model/ip.ts";
import type { Node, NodePortAddresses } from "../model/node.ts";

/**
 * The addresses that serve NodePorts of a family.
 * @param nodeAddress the node's primary address, "" for none
 */
export function nodePortAddressesOf(
  { nodePortAddresses }: Pick<ProxyOptions, "nodePortAddresses">,
  nodeAddress: string,
  node: Node,
  family: Family,
  host: HostAddresses,
): NodePortAddresses {
  const { primary, cidrs } = nodePortAddresses;
  if (primary && nodeAddress === "" && cidrs[family].length === 0 && isOfOtherFamily(node, family)) {
    return { kind: "all" };
  }
  const matched = matchNodePortAddresses(cidrs[family], host.addresses[family]);
  if (matched.kind === "all" || !primary || nodeAddress === "" || matched.addresses.includes(nodeAddress))
    return matched;
  return { kind: "addresses", addresses: [...matched.addresses, nodeAddress].sort(compareAddresses) };
}

/**
 * Whether the Node is known, but only has addresses of the other family: kube-proxy then serves NodePorts on
 * all addresses of this one.
 */
function isOfOtherFamily(node: Node, family: Family): boolean {
  return node.addresses[family] === "" && FAMILIES.some((other) => node.addresses[other] !== "");
}

/**
 * Returns the `addresses` of one family that `--nodeport-addresses` selects: all for a CIDR of length 0,
 * otherwise those in the CIDRs. Never loopback, which nftables cannot serve without route_localnet. All are
 * canonical.
 */
export function matchNodePortAddresses(
  cidrs: readonly string[],
  addresses: readonly string[],
): NodePortAddresses {
  if (cidrs.some((cidr) => cidr.endsWith("/0"))) return { kind: "all" };
  const matched = addresses.filter(
    (address) => !isLoopback(address) && cidrs.some((cidr) => cidrContains(cidr, address)),
  );
  return { kind: "addresses", addresses: matched };
}
