import type { DataType, SetSpec } from "../nft/ast/ruleset.ts";
import type { FamilyContext } from "./node-context.ts";

/** Names of the sets and maps that are not doubled for NodePorts. */
export const CLUSTER_IPS = "cluster-ips";
export const NODEPORT_IPS = "nodeport-ips";
export const HAIRPIN_CONNECTIONS = "hairpin-connections";
export const FIREWALL_IPS = "firewall-ips";
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

/** The two ways in: by an address of the Service's own, or by a port of the node. */
export type FrontendKind = "service" | "nodeport";

/**
 * The purposes of the maps of frontends:
 * - `services`: frontend to balancing
 * - `external`: frontend to the treatment of traffic from outside: masqueraded, or kept and short-cut
 * - `shortcut`: frontend to the balancing of short-cut traffic
 * - `noEndpoints`: frontend to reject or drop
 * - `endpoints`: frontend and number to endpoint
 * - `affinityIds`: frontend and index to endpoint id
 * - `affinity`: client and frontend to endpoint id; filled by packets
 */
export type FrontendMapRole =
  | "services"
  | "external"
  | "shortcut"
  | "noEndpoints"
  | "endpoints"
  | "affinityIds"
  | "affinity";

/** The names of the maps that both ways in have, each its own. */
export const FRONTEND_MAPS = {
  service: {
    services: "service-ips",
    external: "external-ips",
    shortcut: "shortcut-ips",
    noEndpoints: "no-endpoint-services",
    endpoints: "endpoints",
    affinityIds: "affinity-ids",
    affinity: "affinity",
  },
  nodeport: {
    services: "service-nodeports",
    external: "external-nodeports",
    shortcut: "shortcut-nodeports",
    noEndpoints: "no-endpoint-nodeports",
    endpoints: "nodeport-endpoints",
    affinityIds: "nodeport-affinity-ids",
    affinity: "nodeport-affinity",
  },
} as const satisfies Record<FrontendKind, Record<FrontendMapRole, string>>;

type FrontendMaps = (typeof FRONTEND_MAPS)[FrontendKind];

/** The name of a map of frontends. */
export type FrontendMapName = FrontendMaps[FrontendMapRole];

/** The name of a set or map of ours. */
export type SetName =
  | typeof CLUSTER_IPS
  | typeof NODEPORT_IPS
  | typeof HAIRPIN_CONNECTIONS
  | typeof FIREWALL_IPS
  | typeof REFUSED
  | typeof VANISHED
  | FrontendMapName;

/** A map of frontends, as told from its name. */
export interface FrontendMap {
  readonly kind: FrontendKind;
  readonly role: FrontendMapRole;
}

const MAPS_BY_NAME: ReadonlyMap<string, FrontendMap> = new Map(
  (["service", "nodeport"] as const).flatMap((kind) =>
    Object.entries(FRONTEND_MAPS[kind]).map(([role, name]) => [name, { kind, role: role as FrontendMapRole }] as const),
  ),
);

/** Reads the name of a set or map; undefined for what is no map of frontends. */
export function frontendMapOf(set: string): FrontendMap | undefined {
  return MAPS_BY_NAME.get(set);
}

/** The frontend in an element's key, where its map is one of frontends: without the number that may follow it. */
export function frontendOfElement(set: string, key: string): string {
  const role = frontendMapOf(set)?.role;
  return role === "endpoints" || role === "affinityIds" ? key.slice(0, key.lastIndexOf(" . ")) : key;
}

/** The declaration of a set or map of ours. */
interface NamedSetSpec extends SetSpec {
  readonly name: SetName;
}

/** The declarations of all sets and maps of one family: the same however many Services there are. */
export function setSpecs({
  family,
  affinityMapSize,
  counters,
  refusalLogSize,
  resetVanished,
}: FamilyContext): NamedSetSpec[] {
  const address: DataType = family === "ip" ? "ipv4_addr" : "ipv6_addr";
  const nodePortKey: DataType[] = ["inet_proto", "inet_service"];
  const serviceKey: DataType[] = [address, ...nodePortKey];
  const plain = { dynamic: false, counter: false };
  const ofFrontend = (maps: FrontendMaps, key: DataType[]): NamedSetSpec[] => [
    { ...plain, name: maps.services, key, value: "verdict", counter: counters !== "off" },
    { ...plain, name: maps.external, key, value: "verdict" },
    { ...plain, name: maps.shortcut, key, value: "verdict" },
    { ...plain, name: maps.noEndpoints, key, value: "verdict" },
    {
      ...plain,
      name: maps.endpoints,
      key: [...key, "classid"],
      value: [address, "inet_service"],
      counter: counters === "endpoints",
    },
    { ...plain, name: maps.affinityIds, key: [...key, "classid"], value: ["classid"] },
    { ...plain, name: maps.affinity, key: [address, ...key], value: ["classid"], dynamic: true, size: affinityMapSize },
  ];
  return [
    { ...plain, name: CLUSTER_IPS, key: [address] },
    { ...plain, name: NODEPORT_IPS, key: [address] },
    { ...plain, name: HAIRPIN_CONNECTIONS, key: [address, address, ...nodePortKey] },
    { ...plain, name: FIREWALL_IPS, key: serviceKey, value: "verdict" },
    ...(refusalLogSize === 0
      ? []
      : [
          // Its counters are its rules': Linux before 5.11 gives elements that a rule adds none of the set's.
          { ...plain, name: REFUSED, key: [address, ...serviceKey], dynamic: true, size: refusalLogSize } as const,
        ]),
    ...(resetVanished ? [vanishedSpec(address)] : []),
    ...ofFrontend(FRONTEND_MAPS.service, serviceKey),
    ...ofFrontend(FRONTEND_MAPS.nodeport, nodePortKey),
  ];
}

/** Twice as large as the daemon's share, so that one that is full of what an earlier daemon left refuses nothing. */
function vanishedSpec(address: DataType): NamedSetSpec {
  return {
    name: VANISHED,
    key: [address, "inet_service"],
    dynamic: false,
    counter: false,
    size: 2 * MOST_VANISHED,
    timeout: VANISHED_SECONDS + VANISHED_MARGIN,
  };
}
