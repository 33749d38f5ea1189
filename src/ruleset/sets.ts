import type { DataType, SetSpec } from "../nft/ast/ruleset.ts";
import { BALANCING, EXTERNAL, EXTERNAL_LOCAL, SOURCE_RANGES_CHECK } from "./chain-names.ts";
import { type FamilyContext, isInTable } from "./node-context.ts";

/**
 * The sets and maps of a table. A frontend is an address, protocol and port (see keys.ts). A list id is a
 * number that represents the endpoints of a service port (see list-ids.ts).
 */
/** Frontend to list id. */
export const LISTS = "lists";
/** List id to the chain that balances over the list. */
export const BALANCERS = "balancers";
/** List id and number to endpoint; with session affinity, endpoint id and 0 or 1 to endpoint. */
export const ENDPOINTS = "endpoints";
/** With session affinity: list id and number to endpoint id. */
export const AFFINITY_IDS = "affinity-ids";
/** With session affinity: list id to the chain that draws one of its numbers. */
export const AFFINITY_CHOOSERS = "affinity-choosers";
/** With session affinity: the id of clients' entries to the chain that remembers clients for a time. */
export const AFFINITY_TIMEOUTS = "affinity-timeouts";
/** Service port id and client to endpoint id; filled by packets. */
export const AFFINITY = "affinity-clients";
/** Frontend to reject or drop. */
export const NO_ENDPOINTS = "no-endpoint-services";
/** Frontend to the number of the list of source ranges that restricts it. */
export const SOURCE_RANGE_LISTS = "source-range-lists";
/** Prefixes of sources that a list allows: address, number of the list and length. */
export const SOURCE_RANGES = "source-ranges";
/** The protocols that have ports: constant. */
export const PORT_PROTOCOLS = "port-protocols";
/** Every cluster IP. */
export const CLUSTER_IPS = "cluster-ips";
/** The node's addresses that serve NodePorts. */
export const NODEPORT_IPS = "nodeport-ips";
/** Connections of an endpoint to itself: its address twice, protocol and port. */
export const HAIRPIN_CONNECTIONS = "hairpin-connections";
/** Client and frontend of each connection that was refused or dropped; filled by packets. */
export const REFUSED = "refused";
/** TCP endpoints (address and port) that recently left every EndpointSlice, or terminate for too long. */
export const VANISHED = "vanished";

/** Maximum number of endpoints in {@link VANISHED} for each family; the daemon chooses them. */
export const MOST_VANISHED = 4096;

/** Time that an endpoint stays in {@link VANISHED}. Seconds. */
export const VANISHED_SECONDS = 900;

/** Extra time before the kernel deletes an endpoint, in case the daemon exited before doing so. Seconds. */
export const VANISHED_MARGIN = 60;

/** The name of one of our sets or maps. */
export type SetName =
  | typeof LISTS
  | typeof BALANCERS
  | typeof ENDPOINTS
  | typeof AFFINITY_IDS
  | typeof AFFINITY_CHOOSERS
  | typeof AFFINITY_TIMEOUTS
  | typeof AFFINITY
  | typeof NO_ENDPOINTS
  | typeof SOURCE_RANGE_LISTS
  | typeof SOURCE_RANGES
  | typeof PORT_PROTOCOLS
  | typeof CLUSTER_IPS
  | typeof NODEPORT_IPS
  | typeof HAIRPIN_CONNECTIONS
  | (typeof RANGES)[Exclude<keyof typeof RANGES, "kind" | "keepsPort" | "chains">]
  | typeof REFUSED
  | typeof VANISHED;

/** The sets and chains for ports. Their maps are hash maps and are looked up first. */
export const PORTS = {
  kind: "port",
  keepsPort: false,
  lists: LISTS,
  balancers: BALANCERS,
  endpoints: ENDPOINTS,
  sourceRangeLists: SOURCE_RANGE_LISTS,
  refusals: NO_ENDPOINTS,
  hairpins: HAIRPIN_CONNECTIONS,
  chains: {
    balancing: BALANCING,
    external: EXTERNAL,
    externalLocal: EXTERNAL_LOCAL,
    sourceRangesCheck: SOURCE_RANGES_CHECK,
    sourceRangesAllowed: "source-ranges-allowed",
  },
} as const;

/** The same for port ranges: interval maps, which a table has only while a Service has ranges. */
export const RANGES = {
  kind: "range",
  /** Balancers translate only the address: a connection keeps its port, so endpoints have none. */
  keepsPort: true,
  lists: "range-lists",
  balancers: "range-balancers",
  endpoints: "range-endpoints",
  sourceRangeLists: "range-source-range-lists",
  /** Keyed by list id, so that a change of readiness changes one element, however many ranges there are. */
  refusals: "range-empty-lists",
  /** Connections of an endpoint to itself at any port: its address twice. */
  hairpins: "range-hairpins",
  /** The explicit ports at addresses that have ranges. They take precedence over ranges. */
  explicitPorts: "range-explicit-ports",
  chains: {
    balancing: "range-balancing",
    external: "range-external",
    externalLocal: "range-external-local",
    sourceRangesCheck: "range-source-ranges-check",
    sourceRangesAllowed: "range-source-ranges-allowed",
  },
} as const;

