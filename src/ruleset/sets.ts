import type { DataType, SetSpec } from "../nft/ast/ruleset.ts";
import { BALANCING, EXTERNAL, EXTERNAL_LOCAL } from "./chain-names.ts";
import type { FamilyContext } from "./node-context.ts";

/**
 * The sets and maps of a table. A frontend is an address, protocol and port (see keys.ts), and a list id a number that
 * stands for the endpoints of a service port: see list-ids.ts.
 */
/** Frontend to list id. */
export const LISTS = "lists";
/** List id to the chain that balances over the list. */
export const BALANCERS = "balancers";
/** List id and number to endpoint; with session affinity, endpoint id and 0 or 1 to endpoint. */
export const ENDPOINTS = "endpoints";
/** With session affinity: list id and number to endpoint id. */
export const AFFINITY_IDS = "affinity-ids";
/** Service port id and client to endpoint id; filled by packets. */
export const AFFINITY = "affinity-clients";
/** Frontend to reject or drop. */
export const NO_ENDPOINTS = "no-endpoint-services";
/** Frontend to the chain that checks the source ranges of its Service. */
export const FIREWALL_IPS = "firewall-ips";
/** Every cluster IP. */
export const CLUSTER_IPS = "cluster-ips";
/** The node's addresses that serve NodePorts. */
export const NODEPORT_IPS = "nodeport-ips";
/** Connections of an endpoint to itself: its address twice, protocol and port. */
export const HAIRPIN_CONNECTIONS = "hairpin-connections";
/** Client and frontend of what was refused or dropped; filled by packets. */
export const REFUSED = "refused";
/** TCP endpoints (address and port) that left every EndpointSlice a while ago. */
export const VANISHED = "vanished";

/** The most endpoints in {@link VANISHED} that the daemon keeps, for each family; beyond, the oldest go. */
export const MOST_VANISHED = 4096;

/** Seconds for which an endpoint stays in {@link VANISHED}. */
export const VANISHED_SECONDS = 900;

/** The daemon takes endpoints out by itself; a minute later the kernel does, for a daemon that ended. */
export const VANISHED_MARGIN = 60;

/** The name of a set or map of ours. Source ranges have one set for each list of them. */
export type SetName =
  | typeof LISTS
  | typeof BALANCERS
  | typeof ENDPOINTS
  | typeof AFFINITY_IDS
  | typeof AFFINITY
  | typeof NO_ENDPOINTS
  | typeof FIREWALL_IPS
  | typeof CLUSTER_IPS
  | typeof NODEPORT_IPS
  | typeof HAIRPIN_CONNECTIONS
  | (typeof RANGES)[Exclude<keyof typeof RANGES, "kind" | "keepsPort" | "chains">]
  | typeof REFUSED
  | typeof VANISHED
  | `source-ranges-${string}`;

/** The sets and chains of ports: hash maps, looked up first. */
export const PORTS = {
  kind: "port",
  keepsPort: false,
  lists: LISTS,
  balancers: BALANCERS,
  endpoints: ENDPOINTS,
  firewallIPs: FIREWALL_IPS,
  refusals: NO_ENDPOINTS,
  hairpins: HAIRPIN_CONNECTIONS,
  chains: { balancing: BALANCING, external: EXTERNAL, externalLocal: EXTERNAL_LOCAL },
} as const;

/** The same for ranges of ports, which need interval maps. A table has them only while a Service has ranges. */
export const RANGES = {
  kind: "range",
  /** A connection keeps its port: balancers translate its address alone, and endpoints have no port. */
  keepsPort: true,
  lists: "range-lists",
  balancers: "range-balancers",
  endpoints: "range-endpoints",
  firewallIPs: "range-firewall-ips",
  /** By list id: a change of readiness costs one element, however many ranges there are. */
  refusals: "range-empty-lists",
  /** An endpoint's address twice: connections to itself at any port. */
  hairpins: "range-hairpins",
  /** The explicit ports at addresses that have ranges: ranges do not serve them. */
  explicitPorts: "range-explicit-ports",
  chains: {
    balancing: "range-balancing",
    external: "range-external",
    externalLocal: "range-external-local",
  },
} as const;

/** Whether a frontend is a port or a range of ports, with the sets and chains of this kind. */
export type FrontendKind = typeof PORTS | typeof RANGES;

/** Both kinds, in the order in which packets look for a frontend. */
export const FRONTEND_KINDS = [PORTS, RANGES] as const;

/** The kind of a frontend, by its key. */
export function kindOf(frontend: string): FrontendKind {
  return frontend.includes("-") ? RANGES : PORTS;
}

const PORT_NAMES: ReadonlyMap<string, string> = new Map(
  namesOf(RANGES).map((name, index) => [name, namesOf(PORTS)[index] ?? name] as const),
);

function namesOf({ lists, balancers, endpoints, firewallIPs, refusals, hairpins, chains }: FrontendKind) {
  return [lists, balancers, endpoints, firewallIPs, refusals, hairpins, ...Object.values(chains)];
}

