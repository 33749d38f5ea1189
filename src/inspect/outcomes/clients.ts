import { addressNumber, addressText, addressWidth, prefixInterval } from "../../base/address-interval.ts";
import type { Family } from "../../base/family.ts";
import { cidrContains } from "../../model/ip.ts";
import type { AnyExpression, AnyTable } from "../../nft/ast/any-table.ts";
import { addressInterval } from "../../nft/canonical/address.ts";
import { splitParts, verdictTarget } from "../../nft/elements.ts";
import type { FamilyContext, NodeContext } from "../../ruleset/node-context.ts";
import { FIREWALL_IPS, HAIRPIN_CONNECTIONS } from "../../ruleset/sets.ts";
import type { Packet } from "../../trace/packet.ts";
import type { ComparedFrontend } from "./frontends.ts";

/** A client whose connections are compared, and what it stands for. */
export interface ComparedClient {
  readonly kind: "pod" | "node" | "outside" | "range" | "endpoint";
  readonly from: Packet["from"];
}

/** Addresses for documentation: RFC 5737 and RFC 3849. The first that is in no pod CIDR stands for the outside. */
const OUTSIDE: Readonly<Record<Family, readonly string[]>> = {
  ip: ["203.0.113.254", "198.51.100.254", "192.0.2.254"],
  ip6: ["2001:db8::fffe", "2001:db8:ffff::fffe"],
};

/**
 * The clients to compare at a frontend: a pod, the node itself, a client from outside, and, where source ranges guard
 * it, the addresses at both sides of each range's ends.
 * @param podCidrs the CIDRs of pods by family, where the rules do not tell pods by them
 */
export function clientsOf(
  frontend: ComparedFrontend,
  context: FamilyContext,
  ranges: SourceRanges,
  podCidrs: readonly string[],
): ComparedClient[] {
  const cidrs = [...(context.localTraffic.kind === "sources" ? context.localTraffic.cidrs : []), ...podCidrs];
  if (frontend.kind === "unserved") return podClient(context, cidrs[0]);
  return [
    ...podClient(context, cidrs[0]),
    ...nodeClient(frontend, context),
    ...outsideClient(context.family, cidrs),
    ...(ranges.get(frontend.key) ?? []).map((address): ComparedClient => {
      const isPod = cidrs.some((cidr) => cidrContains(cidr, address));
      return { kind: "range", from: { address, at: isPod ? "pod" : "outside" } };
    }),
  ];
}

/** The last address but one of the pod CIDR, which hardly an endpoint has. */
function podClient({ family, localTraffic }: FamilyContext, cidr: string | undefined): ComparedClient[] {
  if (cidr === undefined && localTraffic.kind !== "interface") return [];
  const iifname = localTraffic.kind === "interface" ? { iifname: localTraffic.pattern.replace("*", "0") } : {};
  const address = cidr === undefined ? (OUTSIDE[family][0] ?? "") : lastButOne(cidr, family);
  return [{ kind: "pod", from: { address, at: "pod", ...iifname } }];
}

function lastButOne(cidr: string, family: Family): string {
  const slash = cidr.indexOf("/");
  const { first, last } = prefixInterval(
    family,
    addressNumber(family, cidr.slice(0, slash)),
    Number(cidr.slice(slash + 1)),
  );
  return addressText(family, last > first ? last - 1n : first);
}

/** The node reaches its own addresses from the address itself. */
function nodeClient({ kind, address: to }: ComparedFrontend, { nodeAddress }: FamilyContext): ComparedClient[] {
  const address = kind === "node-port" ? to : nodeAddress;
  return address === "" ? [] : [{ kind: "node", from: { address, at: "node" } }];
}

function outsideClient(family: Family, cidrs: readonly string[]): ComparedClient[] {
  const address = OUTSIDE[family].find((one) => !cidrs.some((cidr) => cidrContains(cidr, one)));
  return address === undefined ? [] : [{ kind: "outside", from: { address, at: "outside", iifname: "" } }];
}

/** Addresses on both sides of the ends of source ranges, by the key of the frontend that these guard. */
export type SourceRanges = ReadonlyMap<string, readonly string[]>;

/** Finds the source ranges in the firewall chains of nft-proxy's or kube-proxy's tables. */
export function sourceRangesOf(tables: readonly AnyTable[]): SourceRanges {
  const ranges = new Map<string, Set<string>>();
  for (const table of tables) {
    for (const [key, verdict] of table.sets.get(FIREWALL_IPS)?.elements ?? []) {
      const rules = table.chains.get(verdictTarget(verdict) ?? "")?.rules ?? [];
      const edges = rules.flat().flatMap((statement) => {
        const isSource = "match" in statement && isSourceAddress(statement.match.left);
        return isSource ? edgesOf(table.family === "ip6" ? "ip6" : "ip", statement.match.right) : [];
      });
      ranges.set(key, new Set([...(ranges.get(key) ?? []), ...edges]));
    }
  }
  return new Map([...ranges].map(([key, addresses]) => [key, [...addresses].sort()]));
}

function isSourceAddress(left: AnyExpression): boolean {
  return typeof left === "object" && "payload" in left && left.payload.field === "saddr";
}

function edgesOf(family: Family, right: AnyExpression): string[] {
  if (typeof right === "object" && "set" in right) return right.set.flatMap((member) => edgesOf(family, member));
  if (typeof right === "number" || (typeof right === "string" && right.startsWith("@"))) return [];
  const { first, last } = addressInterval(family, right);
  const most = (1n << BigInt(addressWidth(family))) - 1n;
  return [first - 1n, first, last, last + 1n]
    .filter((number) => number > 0n && number < most)
    .map((number) => addressText(family, number));
}

/** The local endpoints that tables know as possible clients of themselves, by `family address port protocol`. */
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

/** The context of a family; undefined when the node does not program it. */
export function contextOf(nodeContext: NodeContext, family: Family): FamilyContext | undefined {
  return nodeContext.find((context) => context.family === family);
}
