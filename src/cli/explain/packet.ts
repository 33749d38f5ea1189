import { addressNumber, addressText, prefixInterval } from "../../base/address-interval.ts";
import type { ByFamily } from "../../model/family.ts";
import { cidrContains, familyOf, isLinkLocal, isLoopback } from "../../model/ip.ts";
import type { Protocol } from "../../model/service.ts";
import type { FamilyContext } from "../../ruleset/context.ts";
import { isLocal, type Packet } from "../../trace/packet.ts";
import type { Connection } from "./explanation.ts";
import type { Situation } from "./situation.ts";

/** Where a connection comes from. */
export type Source = Connection["from"]["at"];

/** A connection as it was asked about; what is missing is found. All addresses canonical, of one family. */
export interface Question {
  readonly fromAddress?: string;
  readonly source?: Source;
  readonly to: string;
  /** 1..65535 */
  readonly port: number;
  readonly protocol: Protocol;
}

/** Addresses for documentation, which nobody has: RFC 5737, RFC 3849. */
const SOMEWHERE: ByFamily<string> = { ip: "192.0.2.1", ip6: "2001:db8::1" };

/** Completes a question: an address tells the kind of source, and a kind has an address that stands for it. */
export function connectionOf(question: Question, situation: Situation): Connection {
  const { fromAddress, to, port, protocol } = question;
  const at = question.source ?? sourceOf(question, situation);
  const from =
    fromAddress === undefined
      ? { address: typicalAddress(at, to, situation), at, known: "assumed" as const }
      : { address: fromAddress, at, known: "given" as const };
  return { from, to, port, protocol };
}

/** The first packet of a connection. */
export function packetOf({ from, to, port, protocol }: Connection, { contexts }: Situation): Packet {
  const { address, at } = from;
  const context = contexts.find(({ family }) => family === familyOf(to));
  const iifname = at === "pod" && context?.localTraffic.kind === "interface" ? context.localTraffic.pattern : "";
  return { from: { address, at, iifname: iifname.replace("*", "0") }, to, port, protocol };
}

function sourceOf({ fromAddress, to }: Question, situation: Situation): Source {
  if (fromAddress !== undefined) return kindOf(fromAddress, situation);
  if (isLoopback(to)) return "node";
  return isExternal(to, situation) ? "outside" : "pod";
}

/** Pods seldom use addresses that Services have for the outside, nor NodePorts. */
function isExternal(address: string, { world, host }: Situation): boolean {
  const family = familyOf(address);
  return (
    host.localAddresses.has(address) ||
    world.serviceNames().some((name) => {
      const service = world.service(name);
      return service?.externalIPs[family].includes(address) || service?.loadBalancerIPs[family].includes(address);
    })
  );
}

function kindOf(address: string, situation: Situation): Source {
  if (isLocal(situation.host, address)) return "node";
  const context = situation.contexts.find(({ family }) => family === familyOf(address));
  const isPods = context !== undefined && podCidrs(context, situation).some((cidr) => cidrContains(cidr, address));
  return isPods || isEndpoint(address, situation) ? "pod" : "outside";
}

function isEndpoint(address: string, { world }: Situation): boolean {
  return world
    .serviceNames()
    .some((name) => world.slices(name).some(({ endpoints }) => endpoints.some((one) => one.address === address)));
}

/** The CIDRs that pods have addresses of; first those of this node. */
function podCidrs({ family, localTraffic }: FamilyContext, { world }: Situation): readonly string[] {
  return [...world.node.podCIDRs[family], ...(localTraffic.kind === "sources" ? localTraffic.cidrs : [])];
}

function typicalAddress(at: Source, to: string, situation: Situation): string {
  const family = familyOf(to);
  const context = situation.contexts.find((one) => one.family === family);
  switch (at) {
    case "outside":
      return SOMEWHERE[family];
    case "node":
      return nodeAddress(to, context, situation);
    case "pod": {
      const [cidr] = context === undefined ? [] : podCidrs(context, situation);
      return cidr === undefined ? SOMEWHERE[family] : nearEnd(cidr);
    }
  }
}

/** What goes to the node itself comes from the address that it goes to. */
function nodeAddress(to: string, context: FamilyContext | undefined, { host }: Situation): string {
  if (isLocal(host, to)) return to;
  if (context !== undefined && context.nodeAddress !== "") return context.nodeAddress;
  const usable = [...host.localAddresses].filter(
    (address) => familyOf(address) === familyOf(to) && !isLoopback(address) && !isLinkLocal(address),
  );
  return usable[0] ?? SOMEWHERE[familyOf(to)];
}

/** The last address but one, which hardly an endpoint has: an endpoint's own connections are a case of their own. */
function nearEnd(cidr: string): string {
  const family = familyOf(cidr);
  const slash = cidr.indexOf("/");
  const { first, last } = prefixInterval(
    family,
    addressNumber(family, cidr.slice(0, slash)),
    Number(cidr.slice(slash + 1)),
  );
  return addressText(family, last > first ? last - 1n : first);
}
