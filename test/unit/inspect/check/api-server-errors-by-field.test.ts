import { describe, expect, test } from "vitest";
import { splitPath } from "../../../../src/base/schema-error.ts";
import { apiServerErrors } from "../../../../src/inspect/check/api-server-errors.ts";
import { ObjectGatherer } from "../../../../src/kube/files/object-gatherer.ts";

const METADATA = { name: "web", namespace: "shop" };

function service(type: string, spec: object, status: object = {}) {
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: METADATA,
    spec: { type, selector: { app: "web" }, ports: [{ name: "http", port: 80 }], ...spec },
    status,
  };
}

function slice(addressType: string, address: string, labels: object) {
  return {
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: { ...METADATA, labels },
    addressType,
    endpoints: [{ addresses: [address], conditions: { ready: true } }],
    ports: [{ name: "http", port: 8080 }],
  };
}

const OF_WEB = { "kubernetes.io/service-name": "web" };
const NODE_PORTS = [{ name: "http", port: 80, nodePort: 30080 }];
const INGRESS = { loadBalancer: { ingress: [{ ip: "192.0.2.1", ipMode: "VIP" }] } };

/** Valid objects of each type: every row below changes one of them in one place. */
const VALID = {
  ClusterIP: service("ClusterIP", { clusterIP: "10.96.0.7", clusterIPs: ["10.96.0.7"] }),
  NodePort: service("NodePort", { clusterIP: "10.96.0.7", ports: NODE_PORTS }),
  LoadBalancer: service("LoadBalancer", { clusterIP: "10.96.0.7", ports: NODE_PORTS }, INGRESS),
  Headless: service("ClusterIP", { clusterIP: "None", clusterIPs: ["None"] }),
  ExternalName: service("ExternalName", { externalName: "shop.example.org" }),
  OtherProxy: {
    ...service("ClusterIP", { clusterIP: "10.96.0.7" }),
    metadata: { ...METADATA, labels: { "service.kubernetes.io/service-proxy-name": "cilium" } },
  },
  IPv4: slice("IPv4", "10.0.0.1", OF_WEB),
  IPv6: slice("IPv6", "fd00::1", OF_WEB),
  FQDN: slice("FQDN", "a.example.org", OF_WEB),
  HeadlessSlice: slice("IPv4", "10.0.0.1", { ...OF_WEB, "service.kubernetes.io/headless": "" }),
  ServiceCIDR: {
    apiVersion: "networking.k8s.io/v1",
    kind: "ServiceCIDR",
    metadata: { name: "extra" },
    spec: { cidrs: ["10.96.0.0/16"] },
  },
};

type Base = keyof typeof VALID;

function changed(object: unknown, [key, ...rest]: readonly string[], value: unknown): unknown {
  if (key === undefined) return value;
  const copy = Array.isArray(object) ? [...object] : { ...(object as object) };
  const inner = (copy as Record<string, unknown>)[key];
  const next = inner ?? (/^\d+$/.test(rest[0] ?? "") ? [] : {});
  (copy as Record<string, unknown>)[key] = changed(rest.length > 0 ? next : inner, rest, value);
  return copy;
}

/** Returns the paths of all errors of an object. */
function errorPaths(value: unknown): string[] {
  const gatherer = new ObjectGatherer({ thorough: true, placeholders: true });
  gatherer.addDocument("object.yaml", { number: 1, value, lineOf: () => undefined });
  const result = gatherer.result();
  const found = [...result.diagnostics, ...apiServerErrors(result)];
  return found.filter(({ severity }) => severity === "error").map(({ path }) => path);
}

const many = <Item>(count: number, item: (index: number) => Item) =>
  Array.from({ length: count }, (_, index) => item(index));

/** A Service or EndpointSlice, the value that is invalid in it, and the path of the error if it differs. */
type Row = readonly [base: Base, path: string, value: unknown, reported?: string];

