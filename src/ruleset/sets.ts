import type { DataType, SetSpec } from "../nft/ast/ruleset.ts";
import type { FamilyContext } from "./node-context.ts";

/** Names of the sets and maps that are not doubled for NodePorts. */
export const CLUSTER_IPS = "cluster-ips";
export const NODEPORT_IPS = "nodeport-ips";
export const HAIRPIN_CONNECTIONS = "hairpin-connections";
export const FIREWALL_IPS = "firewall-ips";

/** The two ways in: by an address of the Service's own, or by a port of the node. */
export type FrontendKind = "service" | "nodeport";

/** Names of the maps that both ways in have, each its own. */
export interface FrontendMaps {
  /** Frontend to balancing. */
  readonly services: string;
  /** Frontend to the treatment of traffic from outside: masqueraded, or kept and short-cut. */
  readonly external: string;
  /** Frontend to the balancing of short-cut traffic. */
  readonly shortcut: string;
  /** Frontend to reject or drop. */
  readonly noEndpoints: string;
  /** Frontend and number to endpoint. */
  readonly endpoints: string;
  /** Frontend and index to endpoint id. */
  readonly affinityIds: string;
  /** Client and frontend to endpoint id; filled by packets. */
  readonly affinity: string;
}

/** The map names of each way in. */
export const FRONTEND_MAPS: Readonly<Record<FrontendKind, FrontendMaps>> = {
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
};

/** The declarations of all sets and maps of one family: the same however many Services there are. */
export function setSpecs({ family, affinityMapSize, counters }: FamilyContext): SetSpec[] {
  const address: DataType = family === "ip" ? "ipv4_addr" : "ipv6_addr";
  const nodePortKey: DataType[] = ["inet_proto", "inet_service"];
  const serviceKey: DataType[] = [address, ...nodePortKey];
  const plain = { dynamic: false, counter: false };
  const ofFrontend = (maps: FrontendMaps, key: DataType[]): SetSpec[] => [
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
    ...ofFrontend(FRONTEND_MAPS.service, serviceKey),
    ...ofFrontend(FRONTEND_MAPS.nodeport, nodePortKey),
  ];
}
