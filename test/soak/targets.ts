import { FAMILIES, type Family } from "../../src/base/family.ts";
import { type ApiPort, apiService, apiSlice } from "../support/api-objects.ts";
import type { Probe } from "../support/lab/outcome.ts";
import { addressesOf, remotePods } from "../support/lab/topology.ts";
import type { StubCluster } from "../support/stub-api/stub-cluster.ts";

/** A kind of connections that are made all the time. */
export type ConnectionKind = "cluster-ip" | "held" | "udp" | "node-port";

/** A Service to which connections of one kind are made, in one family. */
export interface Target {
  readonly kind: ConnectionKind;
  readonly family: Family;
  /** The name of its Service, in the namespace `shop`. */
  readonly name: string;
  readonly clusterIP: string;
  readonly port: ApiPort;
}

/** The port of long-lived connections. */
export const ECHO_PORT = 7000;

/** The kinds, as the report names them. */
export const CONNECTION_KINDS: Readonly<Record<ConnectionKind, string>> = {
  "cluster-ip": "TCP, short, pod and node to a ClusterIP",
  held: "TCP, long-lived, pod to a ClusterIP",
  udp: "UDP flows of 10 s, pod to a ClusterIP",
  "node-port": "TCP, short, from outside to a NodePort",
};

const PORTS: Readonly<Record<ConnectionKind, ApiPort>> = {
  "cluster-ip": { port: 80 },
  held: { port: ECHO_PORT, targetPort: ECHO_PORT },
  udp: { port: 53, targetPort: 53, protocol: "UDP" },
  "node-port": { port: 80, nodePort: 32_701 },
};

const KINDS = Object.keys(PORTS) as ConnectionKind[];

/** All Services with connections. */
export const TARGETS: readonly Target[] = KINDS.flatMap((kind, index) =>
  FAMILIES.map((family) => ({
    kind,
    family,
    name: `soak-${kind}-${family}`,
    clusterIP: family === "ip" ? `10.96.20.${index + 1}` : `fd00:10:96::f0${index + 1}`,
    port: kind === "node-port" && family === "ip6" ? { port: 80, nodePort: 32_702 } : PORTS[kind],
  })),
);

/** Machines of the lab whose pods answer on the port of long-lived connections. pod2 has the clients. */
export const ECHOING = ["pod1", "pod3", "pod4", "node2"] as const;

const PODS = [...(["pod1", "pod3", "pod4"] as const).map(addressesOf), ...remotePods];

/**
 * Gives a target endpoints, two or more, which all answer at any time: while they come and go, every
 * connection has an answer whether the kernel has the newest ones or not.
 */
export function putEndpoints(cluster: StubCluster, target: Target, random: () => number): void {
  const [first = 0, second = 1] = PODS.map((_, index) => index).sort(() => random() - 0.5);
  const chosen = PODS.filter((_, index) => index === first || index === second || random() < 0.3);
  const addresses = chosen.map(({ v4, v6 }) => (target.family === "ip" ? v4 : v6));
  cluster.put("endpointslices", apiSlice(target.name, addresses, [target.port]));
}

/** Makes the Services of all targets. */
export function putTargets(cluster: StubCluster): void {
  for (const target of TARGETS) {
    cluster.put("services", apiService(target.name, { clusterIP: target.clusterIP, ports: [target.port] }));
    putEndpoints(cluster, target, () => 0.5);
  }
}

/** Where clients connect to. */
export function frontendOf({ kind, family, clusterIP, port }: Target): {
  readonly host: string;
  readonly port: number;
} {
  if (kind !== "node-port") return { host: clusterIP, port: port.port };
  const { v4, v6 } = addressesOf("node");
  return { host: family === "ip" ? v4 : v6, port: port.nodePort ?? 0 };
}

/** One connection as the clients of a target make it. */
export function probeOf(target: Target): Probe {
  const { host, port } = frontendOf(target);
  const from = target.kind === "node-port" ? "ext" : "pod2";
  return {
    id: target.name,
    from,
    to: host,
    port,
    proto: target.kind === "udp" ? "udp" : "tcp",
    n: 1,
    wait: 0.5,
  };
}
