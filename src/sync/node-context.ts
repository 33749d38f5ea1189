import { type ByFamily, FAMILIES, type Family } from "../base/family.ts";
import type { ProxyOptions } from "../config/options.ts";
import { matchNodePortAddresses } from "../kernel/addresses.ts";
import { compareAddresses, familyOf, isUnspecified } from "../model/ip.ts";
import type { Node, NodePortAddresses } from "../model/node.ts";
import type { ObjectCache } from "../model/object-cache.ts";
import type { LocalTraffic, NodeContext } from "../ruleset/node-context.ts";

const LONGEST_INTERFACE_NAME = 15;

/** The properties of the host that rules depend on. */
export interface HostView {
  /** The families that the kernel supports. */
  readonly families: readonly Family[];
  /** The addresses of the host, canonical. */
  readonly addresses: ByFamily<readonly string[]>;
}

/** Everything that rules depend on besides Services and EndpointSlices, for each family of the host. */
export function nodeContextOf(options: ProxyOptions, cache: ObjectCache, host: HostView): NodeContext {
  const { node } = cache;
  return FAMILIES.filter((family) => host.families.includes(family)).map((family) => {
    const nodeAddress = primaryAddress(options, node.addresses[family], family);
    return {
      family,
      place: { name: node.name, zone: node.zone },
      nodeAddress,
      localTraffic: localTraffic(options, node.podCIDRs[family], family),
      masqueradeAll: options.masqueradeAll,
      masqueradeMark: 2 ** options.masqueradeBit,
      nodePorts: nodePorts(options, nodeAddress, node, family, host),
      loopbackNodePorts: options.nodePortAddresses.localhost[family],
      serviceCIDRs: cache.serviceCIDRs().flatMap(({ cidrs }) => cidrs[family]),
      scheduler: options.scheduler,
      affinityMapSize: options.affinityMapSize,
      refusalLogSize: options.refusalLogSize,
      resetVanished: options.resetVanished,
      counters: options.serviceCounters,
    };
  });
}

/** `--bind-address` overrides the Node's own address, as in kube-proxy. */
function primaryAddress({ bindAddress }: ProxyOptions, ofNode: string, family: Family): string {
  return !isUnspecified(bindAddress) && familyOf(bindAddress) === family ? bindAddress : ofNode;
}

function localTraffic(
  { detectLocal, clusterCIDRs }: ProxyOptions,
  podCIDRs: readonly string[],
  family: Family,
): LocalTraffic {
  switch (detectLocal.kind) {
    case "cluster-cidr":
      return sources(clusterCIDRs[family]);
    case "node-cidr":
      return sources(podCIDRs);
    case "bridge":
      return { kind: "interface", pattern: detectLocal.interface };
    case "interface-prefix":
      return { kind: "interface", pattern: wildcard(detectLocal.prefix) };
  }
}

/** A prefix as long as a name can be (IFNAMSIZ of linux/if.h) is a name; nft 1.1.3 takes no asterisk behind it. */
function wildcard(prefix: string): string {
  return prefix.length < LONGEST_INTERFACE_NAME ? `${prefix}*` : prefix;
}

function sources(cidrs: readonly string[]): LocalTraffic {
  return cidrs.length === 0 ? { kind: "unknown" } : { kind: "sources", cidrs };
}

/** The Node is known, by addresses of the other family: kube-proxy then serves NodePorts on all addresses of this one. */
function isOfOtherFamily(node: Node, family: Family): boolean {
  return node.addresses[family] === "" && FAMILIES.some((other) => node.addresses[other] !== "");
}

function nodePorts(
  { nodePortAddresses }: ProxyOptions,
  nodeAddress: string,
  node: Node,
  family: Family,
  host: HostView,
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
