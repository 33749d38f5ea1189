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
  const { family, localTraffic, nodeAddress } = context;
  const cidrs = [...(localTraffic.kind === "sources" ? localTraffic.cidrs : []), ...podCidrs];
  const [cidr] = cidrs;
  const isPod = (address: string) => cidrs.some((one) => cidrContains(one, address));
  const clientOf = (kind: "pod" | "node" | "outside", address = "") =>
    address === "" ? [] : [clientAt(kind, kind, address, context)];
  // If pods are recognised by their interface, any address will do.
  const anyPod = localTraffic.kind === "interface" ? OUTSIDE[family][0] : undefined;
  const pods = clientOf("pod", cidr === undefined ? anyPod : nearEnd(cidr));
  if (frontend.kind === "unserved" || frontend.kind === "unallocated") return pods;
  const outside = OUTSIDE[family].find((one) => !isPod(one));
  const ofFamily = sources.filter((address) => familyOf(address) === family);
  const ends = new Set([...(ranges.get(frontend.key) ?? []), ...ofFamily]);
  return [
    ...pods,
    // The kernel uses the destination as source for the node's own addresses.
    ...clientOf("node", frontend.kind === "node-port" ? frontend.address : nodeAddress),
    ...clientOf("outside", outside),
    ...Array.from(ends, (one) => clientAt("range", isPod(one) ? "pod" : "outside", one, context)),
  ];
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