const METADATA_ROWS: readonly Row[] = [
  ["ClusterIP", "metadata.name", "Web"],
  ["ClusterIP", "metadata.name", "w".repeat(64)],
  ["ClusterIP", "metadata.generateName", "web shop-"],
  ["ClusterIP", "metadata.namespace", "a.b"],
  ["ClusterIP", "metadata.generation", -1],
  ["ClusterIP", "metadata.creationTimestamp", "yesterday"],
  ["ClusterIP", "metadata.deletionGracePeriodSeconds", "30"],
  ["ClusterIP", "metadata.labels.app", "b c"],
  ["ClusterIP", "metadata.labels.app", 5],
  ["ClusterIP", "metadata.labels.app", true],
  ["ClusterIP", "metadata.labels.app", "x".repeat(64)],
  ["ClusterIP", "metadata.labels", ["app"]],
  ["ClusterIP", 'metadata.labels["a b"]', "c"],
  ["ClusterIP", 'metadata.labels["Example.org/app"]', "c"],
  ["ClusterIP", 'metadata.labels["a/b/c"]', "c"],
  ["ClusterIP", `metadata.labels.${"x".repeat(64)}`, "c"],
  ["ClusterIP", "metadata.annotations.team", 5],
  ["ClusterIP", "metadata.annotations.team", true],
  ["ClusterIP", 'metadata.annotations["a b"]', "c"],
  ["ClusterIP", "metadata.annotations.team", "x".repeat(262_144), "metadata.annotations"],
  ["ClusterIP", "metadata.finalizers[0]", "a b"],
  ["ClusterIP", "metadata.finalizers", ["orphan", "foregroundDeletion"]],
  [
    "ClusterIP",
    "metadata.ownerReferences",
    [{ apiVersion: "v1", kind: "Pod", name: "a" }],
    "metadata.ownerReferences[0]",
  ],
  [
    "ClusterIP",
    "metadata.ownerReferences",
    [{ apiVersion: "v1", kind: "", name: "a", uid: "u" }],
    "metadata.ownerReferences[0].kind",
  ],
  [
    "ClusterIP",
    "metadata.ownerReferences",
    many(2, (index) => ({ apiVersion: "v1", kind: "Pod", name: "a", uid: `${index}`, controller: true })),
  ],
  ["ClusterIP", "metadata.managedFields", [{ operation: "Patch" }], "metadata.managedFields[0].operation"],
  ["ClusterIP", "metadata.lables", {}],
  ["IPv4", "metadata.name", "a_b"],
  ["IPv4", "metadata.labels.app", "b c"],
  ["IPv4", "metadata.annotations.team", 5],
  ["ServiceCIDR", "metadata.labels.app", "b c"],
  ["ServiceCIDR", "spec.cidrs", ["10.0.0.0/16", "10.1.0.0/16"]],
  ["ServiceCIDR", "spec.cidrs", ["10.0.0.0/16", "fd00::/112", "fd01::/112"]],
  ["ServiceCIDR", "spec.cidr", "10.0.0.0/16"],
];

const MODES = "service.kubernetes.io/topology-mode";
const HINTS = "service.kubernetes.io/topology-aware-hints";
const RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges";

