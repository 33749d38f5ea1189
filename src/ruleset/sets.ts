import type { DataType, SetSpec } from "../nft/ast/ruleset.ts";
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
/**
 * The maps of ranges of ports, which are there as long as a Service has ranges: as those above, with a range in the place of
 * the port, and endpoints without ports, for a connection keeps its own. Ids are those of the Service port.
 */
export const RANGE_LISTS = "range-lists";
export const RANGE_BALANCERS = "range-balancers";
export const RANGE_ENDPOINTS = "range-endpoints";
export const RANGE_FIREWALL_IPS = "range-firewall-ips";
/** List id to reject or drop, where the list has no endpoint: a change of readiness costs an element, however many ranges there are. */
export const RANGE_EMPTY_LISTS = "range-empty-lists";
/** The explicit ports at addresses that have ranges: ranges leave them out. */
export const RANGE_EXPLICIT_PORTS = "range-explicit-ports";
/** Connections of an endpoint to itself at any port: its address twice. */
export const RANGE_HAIRPINS = "range-hairpins";
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
  | typeof RANGE_LISTS
  | typeof RANGE_BALANCERS
  | typeof RANGE_ENDPOINTS
  | typeof RANGE_EMPTY_LISTS
  | typeof RANGE_EXPLICIT_PORTS
  | typeof RANGE_FIREWALL_IPS
  | typeof RANGE_HAIRPINS
  | typeof REFUSED
  | typeof VANISHED
  | `source-ranges-${string}`;

/** The maps by which a packet to a port finds its endpoints. */
export const PORT_MAPS = {
  lists: LISTS,
  balancers: BALANCERS,
  endpoints: ENDPOINTS,
  firewallIPs: FIREWALL_IPS,
} as const;

/** The same for a packet to a port of a range. */
export const RANGE_MAPS = {
  lists: RANGE_LISTS,
  balancers: RANGE_BALANCERS,
  endpoints: RANGE_ENDPOINTS,
  firewallIPs: RANGE_FIREWALL_IPS,
} as const;

/** The maps of ports, or those of ranges of ports. */
export type FrontendMaps = typeof PORT_MAPS | typeof RANGE_MAPS;

const PURPOSES: ReadonlyMap<string, SetName> = new Map<string, SetName>([
  [RANGE_LISTS, LISTS],
  [RANGE_BALANCERS, BALANCERS],
  [RANGE_ENDPOINTS, ENDPOINTS],
  [RANGE_EMPTY_LISTS, NO_ENDPOINTS],
  [RANGE_FIREWALL_IPS, FIREWALL_IPS],
  [RANGE_HAIRPINS, HAIRPIN_CONNECTIONS],
]);

/** The set of ports that serves the same purpose as one of ranges of ports; every other set is its own. */
export function portSetOf(set: string): string {
  return PURPOSES.get(set) ?? set;
}

/** The maps that have a frontend, by its key. */
export function mapsOf(frontend: string): FrontendMaps {
  return frontend.includes("-") ? RANGE_MAPS : PORT_MAPS;
}

const FRONTEND_SETS: ReadonlySet<string> = new Set([
  ...[PORT_MAPS, RANGE_MAPS].flatMap(({ lists, firewallIPs }) => [lists, firewallIPs]),
  NO_ENDPOINTS,
  RANGE_EXPLICIT_PORTS,
]);
const LIST_SETS: ReadonlySet<string> = new Set([
  ...[PORT_MAPS, RANGE_MAPS].flatMap(({ balancers, endpoints }) => [balancers, endpoints]),
  AFFINITY_IDS,
  AFFINITY,
  RANGE_EMPTY_LISTS,
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
    { ...PLAIN, name: RANGE_HAIRPINS, key: [address, address] },
    { ...PLAIN, name: RANGE_FIREWALL_IPS, key, value: "verdict", interval: true },
    { ...PLAIN, name: RANGE_EMPTY_LISTS, key: ["classid"], value: "verdict" },
    { ...PLAIN, name: RANGE_EXPLICIT_PORTS, key },
    { ...PLAIN, name: RANGE_LISTS, key, value: ["classid"], interval: true, counter: counters !== "off" },
    { ...PLAIN, name: RANGE_BALANCERS, key: ["classid"], value: "verdict" },
    {
      ...PLAIN,
      name: RANGE_ENDPOINTS,
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
