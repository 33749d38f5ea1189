import type { StubObject } from "../support/stub-api/selectors.ts";

/** The size of a made-up cluster: the number of Services with one port, and of endpoints of each. */
export interface ClusterSize {
  readonly services: number;
  readonly endpoints: number;
  /** Whether Services have a load balancer's address and a NodePort in addition to the cluster IP. */
  readonly loadBalancers?: boolean;
  /** The number of nodes, including ours. Pods are on them in turn. Default: as many as the pods need. */
  readonly nodes?: number;
  /** Default: TCP. */
  readonly protocol?: "TCP" | "UDP";
}

/** The node that the benchmarks run on. */
export const NODE_NAME = "node-1";
/** The CIDR of the made-up pods. */
export const CLUSTER_CIDR = "10.128.0.0/9";
/** The port of every Service. */
export const SERVICE_PORT = 80;
/** The port of the pods behind every Service. */
export const POD_PORT = 8080;

/** Endpoints in one slice, as the EndpointSlice controller fills slices. */
const SLICE_SIZE = 100;
const PODS_PER_NODE = 100;
const NAMESPACES = 50;
const ZONES = ["zone-a", "zone-b", "zone-c"];
const CREATED = "2026-11-20T09:22:43Z";

/** Returns the title of a size: `10,000 x 10`, `10,000 x 10 with load balancers`. */
export function sizeText({ services, endpoints, loadBalancers }: ClusterSize): string {
  return `${services.toLocaleString("en")} x ${endpoints}${loadBalancers ? " with load balancers" : ""}`;
}

/** Returns the cluster IP of the Service with this number. */
export function clusterIP(service: number): string {
  return `10.${96 + (service >> 16)}.${(service >> 8) & 255}.${service & 255}`;
}

/** Returns the load balancer's address of the Service with this number. */
function loadBalancerIP(service: number): string {
  return `198.${18 + (service >> 16)}.${(service >> 8) & 255}.${service & 255}`;
}

/** The first NodePort. It is far below the usual range, which has room for only 2,768 Services. */
const FIRST_NODE_PORT = 20_000;

/** Returns the address of the n-th pod of the cluster. */
export function podIP(pod: number): string {
  return `10.${128 + (pod >> 16)}.${(pod >> 8) & 255}.${pod & 255}`;
}

/** Returns the address of a pod that is added later. No pod of any cache has it. */
export function laterPodIP(pod: number): string {
  return podIP(0x60_0000 + pod);
}

/** Returns the number of nodes of a cluster. Its pods are on them in turn. */
function nodeCount({ services, endpoints, nodes }: ClusterSize): number {
  return nodes ?? Math.max(3, Math.ceil((services * endpoints) / PODS_PER_NODE));
}

/** Returns the numbers of the pods on our node. */
export function localPods(size: ClusterSize): number[] {
  const pods = Array.from({ length: size.services * size.endpoints }, (_, pod) => pod);
  return pods.filter((pod) => `node-${pod % nodeCount(size)}` === NODE_NAME);
}

/** Returns the name and namespace of the Service with this number. */
export function nameOf(service: number): { readonly namespace: string; readonly name: string } {
  return { namespace: `team-${service % NAMESPACES}`, name: `service-${service}` };
}

function managerEntry(manager: string, apiVersion: string, fieldsV1: object, subresource?: string): object {
  const entry = { manager, operation: "Update", apiVersion, time: CREATED, fieldsType: "FieldsV1", fieldsV1 };
  return subresource === undefined ? entry : { ...entry, subresource };
}

/** `managedFields` of a Service that a chart installed and a load balancer controller annotated. */
const SERVICE_MANAGERS: readonly object[] = [
  managerEntry("helm", "v1", {
    "f:metadata": {
      "f:annotations": { ".": {}, "f:meta.helm.sh/release-name": {}, "f:meta.helm.sh/release-namespace": {} },
      "f:labels": { ".": {}, "f:app": {}, "f:app.kubernetes.io/managed-by": {}, "f:helm.sh/chart": {} },
    },
    "f:spec": {
      "f:internalTrafficPolicy": {},
      "f:ports": {
        ".": {},
        'k:{"port":80,"protocol":"TCP"}': {
          ".": {},
          "f:name": {},
          "f:port": {},
          "f:protocol": {},
          "f:targetPort": {},
        },
      },
      "f:selector": {},
      "f:sessionAffinity": {},
      "f:type": {},
    },
  }),
  managerEntry(
    "cloud-controller-manager",
    "v1",
    {
      "f:metadata": { "f:annotations": { "f:prometheus.io/port": {}, "f:prometheus.io/scrape": {} } },
      "f:status": { "f:loadBalancer": {}, "f:conditions": {} },
    },
    "status",
  ),
];