const SERVICE_ROWS: readonly Row[] = [
  [
    "ClusterIP",
    "metadata.annotations",
    { [MODES]: "Auto", [HINTS]: "Disabled" },
    `metadata.annotations["${MODES}"]`,
  ],
  ["ClusterIP", `metadata.annotations["${RANGES}"]`, "10.0.0.0/8"],
  ["LoadBalancer", `metadata.annotations["${RANGES}"]`, "10.0.0.0/8, bogus"],
  ["ClusterIP", "spec.type", "Cluster"],
  ["ClusterIP", "spec.types", "ClusterIP"],
  ["ClusterIP", "spec.ports", []],
  ["OtherProxy", "spec.ports", []],
  ["ClusterIP", "spec.ports[0].name", "HTTP"],
  ["ClusterIP", "spec.ports[1]", { port: 81 }, "spec.ports[1].name"],
  ["ClusterIP", "spec.ports[1]", { name: "http", port: 81 }, "spec.ports[1].name"],
  ["ClusterIP", "spec.ports[1]", { name: "b", port: 80 }, "spec.ports[1].port"],
  ["Headless", "spec.ports[1]", { name: "http", port: 81 }, "spec.ports[1].name"],
  ["Headless", "spec.ports[1]", { name: "b", port: 80 }, "spec.ports[1].port"],
  ["NodePort", "spec.ports[1]", { name: "b", port: 81, nodePort: 30080 }, "spec.ports[1].nodePort"],
  ["ClusterIP", "spec.ports[0].port", 0],
  ["ClusterIP", "spec.ports[0].port", 65_536],
  ["ClusterIP", "spec.ports[0].port", "80"],
  ["ClusterIP", "spec.ports[0].protocol", "HTTP"],
  ["ClusterIP", "spec.ports[0].targetPort", 65_536],
  ["ClusterIP", "spec.ports[0].targetPort", -1],
  ["ClusterIP", "spec.ports[0].targetPort", "8080"],
  ["ClusterIP", "spec.ports[0].targetPort", "a--b"],
  ["ClusterIP", "spec.ports[0].targetPort", "a-name-of-port-80"],
  ["ClusterIP", "spec.ports[0].appProtocol", "http 2"],
  ["ClusterIP", "spec.ports[0].appProtocol", ""],
  ["ClusterIP", "spec.ports[0].nodePort", 30_080],
  ["NodePort", "spec.ports[0].nodePort", 80],
  ["NodePort", "spec.ports[0].nodePort", -1],
  ["ClusterIP", "spec.selector.app", 5],
  ["ClusterIP", "spec.selector.app", true],
  ["ClusterIP", "spec.selector.app", "b c"],
  ["ClusterIP", 'spec.selector["a b"]', "c"],
  ["ClusterIP", "spec.selector", "app=web"],
  ["ClusterIP", "spec.sessionAffinity", "Client"],
  ["ClusterIP", "spec.sessionAffinityConfig", { clientIP: { timeoutSeconds: 5 } }],
  ["ClusterIP", "spec.clusterIP", "10.96.0.8"],
  ["ClusterIP", "spec.clusterIP", "10.96.0.300", "spec.clusterIP"],
  ["ClusterIP", "spec.clusterIP", undefined, "spec.clusterIPs"],
  ["ClusterIP", "spec.clusterIPs[1]", "10.96.0.8"],
  ["ClusterIP", "spec.clusterIPs", ["10.96.0.7", "fd00::1"], "spec.ipFamilyPolicy"],
  ["Headless", "spec.clusterIPs", ["None", "10.96.0.7"]],
  ["ClusterIP", "spec.ipFamilies", ["IPv4", "IPv4"], "spec.ipFamilies[1]"],
  ["ClusterIP", "spec.ipFamilies", ["IPv4", "IPv6"], "spec.ipFamilyPolicy"],
  ["ClusterIP", "spec.ipFamilies", ["IPv6"], "spec.clusterIPs[0]"],
  ["ClusterIP", "spec.ipFamilies[0]", "ipv4"],
  ["ClusterIP", "spec.ipFamilyPolicy", "DualStack"],
  ["ClusterIP", "spec.ipFamilyPolicy", ""],
  ["ClusterIP", "spec.ipFamilyPolicy", 2],
  ["ClusterIP", "spec.externalIPs[0]", "bogus"],
  ["ClusterIP", "spec.externalIPs[0]", "127.0.0.1"],
  ["Headless", "spec.externalIPs[0]", "bogus"],
  ["ClusterIP", "spec.externalTrafficPolicy", "Local"],
  ["ExternalName", "spec.externalTrafficPolicy", "Local"],
  ["NodePort", "spec.externalTrafficPolicy", "local"],
  ["NodePort", "spec.healthCheckNodePort", 30_001],
  ["LoadBalancer", "spec.healthCheckNodePort", 30_001],
  ["ClusterIP", "spec.internalTrafficPolicy", "local"],
  ["ClusterIP", "spec.internalTrafficPolicy", ""],
  ["ClusterIP", "spec.trafficDistribution", "Nearest"],
  ["ClusterIP", "spec.trafficDistribution", "preferClose"],
  ["ClusterIP", "spec.trafficDistribution", ""],
  ["ClusterIP", "spec.publishNotReadyAddresses", "true"],
  ["NodePort", "spec.loadBalancerClass", "example.org/lb"],
  ["LoadBalancer", "spec.loadBalancerClass", "my lb"],
  ["LoadBalancer", "spec.loadBalancerClass", ""],
  ["ClusterIP", "spec.allocateLoadBalancerNodePorts", false],
  ["LoadBalancer", "spec.allocateLoadBalancerNodePorts", "no"],
  ["ClusterIP", "spec.loadBalancerSourceRanges", ["10.0.0.0/8"]],
  ["LoadBalancer", "spec.loadBalancerIP", 5],
  ["NodePort", "spec.clusterIP", "None"],
  ["LoadBalancer", "spec.clusterIP", "None"],
  ["ExternalName", "spec.externalName", ""],
  ["ExternalName", "spec.externalName", "shop_example.org"],
  ["ExternalName", "spec.externalName", 5],
  ["ExternalName", "spec.clusterIP", "10.96.0.7"],
  ["ExternalName", "spec.clusterIPs", ["10.96.0.7"]],
  ["ExternalName", "spec.ipFamilies", ["IPv4"]],
  ["ExternalName", "spec.ipFamilyPolicy", "SingleStack"],
  ["LoadBalancer", "status.loadBalancer.ingress[0].ipMode", "vip"],
  [
    "LoadBalancer",
    "status.loadBalancer.ingress[1]",
    { ipMode: "VIP" },
    "status.loadBalancer.ingress[1].ipMode",
  ],
  ["LoadBalancer", "status.loadBalancer.ingress[0].ip", "bogus"],
  ["LoadBalancer", "status.loadBalancer.ingress[0].hostname", "a_b"],
  ["LoadBalancer", "status.loadBalancer.ingress[0].hostname", "192.0.2.1"],
  [
    "LoadBalancer",
    "status.loadBalancer.ingress[0].ports",
    [{ port: "80" }],
    "status.loadBalancer.ingress[0].ports[0].port",
  ],
  ["ClusterIP", "status.loadBalancer.ingress[0].ip", "192.0.2.1", "status.loadBalancer.ingress"],
];

