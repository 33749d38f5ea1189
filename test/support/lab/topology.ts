/** The pods of the node in the box. */
export const podNames = ["pod1", "pod2", "pod3", "pod4", "pod5", "pod6"] as const;
/** The name of a pod. */
export type PodName = (typeof podNames)[number];

/**
 * The machines with an address on the local network: the node under test, another node, an outside client.
 */
export const hostNames = ["node", "node2", "ext"] as const;
/** The name of such a machine. */
export type HostName = (typeof hostNames)[number];

/** The namespaces that have addresses, and so can make and accept connections. */
export type MachineName = HostName | PodName;
/** All such namespaces. */
export const machineNames: readonly MachineName[] = [...hostNames, ...podNames];

/** A network namespace of the lab; `lan` holds the bridge between the hosts. */
export type NamespaceName = "lan" | MachineName;

/** The source of a probe: a machine, or `ext2`, the outside client's second address. */
export type ProbeSource = MachineName | "ext2";

/** One IPv4 and one IPv6 address, in the form of inet_ntop(3). */
export interface AddressPair {
  readonly v4: string;
  readonly v6: string;
}

const hostAddresses = {
  node: { v4: "192.0.2.2", v6: "fd00:c0::2" },
  node2: { v4: "192.0.2.3", v6: "fd00:c0::3" },
  ext: { v4: "192.0.2.1", v6: "fd00:c0::1" },
  ext2: { v4: "192.0.2.200", v6: "fd00:c0::200" },
} as const satisfies Record<HostName | "ext2", AddressPair>;

/**
 * Returns the addresses of a probe from `source`. Pods have those from `10.244.1.11` and `fd00:244:1::11` on.
 */
export function addressesOf(source: ProbeSource): AddressPair {
  if (!isPod(source)) return hostAddresses[source];
  const suffix = 10 + Number(source.slice("pod".length));
  return { v4: `10.244.1.${suffix}`, v6: `fd00:244:1::${suffix}` };
}

function isPod(name: ProbeSource): name is PodName {
  return name.startsWith("pod");
}

/** A second IPv4 address of the node that is not its primary one. */
export const nodeSecondAddress = "198.51.100.2";

/** The pods' gateway, which is an address of the node's end of each pod's link. */
export const podGateway: AddressPair = { v4: "169.254.1.1", v6: "fe80::1" };

/** Pods of other nodes, which all answer from inside `node2`. */
export const remotePods: readonly AddressPair[] = [2, 3].flatMap((node) =>
  [11, 12, 13, 14, 15, 16].map((suffix) => ({
    v4: `10.244.${node}.${suffix}`,
    v6: `fd00:244:${node}::${suffix}`,
  })),
);

/** The pod ranges of the other nodes. */
export const remotePodRanges = [
  "10.244.2.0/24",
  "10.244.3.0/24",
  "fd00:244:2::/64",
  "fd00:244:3::/64",
] as const;
/** The pod ranges of the node itself. */
export const ownPodRanges = ["10.244.1.0/24", "fd00:244:1::/64"] as const;

/** Ranges of cluster, external and load-balancer IPs, which the other hosts route to the node. */
export const virtualRanges = [
  "10.96.0.0/12",
  "203.0.113.0/24",
  "198.18.0.0/24",
  "198.51.100.0/24",
  "fd00:10:96::/112",
  "fd00:1b::/64",
] as const;

/** The ports, TCP and UDP, on which every endpoint address answers. */
export const servedPorts = [80, 443, 8080, 8081, 8443, 9153, 53, 5353, 9100, 6379, 7777, 3000] as const;

/** The addresses at which a machine answers UDP, with one socket for each. `ext` answers nothing. */
export function servedAddresses(machine: MachineName): readonly string[] {
  if (machine === "ext") return [];
  const { v4, v6 } = addressesOf(machine);
  const own = ["127.0.0.1", "::1", v4, v6];
  if (machine === "node") return [...own, nodeSecondAddress];
  if (machine === "node2") return [...own, ...remotePods.flatMap((pod) => [pod.v4, pod.v6])];
  return own;
}