/** Returns a Service as an API server sends it, with all the fields that a proxy ignores. */
export function serviceObject(
  service: number,
  { protocol = "TCP", loadBalancers = false }: Pick<ClusterSize, "protocol" | "loadBalancers">,
): StubObject {
  const { namespace, name } = nameOf(service);
  const ip = clusterIP(service);
  const port = { name: "http", protocol, port: SERVICE_PORT, targetPort: "http" };
  return {
    metadata: {
      name,
      namespace,
      uid: uidOf(1, service),
      resourceVersion: String(1000 + service),
      creationTimestamp: CREATED,
      labels: { app: name, "app.kubernetes.io/managed-by": "Helm", "helm.sh/chart": "web-1.2.3" },
      annotations: {
        "meta.helm.sh/release-name": name,
        "meta.helm.sh/release-namespace": namespace,
        "prometheus.io/scrape": "true",
        "prometheus.io/port": "9102",
      },
      managedFields: SERVICE_MANAGERS,
    },
    spec: {
      ports: [loadBalancers ? { ...port, nodePort: FIRST_NODE_PORT + service } : port],
      selector: { app: name },
      clusterIP: ip,
      clusterIPs: [ip],
      type: loadBalancers ? "LoadBalancer" : "ClusterIP",
      sessionAffinity: "None",
      ipFamilies: ["IPv4"],
      ipFamilyPolicy: "SingleStack",
      internalTrafficPolicy: "Cluster",
    },
    status: { loadBalancer: loadBalancers ? { ingress: [{ ip: loadBalancerIP(service) }] } : {} },
  } as StubObject;
}

/** Returns the slices of a Service, as many as its endpoints need. */
export function sliceObjects(service: number, size: ClusterSize): StubObject[] {
  const { endpoints, protocol } = size;
  const nodes = nodeCount(size);
  const pods = Array.from({ length: endpoints }, (_, index) => service * endpoints + index);
  return Array.from({ length: Math.ceil(endpoints / SLICE_SIZE) }, (_, index) => {
    const part = pods.slice(index * SLICE_SIZE, (index + 1) * SLICE_SIZE);
    return sliceObject(
      service,
      index,
      part.map((pod) => endpointObject(service, podIP(pod), pod, nodes)),
      protocol,
    );
  });
}

/** Returns one slice of a Service with these endpoints. */
export function sliceObject(
  service: number,
  index: number,
  endpoints: readonly object[],
  protocol: "TCP" | "UDP" = "TCP",
): StubObject {
  const { namespace, name } = nameOf(service);
  return {
    metadata: {
      name: `${name}-${index.toString(36).padStart(5, "0")}`,
      generateName: `${name}-`,
      namespace,
      uid: uidOf(2 + index, service),
      resourceVersion: String(1000 + service),
      generation: 1,
      creationTimestamp: CREATED,
      labels: {
        app: name,
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        "kubernetes.io/service-name": name,
        "topology.example/zone-aware": "true",
      },
      annotations: {
        "endpoints.kubernetes.io/last-change-trigger-time": CREATED,
        "topology.example/revision": String(1000 + service),
      },
      ownerReferences: [
        {
          apiVersion: "v1",
          kind: "Service",
          name,
          uid: uidOf(1, service),
          controller: true,
          blockOwnerDeletion: true,
        },
      ],
      managedFields: [
        managerEntry("kube-controller-manager", "discovery.k8s.io/v1", {
          "f:addressType": {},
          "f:endpoints": {},
          "f:metadata": {
            "f:annotations": { ".": {}, "f:endpoints.kubernetes.io/last-change-trigger-time": {} },
            "f:generateName": {},
            "f:labels": {
              ".": {},
              "f:app": {},
              "f:endpointslice.kubernetes.io/managed-by": {},
              "f:kubernetes.io/service-name": {},
            },
            "f:ownerReferences": { ".": {}, [`k:{"uid":"${uidOf(1, service)}"}`]: {} },
          },
          "f:ports": {},
        }),
        managerEntry("topology-controller", "discovery.k8s.io/v1", {
          "f:metadata": {
            "f:annotations": { "f:topology.example/revision": {} },
            "f:labels": { "f:topology.example/zone-aware": {} },
          },
        }),
      ],
    },
    addressType: "IPv4",
    endpoints,
    ports: [{ name: "http", protocol, port: POD_PORT }],
  } as StubObject;
}

/** Returns a ready endpoint of a slice. */
export function endpointObject(service: number, address: string, pod: number, nodes: number): object {
  const { namespace, name } = nameOf(service);
  const node = pod % nodes;
  return {
    addresses: [address],
    conditions: { ready: true, serving: true, terminating: false },
    nodeName: `node-${node}`,
    targetRef: { kind: "Pod", namespace, name: `${name}-${pod}`, uid: uidOf(0xf, pod) },
    zone: ZONES[node % ZONES.length],
  };
}

/** Our Node. */
export function nodeObject(): StubObject {
  return {
    metadata: {
      name: NODE_NAME,
      uid: uidOf(0xe, 1),
      resourceVersion: "1",
      labels: { "topology.kubernetes.io/zone": "zone-a" },
    },
    spec: { podCIDR: "10.128.1.0/24", podCIDRs: ["10.128.1.0/24"] },
    status: {
      addresses: [
        { type: "InternalIP", address: "192.0.2.2" },
        { type: "Hostname", address: NODE_NAME },
      ],
    },
  } as StubObject;
}

/** The ServiceCIDR that contains all cluster IPs. */
export function serviceCIDRObject(): StubObject {
  return {
    metadata: { name: "kubernetes", uid: uidOf(0xd, 1), resourceVersion: "1" },
    spec: { cidrs: ["10.96.0.0/12"] },
  } as StubObject;
}

function uidOf(kind: number, number: number): string {
  return `${kind.toString(16).padStart(8, "0")}-0000-4000-8000-${number.toString(16).padStart(12, "0")}`;
}