const SLICE_ROWS: readonly Row[] = [
  ["IPv4", "addressType", "IP"],
  ["IPv4", "endpoints", many(1001, (index) => ({ addresses: [`10.0.${index >> 8}.${index & 255}`] }))],
  ["IPv4", "endpoints[0].addresses", [], "endpoints[0].addresses[0]"],
  ["IPv4", "endpoints[0].addresses", many(101, (index) => `10.0.0.${index}`)],
  ["IPv4", "endpoints[0].addresses[0]", "fd00::1"],
  ["IPv4", "endpoints[0].addresses[0]", "127.0.0.1"],
  ["IPv4", "endpoints[0].addresses[1]", "bogus"],
  ["IPv4", "endpoints[0].addresses[1]", "127.0.0.1"],
  ["IPv6", "endpoints[0].addresses[1]", "10.0.0.1"],
  ["IPv6", "endpoints[0].addresses[0]", "fe80::1"],
  ["HeadlessSlice", "endpoints[0].addresses[0]", "bogus"],
  ["HeadlessSlice", "endpoints[0].addresses", [], "endpoints[0].addresses[0]"],
  ["FQDN", "endpoints[0].addresses[0]", "example"],
  ["FQDN", "endpoints[0].addresses[0]", "a_b.example.org"],
  ["FQDN", "endpoints[0].addresses", [], "endpoints[0].addresses[0]"],
  ["IPv4", "endpoints[0].hostname", "Pod_1"],
  ["IPv4", "endpoints[0].hostname", ""],
  ["IPv4", "endpoints[0].hostname", "a.b"],
  ["IPv4", "endpoints[0].nodeName", "Node 1"],
  ["IPv4", "endpoints[0].nodeName", ""],
  ["IPv4", "endpoints[0].zone", 5],
  ["IPv4", "endpoints[0].conditions.ready", "true"],
  ["IPv4", "endpoints[0].condition", { ready: true }],
  ["IPv4", "endpoints[0].deprecatedTopology.rack", "b c"],
  ["IPv4", "endpoints[0].deprecatedTopology", Object.fromEntries(many(17, (index) => [`key-${index}`, ""]))],
  ["IPv4", "endpoints[0].hints.forZones", many(9, (index) => ({ name: `zone-${index}` }))],
  ["IPv4", "endpoints[0].hints.forNodes", many(9, (index) => ({ name: `node-${index}` }))],
  [
    "IPv4",
    "endpoints[0].hints.forZones",
    many(2, () => ({ name: "a" })),
    "endpoints[0].hints.forZones[1].name",
  ],
  [
    "IPv4",
    "endpoints[0].hints.forNodes",
    many(2, () => ({ name: "a" })),
    "endpoints[0].hints.forNodes[1].name",
  ],
  ["IPv4", "endpoints[0].hints.forZones", [{ name: "" }], "endpoints[0].hints.forZones[0].name"],
  ["IPv4", "endpoints[0].hints.forZones", [{ name: "a/b" }], "endpoints[0].hints.forZones[0].name"],
  ["IPv4", "endpoints[0].hints.forNodes", [{ name: "Node 1" }], "endpoints[0].hints.forNodes[0].name"],
  ["IPv4", "endpoints[0].targetRef.kind", 5],
  ["IPv4", "ports", many(20_001, (index) => ({ name: `p-${index}`, port: 80 }))],
  ["IPv4", "ports[0].name", "HTTP"],
  ["IPv4", "ports[1]", { name: "http", port: 81 }, "ports[1].name"],
  ["IPv4", "ports", [{ port: 80 }, { name: "", port: 81 }], "ports[1].name"],
  ["IPv4", "ports[0].protocol", "HTTP"],
  ["IPv4", "ports[0].port", 65_536],
  ["IPv4", "ports[0].appProtocol", "http 2"],
];