/** The set or chain of ports with the same purpose as one of ranges; every other name is its own. */
export function portEquivalent(name: string): string {
  return PORT_NAMES.get(name) ?? name;
}

const FRONTEND_SETS: ReadonlySet<string> = new Set([
  ...FRONTEND_KINDS.flatMap(({ lists, firewallIPs }) => [lists, firewallIPs]),
  NO_ENDPOINTS,
  RANGES.explicitPorts,
]);
const LIST_SETS: ReadonlySet<string> = new Set([
  ...FRONTEND_KINDS.flatMap(({ balancers, endpoints }) => [balancers, endpoints]),
  AFFINITY_IDS,
  AFFINITY,
  RANGES.refusals,
]);

/** Whether the keys of a map are frontends. */
export function isOfFrontends(set: string): boolean {
  return FRONTEND_SETS.has(set);
}

/** Whether the keys of a map begin with the id of a service port, list or endpoint. */
export function isOfLists(set: string): boolean {
  return LIST_SETS.has(set);
}

/** The declaration of a set or map of ours. */
export interface NamedSetSpec extends SetSpec {
  readonly name: SetName;
}

const PLAIN = { dynamic: false, counter: false } as const;

/** The declarations of the sets and maps of one family that do not depend on Services. */
export function setSpecs({
  family,
  affinityMapSize,
  counters,
  refusalLogSize,
  resetVanished,
}: FamilyContext): NamedSetSpec[] {
  const address: DataType = family === "ip" ? "ipv4_addr" : "ipv6_addr";
  const frontend: DataType[] = [address, "inet_proto", "inet_service"];
  const listEntry: DataType[] = ["classid", "integer"];
  return [
    { ...PLAIN, name: CLUSTER_IPS, key: [address] },
    { ...PLAIN, name: NODEPORT_IPS, key: [address] },
    { ...PLAIN, name: HAIRPIN_CONNECTIONS, key: [address, ...frontend] },
    { ...PLAIN, name: FIREWALL_IPS, key: frontend, value: "verdict" },
    { ...PLAIN, name: NO_ENDPOINTS, key: frontend, value: "verdict" },
    ...(refusalLogSize === 0
      ? []
      : [
          // Its counters are its rules': Linux before 5.11 gives elements that a rule adds none of the set's.
          {
            ...PLAIN,
            name: REFUSED,
            key: [address, ...frontend],
            dynamic: true,
            size: refusalLogSize,
          } as const,
        ]),
    ...(resetVanished ? [vanishedSpec(address)] : []),
    { ...PLAIN, name: LISTS, key: frontend, value: ["classid"], counter: counters !== "off" },
    { ...PLAIN, name: BALANCERS, key: ["classid"], value: "verdict" },
    {
      ...PLAIN,
      name: ENDPOINTS,
      key: listEntry,
      value: [address, "inet_service"],
      counter: counters === "endpoints",
    },
    { ...PLAIN, name: AFFINITY_IDS, key: listEntry, value: ["classid"] },
    {
      ...PLAIN,
      name: AFFINITY,
      key: ["classid", address],
      value: ["classid"],
      dynamic: true,
      size: affinityMapSize,
    },
  ];
}

/** The declarations of the sets and maps of one family that are there as long as a Service has ranges of ports. */
export function rangeSpecs({ family, counters }: Pick<FamilyContext, "family" | "counters">): NamedSetSpec[] {
  const address: DataType = family === "ip" ? "ipv4_addr" : "ipv6_addr";
  const key: DataType[] = [address, "inet_proto", "inet_service"];
  return [
    { ...PLAIN, name: RANGES.hairpins, key: [address, address] },
    { ...PLAIN, name: RANGES.firewallIPs, key, value: "verdict", interval: true },
    { ...PLAIN, name: RANGES.refusals, key: ["classid"], value: "verdict" },
    { ...PLAIN, name: RANGES.explicitPorts, key },
    { ...PLAIN, name: RANGES.lists, key, value: ["classid"], interval: true, counter: counters !== "off" },
    { ...PLAIN, name: RANGES.balancers, key: ["classid"], value: "verdict" },
    {
      ...PLAIN,
      name: RANGES.endpoints,
      key: ["classid", "integer"],
      value: [address],
      counter: counters === "endpoints",
    },
  ];
}

/** Whether a set is one of source ranges. */
export function isOfSourceRanges(set: string): boolean {
  return set.startsWith("source-ranges-");
}

/** The declaration of a set of source ranges. */
export function sourceRangesSpec(
  name: Extract<SetName, `source-ranges-${string}`>,
  { family }: Pick<FamilyContext, "family">,
): NamedSetSpec {
  return { ...PLAIN, name, key: [family === "ip" ? "ipv4_addr" : "ipv6_addr"], interval: true };
}

/** Twice as large as the daemon's share, so that one that is full of what an earlier daemon left refuses nothing. */
function vanishedSpec(address: DataType): NamedSetSpec {
  return {
    ...PLAIN,
    name: VANISHED,
    key: [address, "inet_service"],
    size: 2 * MOST_VANISHED,
    timeout: VANISHED_SECONDS + VANISHED_MARGIN,
  };
}
