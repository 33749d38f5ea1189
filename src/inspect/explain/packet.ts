import { addressText } from "../../base/address-interval.ts";
import type { ByFamily, Family } from "../../base/family.ts";
import { boundsOf, cidrContains, familyOf, isLinkLocal, isLoopback } from "../../model/ip.ts";
import { contextOf, type FamilyContext } from "../../ruleset/node-context.ts";
import { isLocal, type Packet } from "../../trace/packet.ts";
import type { ExplainInput } from "./explain-input.ts";
import type { Connection } from "./explanation.ts";
import { endpointsAt, matchOf, servicesAt } from "./match.ts";

/** The origin of a connection. */
export type Source = Connection["from"]["at"];

/** The client of a connection as the user gave it; missing parts are assumed. */
export interface GivenClient {
  readonly fromAddress?: string | undefined;
  readonly source?: Source | undefined;
}

/** A connection as the user gave it. All addresses are canonical and of one family. */
export interface Question extends GivenClient {
  readonly to: string;
  /** As in {@link Connection}. */
  readonly port: number;
  readonly protocol: Connection["protocol"];
}

/** Addresses for documentation, which no host may have. Sources: RFC 5737, RFC 3849. */
export const SOMEWHERE: ByFamily<string> = { ip: "192.0.2.1", ip6: "2001:db8::1" };

/**
 * Completes a question: derives the kind of source from a given address, or assumes an address of the kind.
 */
export function connectionOf(question: Question, input: ExplainInput): Connection {
  const { fromAddress, to, port, protocol } = question;
  const at = question.source ?? sourceOf(question, input);
  const address = fromAddress ?? allowedAddress(question, input) ?? typicalAddress(at, to, input);
  const known = fromAddress === undefined ? "assumed" : "given";
  return { from: { address, at, known }, to, port, protocol };
}

/** The first packet of a connection. */
export function packetOf({ from, to, port, protocol }: Connection, input: ExplainInput): Packet {
  const { address, at, known } = from;
  const iifname = podInterface(from, input);
  // The node itself has the address that is assumed for it.
  const isAssumed = known === "assumed" && at !== "node";
  return { from: { address, at, iifname, ...(isAssumed ? { isAssumed } : {}) }, to, port, protocol };
}

/**
 * The interface of a pod of this node; "" for other clients, and if the options do not recognise pods by
 * interface.
 */
function podInterface({ address, at, known }: Connection["from"], input: ExplainInput): string {
  const localTraffic = contextOf(input.nodeContext, familyOf(address))?.localTraffic;
  if (at !== "pod" || localTraffic?.kind !== "interface") return "";
  const own = localTraffic.pattern.replace("*", "0");
  if (known === "assumed") return own;
  const routed = input.live?.interfaceTo(address);
  if (routed !== undefined) return routed;
  const { name } = input.cache.node;
  const nodes = endpointsAt(address, input).map(({ endpoint: { nodeName } }) => nodeName || name);
  return nodes.every((node) => node === name) ? own : "";
}

function sourceOf({ fromAddress, to }: Question, input: ExplainInput): Source {
  if (fromAddress !== undefined) return kindOf(fromAddress, input);
  if (isLoopback(to)) return "node";
  const clusterIPs = servicesAt(to, input).map((service) => service.clusterIPs[familyOf(to)]);
  // Pods seldom use external addresses of Services, or NodePorts.
  const isExternal = input.host.localAddresses.has(to) || clusterIPs.some((address) => address !== to);
  return isExternal ? "outside" : "pod";
}

function kindOf(address: string, input: ExplainInput): Source {
  if (isLocal(input.host, address)) return "node";
  const context = contextOf(input.nodeContext, familyOf(address));
  const isPods =
    context !== undefined && podCidrs(context, input).some((cidr) => cidrContains(cidr, address));
  return isPods || endpointsAt(address, input).length > 0 ? "pod" : "outside";
}

/** The CIDRs of pods, those of this node first. */
function podCidrs({ family, localTraffic }: FamilyContext, { cache }: ExplainInput): readonly string[] {
  return [...cache.node.podCIDRs[family], ...(localTraffic.kind === "sources" ? localTraffic.cidrs : [])];
}

/** The first host in the source ranges of a frontend; undefined if it allows all clients. */
function allowedAddress(question: Question, input: ExplainInput): string | undefined {
  const family = familyOf(question.to);
  const match = matchOf(question, input);
  const [range] = match?.frontend.guarded ? match.port.service.loadBalancerSourceRanges[family] : [];
  if (range === undefined) return undefined;
  // The first address of a CIDR that a host can have: the network itself has the one before.
  const { first, last } = boundsOf(range);
  return addressText(family, last - first > 1n ? first + 1n : first);
}

function typicalAddress(at: Source, to: string, input: ExplainInput): string {
  const family = familyOf(to);
  const context = contextOf(input.nodeContext, family);
  // For connections of the node to itself, the kernel uses their destination.
  if (at === "node")
    return isLocal(input.host, to) ? to : (reachedAddress(family, input) ?? SOMEWHERE[family]);
  const [cidr] = at === "outside" || context === undefined ? [] : podCidrs(context, input);
  return cidr === undefined ? SOMEWHERE[family] : nearEnd(cidr);
}

/** An address of the node that others can reach: that of the Node object, or else of an interface. */
export function reachedAddress(family: Family, { nodeContext, host }: ExplainInput): string | undefined {
  const known = contextOf(nodeContext, family)?.nodeAddress;
  if (known) return known;
  return [...host.localAddresses].find(
    (address) => familyOf(address) === family && !isLoopback(address) && !isLinkLocal(address),
  );
}

/**
 * The second-to-last address of a CIDR. It is unlikely to be an endpoint; an endpoint that connects to itself
 * would be a special case.
 */
export function nearEnd(cidr: string): string {
  const { first, last } = boundsOf(cidr);
  return addressText(familyOf(cidr), last > first ? last - 1n : first);
}