/** A row's title, without values that are too long for one. */
function titled(row: Row): readonly [title: string, row: Row] {
  const [base, path, value] = row;
  return [`${base} with ${path} ${JSON.stringify(value)?.slice(0, 60)}`, row];
}

describe("an object that the API server refuses has one error, at the invalid field:", () => {
  const rows = [...METADATA_ROWS, ...SERVICE_ROWS, ...SLICE_ROWS];
  test.each(rows.map(titled))("%s", (_title, [base, path, value, reported = path]) => {
    expect(errorPaths(changed(VALID[base], splitPath(path), value))).toEqual([reported]);
  });
});

const MANAGED_FIELDS = [
  {
    manager: "kubectl-client-side-apply",
    operation: "Update",
    apiVersion: "v1",
    time: "2026-01-31T12:00:00Z",
    fieldsType: "FieldsV1",
    fieldsV1: { "f:spec": { "f:ports": { ".": {}, 'k:{"port":80,"protocol":"TCP"}': { ".": {} } } } },
  },
  { manager: "cloud-controller", operation: "Apply", subresource: "status" },
];

/** Objects that the API server accepts, and values that it also accepts in them. */
const VALID_ROWS: readonly Row[] = [
  ...(Object.keys(VALID) as Base[]).map((base): Row => [base, "kind", VALID[base].kind]),
  ...["labels", "annotations", "finalizers", "ownerReferences", "managedFields", "creationTimestamp"].map(
    (field): Row => ["ClusterIP", `metadata.${field}`, null],
  ),
  ["ClusterIP", "metadata.generateName", "web-"],
  ["ClusterIP", "metadata.labels.empty", ""],
  ["ClusterIP", "metadata.labels.none", null],
  ["ClusterIP", 'metadata.labels["example.org/App_1.x"]', "A_b.c"],
  ["ClusterIP", 'metadata.annotations["Example.org/any"]', "b c\n"],
  ["ClusterIP", "metadata.finalizers", ["service.kubernetes.io/load-balancer-cleanup"]],
  [
    "ClusterIP",
    "metadata.ownerReferences",
    [{ apiVersion: "apps/v1", kind: "Deployment", name: "web", uid: "u1", controller: true }],
  ],
  ["ClusterIP", "metadata.managedFields", MANAGED_FIELDS],
  ["IPv4", "metadata.managedFields", MANAGED_FIELDS],
  ["ClusterIP", "spec.selector", null],
  ["ClusterIP", "spec.selector", {}],
  ["ClusterIP", "spec.type", ""],
  ...[8080, 0, "", "http-80", null].map((port): Row => ["ClusterIP", "spec.ports[0].targetPort", port]),
  ["ClusterIP", "spec.ports[0].appProtocol", "kubernetes.io/h2c"],
  ["ClusterIP", "spec.ports[0].nodePort", 0],
  ["ClusterIP", "spec.ipFamilyPolicy", "PreferDualStack"],
  ["ClusterIP", "spec.ipFamilies", ["IPv4"]],
  ["Headless", "spec", { clusterIP: "None", ipFamilies: ["IPv4", "IPv6"] }],
  ["Headless", "spec.ports", null],
  ["ClusterIP", "spec.internalTrafficPolicy", "Local"],
  ["ClusterIP", "spec.trafficDistribution", "PreferClose"],
  ["ClusterIP", "spec.publishNotReadyAddresses", true],
  ["ClusterIP", "spec.allocateLoadBalancerNodePorts", null],
  ["ClusterIP", "spec.loadBalancerSourceRanges", []],
  ["ClusterIP", "spec.externalTrafficPolicy", ""],
  ["NodePort", "spec.externalTrafficPolicy", "Local"],
  ["LoadBalancer", "spec.allocateLoadBalancerNodePorts", false],
  ["LoadBalancer", "spec.loadBalancerClass", "example.org/lb"],
  ["LoadBalancer", "spec.loadBalancerSourceRanges", [" 10.0.0.0/8 "]],
  ["LoadBalancer", `metadata.annotations["${RANGES}"]`, " 10.0.0.0/8, fd00::/8 "],
  ["LoadBalancer", "status.loadBalancer.ingress[0]", { hostname: "lb.example.org" }],
  ["LoadBalancer", "status.loadBalancer.ingress[0].ports", [{ port: 80, protocol: "TCP" }]],
  ["LoadBalancer", "status.conditions", [{ type: "Ready", status: "True", reason: "Done", message: "" }]],
  ["ExternalName", "spec.externalName", "shop.example.org."],
  ["ExternalName", "spec.ports", null],
  ["IPv4", "endpoints", null],
  ["IPv4", "endpoints", many(1000, (index) => ({ addresses: [`10.0.${index >> 8}.${index & 255}`] }))],
  ["IPv4", "endpoints[0].addresses", many(100, (index) => `10.0.0.${index}`)],
  ["IPv4", "endpoints[0].hostname", "pod-1"],
  ["IPv4", "endpoints[0].zone", ""],
  [
    "IPv4",
    "endpoints[0].hints",
    { forZones: [{ name: "a" }, { name: "b" }], forNodes: [{ name: "node-1" }] },
  ],
  ["IPv4", "endpoints[0].deprecatedTopology.rack", "b"],
  ["IPv4", "endpoints[0].targetRef", { kind: "Pod", namespace: "shop", name: "web-1", uid: "u" }],
  ["IPv4", "ports", [{ name: "http" }, { port: 81 }]],
  ["IPv4", "ports[0].appProtocol", "http"],
  ["FQDN", "endpoints[0].addresses[0]", "a.example.org."],
  ["ServiceCIDR", "spec.cidrs", ["10.0.0.0/16", "fd00::/112"]],
];

describe("an object that the API server accepts has no error:", () => {
  test.each(VALID_ROWS.map(titled))("%s", (_title, [base, path, value]) => {
    expect(errorPaths(changed(VALID[base], splitPath(path), value))).toEqual([]);
  });
});
