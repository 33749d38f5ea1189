import type { StubObject } from "./stub-api/selectors.ts";

/** A port of {@link apiService}. */
export interface ApiPort {
  readonly port: number;
  readonly protocol?: "TCP" | "UDP";
  readonly nodePort?: number;
  /** The endpoints' port in the slices of {@link apiSlice}. Default: 8080. */
  readonly targetPort?: number;
}

/** The differences of a Service from the default one. */
export interface ApiServiceOptions {
  readonly clusterIP: string;
  readonly ports?: readonly ApiPort[];
  /** Further fields of `spec`. */
  readonly spec?: Readonly<Record<string, unknown>>;
}

/** Returns a Service in the namespace `shop`, as an API server sends it. */
export function apiService(
  name: string,
  { clusterIP, ports = [{ port: 80 }], spec = {} }: ApiServiceOptions,
): StubObject {
  return {
    metadata: { namespace: "shop", name, creationTimestamp: "2026-11-20T09:00:00Z" },
    spec: {
      type: ports.some(({ nodePort }) => nodePort !== undefined) ? "NodePort" : "ClusterIP",
      clusterIP,
      clusterIPs: [clusterIP],
      ipFamilies: [clusterIP.includes(":") ? "IPv6" : "IPv4"],
      ports: ports.map((port) => ({ protocol: "TCP", name: nameOf(port), ...port })),
      ...spec,
    },
    status: { loadBalancer: {} },
  };
}

/**
 * Returns the slice of a Service of {@link apiService}, with all its ports and ready endpoints. They are on
 * node-1 if they are pods of that node.
 */
export function apiSlice(
  service: string,
  addresses: readonly string[],
  ports: readonly ApiPort[] = [{ port: 80 }],
): StubObject {
  return {
    metadata: {
      namespace: "shop",
      name: `${service}-1`,
      labels: { "kubernetes.io/service-name": service },
      annotations: { "endpoints.kubernetes.io/last-change-trigger-time": "2026-11-20T09:00:00Z" },
    },
    addressType: addresses[0]?.includes(":") ? "IPv6" : "IPv4",
    endpoints: addresses.map((address) => ({
      addresses: [address],
      conditions: { ready: true, serving: true, terminating: false },
      nodeName: address.startsWith("10.244.1.") ? "node-1" : "node-2",
    })),
    ports: ports.map((port) => ({
      name: nameOf(port),
      protocol: port.protocol ?? "TCP",
      port: port.targetPort ?? 8080,
    })),
  };
}

/**
 * Returns the text of a file with these Services and EndpointSlices, as `kubectl get -o json` prints a list.
 */
export function apiListText(services: readonly StubObject[], slices: readonly StubObject[]): string {
  const items = [
    ...services.map((object) => ({ apiVersion: "v1", kind: "Service", ...object })),
    ...slices.map((object) => ({ apiVersion: "discovery.k8s.io/v1", kind: "EndpointSlice", ...object })),
  ];
  return JSON.stringify({ apiVersion: "v1", kind: "List", items });
}

function nameOf({ port, protocol = "TCP" }: ApiPort): string {
  return `${protocol.toLowerCase()}-${port}`;
}