/** Whether a frontend is a port or a port range, with the sets and chains of this kind. */
export type FrontendKind = typeof PORTS | typeof RANGES;

/** Both kinds, in the order in which rules look up a frontend. */
export const FRONTEND_KINDS = [PORTS, RANGES] as const;

/** The kind of a frontend, by its key. */
export function kindOf(frontend: string): FrontendKind {
  return frontend.includes("-") ? RANGES : PORTS;
}

const PORT_NAMES: ReadonlyMap<string, string> = new Map(
  namesOf(RANGES).map((name, index) => [name, namesOf(PORTS)[index] ?? name] as const),
);

function namesOf({
  lists,
  balancers,
  endpoints,
  sourceRangeLists,
  refusals,
  hairpins,
  chains,
}: FrontendKind) {
  return [lists, balancers, endpoints, sourceRangeLists, refusals, hairpins, ...Object.values(chains)];
}

/** The equivalent for ports of a set or chain for ranges; every other name is returned unchanged. */
export function portEquivalent(name: string): string {
  return PORT_NAMES.get(name) ?? name;
}

const FRONTEND_SETS: ReadonlySet<string> = new Set([
  ...FRONTEND_KINDS.flatMap(({ lists, sourceRangeLists }) => [lists, sourceRangeLists]),
  NO_ENDPOINTS,
  RANGES.explicitPorts,
]);

/** Whether a set or map is keyed by frontends. */
export function isOfFrontends(set: string): boolean {
  return FRONTEND_SETS.has(set);
}

/** The declaration of one of our sets or maps. */
export interface NamedSetSpec extends SetSpec {
  readonly name: SetName;
}

const PLAIN = { dynamic: false, counter: false } as const;

const NO_PARTS: ReadonlySet<string> = new Set();

/** The sets and maps of one family that do not depend on Services. */
export function setSpecs(context: FamilyContext): SetSpec[] {
  const { family, affinityMapSize, counters, refusalLogSize, resetVanished } = context;
  const address: DataType = family === "ip" ? "ipv4_addr" : "ipv6_addr";
  const frontend: DataType[] = [address, "inet_proto", "inet_service"];
  const listEntry: DataType[] = ["classid", "integer"];
  return [
    { ...PLAIN, name: PORT_PROTOCOLS, key: ["inet_proto"] },
    { ...PLAIN, name: CLUSTER_IPS, key: [address] },
    { ...PLAIN, name: NODEPORT_IPS, key: [address] },
    { ...PLAIN, name: HAIRPIN_CONNECTIONS, key: [address, ...frontend] },
    { ...PLAIN, name: NO_ENDPOINTS, key: frontend, value: "verdict" },
    ...context.features.flatMap((part) => (isInTable(part, NO_PARTS) ? part.specs(context) : [])),
    ...(refusalLogSize === 0
      ? []
      : [
          // The rules have the counters, not the set: before Linux 5.11, elements added by a rule lack the
          // set's counters.
          {
            ...PLAIN,
            name: REFUSED,
            key: [address, ...frontend],
            dynamic: true,
            size: refusalLogSize,
          } as const,
        ]),
    ...(resetVanished ? vanishedSpecs({ family }) : []),
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
    { ...PLAIN, name: AFFINITY_CHOOSERS, key: ["classid"], value: "verdict" },
    { ...PLAIN, name: AFFINITY_TIMEOUTS, key: ["classid"], value: "verdict" },
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

/** The sets and maps of one family that exist while a Service has port ranges. */
export function rangeSpecs({ family, counters }: Pick<FamilyContext, "family" | "counters">): NamedSetSpec[] {
  const address: DataType = family === "ip" ? "ipv4_addr" : "ipv6_addr";
  const key: DataType[] = [address, "inet_proto", "inet_service"];
  return [
    { ...PLAIN, name: RANGES.hairpins, key: [address, address] },
    { ...PLAIN, name: RANGES.sourceRangeLists, key, value: ["classid"], interval: true },
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

/** The sets and maps of one family that exist while a Service has source ranges. */
export function sourceRangesSpecs(context: FamilyContext): SetSpec[] {
  const { family, features } = context;
  const address: DataType = family === "ip" ? "ipv4_addr" : "ipv6_addr";
  const frontend: DataType[] = [address, "inet_proto", "inet_service"];
  return [
    { ...PLAIN, name: SOURCE_RANGES, key: [address, "classid", "integer"] },
    { ...PLAIN, name: SOURCE_RANGE_LISTS, key: frontend, value: ["classid"] },
    ...features.flatMap(({ besideSourceRanges }) => besideSourceRanges?.specs(context) ?? []),
  ];
}

/**
 * The set of one family that always exists with `--reset-vanished`, else while it has elements. It holds
 * twice the daemon's maximum, so that leftovers of an earlier daemon leave room for new endpoints.
 */
export function vanishedSpecs({ family }: Pick<FamilyContext, "family">): NamedSetSpec[] {
  const address: DataType = family === "ip" ? "ipv4_addr" : "ipv6_addr";
  return [
    {
      ...PLAIN,
      name: VANISHED,
      key: [address, "inet_service"],
      size: 2 * MOST_VANISHED,
      timeout: VANISHED_SECONDS + VANISHED_MARGIN,
    },
  ];
}
