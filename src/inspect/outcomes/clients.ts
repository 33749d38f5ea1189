import { joinIntervals, parseInterval } from "../../base/address-interval.ts";
import type { ByFamily } from "../../base/family.ts";
import { addToSet } from "../../base/group-by.ts";
import { FRONTEND_KINDS } from "../../features/frontends.ts";
import { cidrContains, compareAddresses, familyOf } from "../../model/ip.ts";
import type { AnyTable } from "../../nft/ast/any-table.ts";
import { splitParts, verdictTarget } from "../../nft/elements.ts";
import type { FamilyContext } from "../../ruleset/node-context.ts";
import { HAIRPIN_CONNECTIONS, SOURCE_RANGES } from "../../ruleset/sets.ts";
import type { Packet } from "../../trace/packet.ts";
import { nearEnd } from "../explain/packet.ts";
import { bothSides, comparedAddresses } from "./compared-addresses.ts";
import { type ComparedFrontend, KUBE_PROXY_FIREWALL_IPS } from "./frontends.ts";

/** A client whose connections are compared. */
export interface ComparedClient {
  readonly kind: "pod" | "node" | "outside" | "range" | "endpoint";
  readonly from: Packet["from"];
}

/**
 * Addresses for documentation: RFC 5737 and RFC 3849. The first one in no pod CIDR represents clients from
 * outside.
 */
const OUTSIDE: ByFamily<readonly string[]> = {
  ip: ["203.0.113.254", "198.51.100.254", "192.0.2.254"],
  ip6: ["2001:db8::fffe", "2001:db8:ffff::fffe"],
};

/**
 * Returns the clients to compare at a frontend: a pod, the node itself, a client from outside, and, with
 * source ranges, the addresses on both sides of each range's ends.
 * @param sources more addresses to compare
 * @param podCidrs the CIDRs of pods by family, if the rules do not recognise pods by them
 */
export function clientsOf(
  frontend: ComparedFrontend,
  context: FamilyContext,
  ranges: SourceRanges,
  sources: readonly string[],
  podCidrs: readonly string[],
): ComparedClient[] {
  const cidrs = [...(context.localTraffic.kind === "sources" ? context.localTraffic.cidrs : []), ...podCidrs];
  if (frontend.kind === "unserved" || frontend.kind === "unallocated") return podClient(context, cidrs[0]);
  const isOfFamily = (address: string) => familyOf(address) === context.family;
  const ends = new Set([...(ranges.get(frontend.key) ?? []), ...sources.filter(isOfFamily)]);
  return [
    ...podClient(context, cidrs[0]),
    ...nodeClient(frontend, context),
    ...outsideClient(context, cidrs),
    ...[...ends].map((address) => {
      const isPod = cidrs.some((cidr) => cidrContains(cidr, address));
      return clientAt("range", isPod ? "pod" : "outside", address, context);
    }),
  ];
}

/** Returns the second-to-last address of the pod CIDR, which is rarely an endpoint. */
function podClient(context: FamilyContext, cidr: string | undefined): ComparedClient[] {
  const { family, localTraffic } = context;
  if (cidr === undefined && localTraffic.kind !== "interface") return [];
  const address = cidr === undefined ? (OUTSIDE[family][0] ?? "") : nearEnd(cidr);
  return [clientAt("pod", "pod", address, context)];
}

/** A client. Of a pod's packets, the interface is known if the rules recognise pods by it. */
export function clientAt(
  kind: ComparedClient["kind"],
  at: Packet["from"]["at"],
  address: string,
  { localTraffic }: FamilyContext,
): ComparedClient {
  const ofPods = localTraffic.kind === "interface" ? { iifname: localTraffic.pattern.replace("*", "0") } : {};
  const arrival = { pod: ofPods, node: {}, outside: { iifname: "" } };
  return { kind, from: { address, at, ...arrival[at] } };
}

/** Returns the source address of the node: for its own addresses, the address itself. */
function nodeClient({ kind, address: to }: ComparedFrontend, context: FamilyContext): ComparedClient[] {
  const address = kind === "node-port" ? to : context.nodeAddress;
  return address === "" ? [] : [clientAt("node", "node", address, context)];
}

function outsideClient(context: FamilyContext, cidrs: readonly string[]): ComparedClient[] {
  const address = OUTSIDE[context.family].find((one) => !cidrs.some((cidr) => cidrContains(cidr, one)));
  return address === undefined ? [] : [clientAt("outside", "outside", address, context)];
}

/** Addresses on both sides of the ends of source ranges, by the key of the frontend. */
export type SourceRanges = ReadonlyMap<string, readonly string[]>;

/** Finds the source ranges in nft-proxy's sets, and in the firewall chains of kube-proxy's tables. */
export function sourceRangesOf(tables: readonly AnyTable[]): SourceRanges {
  const ranges = new Map<string, Set<string>>();
  const add = (key: string, addresses: Iterable<string>) => {
    for (const address of addresses) addToSet(ranges, key, address);
  };
  for (const table of tables) {
    for (const { sourceRangeLists: map } of FRONTEND_KINDS) {
      for (const [key, number] of table.sets.get(map)?.elements ?? [])
        add(key, addressesOfList(table, number));
    }
    for (const [key, verdict] of table.sets.get(KUBE_PROXY_FIREWALL_IPS)?.elements ?? [])
      add(key, addressesIn(table, verdict));
  }
  return new Map([...ranges].map(([key, addresses]) => [key, [...addresses].sort(compareAddresses)]));
}

/** The addresses on both sides of the ends of a list of source ranges. @param number of the list */
function addressesOfList(table: AnyTable, number: string): Iterable<string> {
  const family = table.family === "ip6" ? "ip6" : "ip";
  const prefixes = [...(table.sets.get(SOURCE_RANGES)?.elements.keys() ?? [])].flatMap((key) => {
    const [address = "", list, length = ""] = splitParts(key);
    return list === number ? [parseInterval(family, `${address}/${length}`)] : [];
  });
  // One range may be several prefixes.
  return joinIntervals(prefixes).flatMap((interval) => bothSides(family, interval));
}

/** The same for the addresses that a chain compares. @param verdict leads to the chain */
function addressesIn(table: AnyTable, verdict: string): Iterable<string> {
  const target = verdictTarget(verdict) ?? "";
  const chain = table.chains.get(target);
  const alone = chain === undefined ? [] : [{ ...table, chains: new Map([[target, chain]]) }];
  return comparedAddresses(alone, "saddr", () => true);
}

/**
 * Returns source addresses that two sets of rules treat differently outside of firewall chains, such as those
 * between two pod CIDRs; none if both compare with the same addresses.
 */
export function differingSources(before: readonly AnyTable[], after: readonly AnyTable[]): readonly string[] {
  const sources = (tables: readonly AnyTable[]) =>
    comparedAddresses(tables, "saddr", (chain) => !chain.startsWith("firewall-"));
  const [left, right] = [sources(before), sources(after)];
  return [...left, ...right].filter((one) => left.has(one) !== right.has(one)).sort(compareAddresses);
}

/**
 * The local endpoints that tables know as possible clients of themselves, by `family address port protocol`.
 */
export function hairpinEndpoints(tables: readonly AnyTable[]): ReadonlySet<string> {
  const found = new Set<string>();
  for (const { family, sets } of tables) {
    for (const key of sets.get(HAIRPIN_CONNECTIONS)?.elements.keys() ?? []) {
      const [address, , protocol, port] = splitParts(key);
      found.add(`${family} ${address} ${port} ${protocol}`);
    }
  }
  return found;
}
