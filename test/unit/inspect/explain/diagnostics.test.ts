import { describe, expect, test } from "vitest";
import { explained } from "../../../support/explained.ts";

const NODES = `
apiVersion: v1
kind: Node
metadata: { name: node-1, labels: { topology.kubernetes.io/zone: zone-a } }
spec: { podCIDRs: [10.244.1.0/24] }
status: { addresses: [{ type: InternalIP, address: 192.0.2.2 }] }
---
apiVersion: networking.k8s.io/v1
kind: ServiceCIDR
metadata: { name: kubernetes }
spec: { cidrs: [10.96.0.0/16] }
`;

function service(spec: string, metadata = "", status = "{}"): string {
  return `
---
apiVersion: v1
kind: Service
metadata: { namespace: shop, name: cart${metadata} }
spec: { clusterIP: 10.96.0.7, clusterIPs: [10.96.0.7], ports: [{ name: http, port: 80, targetPort: web }]${spec} }
status: ${status}
`;
}

function slice(endpoints: readonly string[], port = "http", name = "cart"): string {
  return `
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { namespace: shop, name: ${name}-1, labels: { kubernetes.io/service-name: ${name} } }
addressType: IPv4
ports: [{ name: ${port}, port: 8080 }]
endpoints: [${endpoints.join(", ")}]
`;
}

function endpoint(address: string, node: string, more = ""): string {
  const pod = `targetRef: { kind: Pod, namespace: shop, name: cart-${address.split(".").at(-1)} }`;
  return `{ addresses: [${address}], nodeName: ${node}, ${pod}${more} }`;
}

const READY = [endpoint("10.244.1.5", "node-1"), endpoint("10.244.2.5", "node-2")];
const UNREADY = [endpoint("10.244.2.5", "node-2", ", conditions: { ready: false, serving: false }")];
const ELSEWHERE = [endpoint("10.244.2.5", "node-2"), endpoint("10.244.3.5", "node-3")];
const HINTED = [
  endpoint("10.244.1.5", "node-1", ", zone: zone-a, hints: { forZones: [{ name: zone-a }] }"),
  endpoint("10.244.2.5", "node-2", ", zone: zone-b, hints: { forZones: [{ name: zone-b }] }"),
  endpoint("10.244.3.5", "node-3", ", zone: zone-b, hints: { forZones: [{ name: zone-b }] }"),
];
const LOAD_BALANCER = `{ loadBalancer: { ingress: [{ ip: 203.0.113.9 }] } }`;
/** A Service with a port range at the node's own address, at another one and at its cluster IP. */
const RANGED = service(
  ", externalIPs: [192.0.2.2, 203.0.113.7]",
  ", annotations: { nft-proxy.io/port-ranges: http=8000-8999 }",
);
const OLDER = `
---
apiVersion: v1
kind: Service
metadata: { namespace: shop, name: old-cart, creationTimestamp: "2020-01-01T00:00:00Z" }
spec: { clusterIP: 10.96.0.8, clusterIPs: [10.96.0.8], externalIPs: [203.0.113.7], ports: [{ name: http, port: 80 }] }
`;

const TO_CLUSTER_IP = { to: "10.96.0.7", port: "80" };

interface FieldDiagnostic {
  readonly name: string;
  readonly manifests: string;
  readonly flags: Readonly<Record<string, string>>;
  readonly result: string;
  readonly cause: string;
  /** The last sentence, in parts that must be in it. */
  readonly message: readonly string[];
}

const FAULTS: readonly FieldDiagnostic[] = [
  {
    name: "no endpoints",
    manifests: service("") + slice([]),
    flags: TO_CLUSTER_IP,
    result: "refused",
    cause: "no-endpoints",
    message: ["shop/cart has no endpoints", "selector", "get service cart -o wide", "get pods --show-labels"],
  },
  {
    name: "endpoints that are not ready",
    manifests: service("") + slice(UNREADY),
    flags: TO_CLUSTER_IP,
    result: "refused",
    cause: "not-ready",
    message: ["is not ready", "readiness probe", "describe pod cart-5"],
  },
  {
    name: "a port name that the EndpointSlices do not have",
    manifests: service("") + slice(READY, "web"),
    flags: TO_CLUSTER_IP,
    result: "refused",
    cause: "port-name",
    message: ['named "http" (tcp)', 'only "web" (tcp)', "the same name"],
  },
  {
    name: "a policy of Local without a local endpoint",
    manifests:
      service(", type: NodePort, externalTrafficPolicy: Local").replace(
        "port: 80,",
        "port: 80, nodePort: 30080,",
      ) + slice(ELSEWHERE),
    flags: { to: "192.0.2.2", port: "30080" },
    result: "dropped",
    cause: "no-local-endpoints",
    message: ["externalTrafficPolicy", "is Local", "node-1; they run on node-2 and node-3", "run a pod here"],
  },
  {
    name: "a policy of Local with an endpoint on one other node",
    manifests: service(", internalTrafficPolicy: Local") + slice([endpoint("10.244.2.11", "node-2")]),
    flags: TO_CLUSTER_IP,
    result: "dropped",
    cause: "no-local-endpoints",
    message: ["runs on this node, node-1; they run on node-2", "run a pod of it on this node"],
  },
  {
    name: "an internal policy of Local without a local endpoint",
    manifests: service(", internalTrafficPolicy: Local") + slice(ELSEWHERE),
    flags: TO_CLUSTER_IP,
    result: "dropped",
    cause: "no-local-endpoints",
    message: ["internalTrafficPolicy", "node-2 and node-3", "set internalTrafficPolicy to Cluster"],
  },
  {
    name: "source ranges",
    manifests:
      service(", type: LoadBalancer, loadBalancerSourceRanges: [198.51.100.0/24]", "", LOAD_BALANCER) +
      slice(READY),
    flags: { to: "203.0.113.9", port: "80", "from-ip": "192.0.2.77" },
    result: "dropped",
    cause: "source-ranges",
    message: ["192.0.2.77 is in none", "198.51.100.0/24", "spec.loadBalancerSourceRanges"],
  },
  {
    name: "source ranges, for a client that was not given",
    manifests:
      service(", type: LoadBalancer, loadBalancerSourceRanges: [192.0.2.200/32]", "", LOAD_BALANCER) +
      slice(READY),
    flags: { to: "203.0.113.9", port: "80" },
    result: "varies",
    cause: "source-ranges",
    message: ["Varies: allowed from 192.0.2.200/32, dropped otherwise; goes to"],
  },
  {
    name: "a NodePort at the address of another node",
    manifests: service(", type: NodePort").replace("port: 80,", "port: 80, nodePort: 30080,") + slice(READY),
    flags: { to: "192.0.2.3", port: "30080" },
    result: "not-handled",
    cause: "node-port-address",
    message: [
      "answers at 192.0.2.2 here, not at 192.0.2.3",
      "which is not an address of this node",
      "name that node",
    ],
  },
  {
    name: "a Service with more source ranges than it may have",
    manifests:
      service(
        `, type: LoadBalancer, loadBalancerSourceRanges: [${Array.from({ length: 20_001 }, () => "10.0.0.0/8").join()}]`,
        "",
        LOAD_BALANCER,
      ) + slice(READY),
    flags: { to: "10.96.0.7", port: "80" },
    result: "dropped",
    cause: "over-budget",
    message: ["Service shop/cart", "can have 20000 source ranges", "this one has 20001"],
  },
  {
    name: "an endpoint of several Services",
    manifests:
      service("") +
      slice(READY) +
      service("").replaceAll("cart", "copy").replaceAll("10.96.0.7", "10.96.0.8") +
      slice(READY).replaceAll("cart", "copy"),
    flags: { to: "10.244.1.5", port: "8080" },
    result: "not-handled",
    cause: "not-a-service",
    message: ["an endpoint of Services shop/cart and shop/copy, reached directly"],
  },
  {
    name: "a port in a range, at the node's own address",
    manifests: RANGED + slice(READY),
    flags: { to: "192.0.2.2", port: "8472" },
    result: "not-handled",
    cause: "port-ranges",
    message: [
      "8472/tcp is in a port range of Service shop/cart",
      "192.0.2.2 is an address of this node, which serves no ranges (see --port-ranges)",
      "connect to another address of the Service",
    ],
  },
  {
    name: "a port in a range without endpoints, at the node's own address",
    manifests: RANGED + slice(UNREADY),
    flags: { to: "192.0.2.2", port: "8472" },
    result: "not-handled",
    cause: "port-ranges",
    message: ["192.0.2.2 is an address of this node"],
  },
  {
    name: "a port in a range, at the node's own address, where ranges are served at all",
    manifests: RANGED + slice(READY),
    flags: { to: "192.0.2.2", port: "8472", "port-ranges": "all" },
    result: "served",
    cause: "served",
    message: ["goes to one of 2 endpoints"],
  },
  {
    name: "a port in a range, at another address",
    manifests: RANGED + slice(READY),
    flags: { to: "203.0.113.7", port: "8472" },
    result: "served",
    cause: "served",
    message: ["goes to one of 2 endpoints"],
  },
  {
    name: "a port outside of the range",
    manifests: RANGED + slice(READY),
    flags: { to: "203.0.113.7", port: "9000" },
    result: "not-handled",
    cause: "unserved-port",
    message: [
      "shop/cart, which serves http (80/tcp) and 8000-8999/tcp, but not 9000/tcp",
      "one of these ports",
    ],
  },
  {
    name: "a port outside of the range, at the node's own address, which serves no ranges",
    manifests: RANGED + slice(READY),
    flags: { to: "192.0.2.2", port: "9000" },
    result: "not-handled",
    cause: "unserved-port",
    message: ["shop/cart, which serves http (80/tcp), but not 9000/tcp"],
  },
  {
    name: "a port that is not served",
    manifests: service("") + slice(READY),
    flags: { to: "10.96.0.7", port: "8080" },
    result: "refused",
    cause: "unserved-port",
    message: ["shop/cart", "serves http (80/tcp)", "not 8080/tcp"],
  },
  {
    name: "the other protocol",
    manifests: service("") + slice(READY),
    flags: { ...TO_CLUSTER_IP, proto: "udp" },
    result: "refused",
    cause: "unserved-port",
    message: ["serves http (80/tcp)", "not 80/udp"],
  },
  {
    name: "an address that no Service has",
    manifests: service("") + slice(READY),
    flags: { to: "10.96.0.99", port: "80" },
    result: "dropped",
    cause: "unallocated-address",
    message: [
      "no Service has the address 10.96.0.99",
      "ServiceCIDR 10.96.0.0/16",
      "deleted and created again",
    ],
  },
  {
    name: "an external IP that another Service holds",
    manifests:
      service(", externalIPs: [203.0.113.7]", ', creationTimestamp: "2024-01-01T00:00:00Z"') +
      slice(READY) +
      OLDER,
    flags: { to: "203.0.113.7", port: "80" },
    result: "refused",
    cause: "conflict",
    message: [
      "belongs to Service shop/old-cart",
      "not to shop/cart",
      "shop/old-cart has no endpoints",
      "gets it if",
    ],
  },
  {
    name: "a Service left to another proxy",
    manifests:
      service("", ", labels: { service.kubernetes.io/service-proxy-name: kube-router }") + slice(READY),
    flags: TO_CLUSTER_IP,
    result: "dropped",
    cause: "other-proxy",
    message: ["shop/cart, which is handled by another proxy", "(kube-router)", "remove the label"],
  },
  {
    name: "hints that leave one endpoint",
    manifests: service("") + slice(HINTED),
    flags: TO_CLUSTER_IP,
    result: "served",
    cause: "hints",
    message: [
      "1 of 3 ready endpoints",
      "other zones",
      "run more of them in zone-a",
      "spec.trafficDistribution",
    ],
  },
  {
    name: "a NodePort at another address of the node",
    manifests: service(", type: NodePort").replace("port: 80,", "port: 80, nodePort: 30080,") + slice(READY),
    flags: { to: "127.0.0.1", port: "30080" },
    result: "not-handled",
    cause: "node-port-address",
    message: ["NodePort 30080/tcp of shop/cart", "answers at 192.0.2.2", "add localhost"],
  },
  {
    name: "an address that only the load balancer serves",
    manifests:
      service(", type: LoadBalancer", "", LOAD_BALANCER.replace("}", ", ipMode: Proxy }")) + slice(READY),
    flags: { to: "203.0.113.9", port: "80" },
    result: "not-handled",
    cause: "load-balancer",
    message: [
      "only the load balancer of Service shop/cart serves 203.0.113.9",
      "ipMode: Proxy",
      "check the load balancer",
    ],
  },
  {
    name: "hints for nodes that leave one endpoint",
    manifests:
      service("") +
      slice(HINTED.map((text, i) => text.replace(/forZones.*\]/, `forNodes: [{ name: node-${i + 1} }]`))),
    flags: TO_CLUSTER_IP,
    result: "served",
    cause: "hints",
    message: ["1 of 3 ready endpoints", "other nodes", "run more of them on node-1"],
  },
  {
    name: "nothing but terminating endpoints",
    manifests:
      service("") +
      slice([
        endpoint("10.244.2.5", "node-2", ", conditions: { ready: false, serving: true, terminating: true }"),
      ]),
    flags: TO_CLUSTER_IP,
    result: "served",
    cause: "terminating-endpoints",
    message: ["the only endpoint of shop/cart", "none is ready", "soon be gone"],
  },
  {
    name: "endpoints that all terminate and serve no more",
    manifests:
      service("") +
      slice(UNREADY.map((text) => text.replace("serving: false", "serving: false, terminating: true"))),
    flags: TO_CLUSTER_IP,
    result: "refused",
    cause: "not-ready",
    message: ["is terminating and no longer serves"],
  },
  {
    name: "a Service without a cluster IP",
    manifests: service("").replace("clusterIP: 10.96.0.7, clusterIPs: [10.96.0.7]", "clusterIP: None"),
    flags: { service: "shop/cart" },
    result: "",
    cause: "headless",
    message: ["shop/cart is headless", "DNS name"],
  },
  {
    name: "a Service of type ExternalName",
    manifests: service("").replace(/spec:.*/, "spec: { type: ExternalName, externalName: cart.example.org }"),
    flags: { service: "shop/cart" },
    result: "",
    cause: "external-name",
    message: ["ExternalName", "cart.example.org"],
  },
];

describe("explain names the cause by itself:", () => {
  test.each(FAULTS.map((row) => [row.name, row] as const))(
    "%s",
    async (_, { manifests, flags, result, cause, message }) => {
      const { text, json } = await explained(NODES + manifests, flags);
      const { verdict } = json.explanations[0] ?? { verdict: { result: "", ...json.notServed } };
      expect({ result: verdict.result, cause: verdict.cause }).toEqual({ result, cause });
      const lines = text.trimEnd().split("\n");
      const sentence = lines
        .slice(lines.lastIndexOf("") + 1)
        .join(" ")
        .replace(/ +/g, " ");
      for (const part of message) expect(sentence).toContain(part);
      const { commands = [] } = verdict as { readonly commands?: readonly string[] };
      if (commands.length === 0) expect(sentence).toMatch(/\.$/);
      else expect(lines.slice(-commands.length).map((line) => line.trim())).toEqual(commands);
    },
  );
});

test("explain shows each excluded endpoint with its reason", async () => {
  const mixed = [
    endpoint("10.244.1.5", "node-1"),
    ...UNREADY,
    endpoint("10.244.1.6", "node-1", ", conditions: { ready: false, serving: true, terminating: true }"),
    endpoint("10.244.3.5", "node-3"),
  ];
  const { text, explanations } = await explained(
    NODES + service(", internalTrafficPolicy: Local") + slice(mixed),
    TO_CLUSTER_IP,
  );
  expect(
    explanations[0]?.endpoints.map(({ address, probability, excluded }) => [
      address,
      probability,
      excluded?.reason,
    ]),
  ).toEqual([
    ["10.244.1.5", 1, undefined],
    ["10.244.1.6", 0, "terminating"],
    ["10.244.2.5", 0, "not-local"],
    ["10.244.3.5", 0, "not-local"],
  ]);
  expect(text).toContain(" 100 %  10.244.1.5:8080 shop/cart-5 on node-1");
  expect(text).toContain("     -  10.244.1.6:8080 shop/cart-6 on node-1: terminating");
  expect(text).toContain("not on this node: runs on node-3");
});

test("explain notes affinity, source ranges and masquerading for a connection that works", async () => {
  const spec =
    ", type: LoadBalancer, loadBalancerSourceRanges: [198.51.100.0/24], sessionAffinity: ClientIP, sessionAffinityConfig: { clientIP: { timeoutSeconds: 600 } }";
  const { text, explanations } = await explained(NODES + service(spec, "", LOAD_BALANCER) + slice(READY), {
    to: "203.0.113.9",
    port: "80",
    "from-ip": "198.51.100.9",
  });
  expect(explanations[0]?.notes.map(({ topic }) => topic)).toEqual(["source", "affinity", "source ranges"]);
  expect(text).toContain("externalTrafficPolicy is Cluster");
  expect(text).toContain("for 10m");
  expect(text).toContain("only clients in 198.51.100.0/24 are allowed");
});

test("explain names the option that shortens the timeout of session affinity", async () => {
  const { explanations } = await explained(NODES + service(", sessionAffinity: ClientIP") + slice(READY), {
    ...TO_CLUSTER_IP,
    "max-affinity-timeout": "10m",
  });
  expect(explanations[0]?.frontend?.affinitySeconds).toBe(600);
  expect(explanations[0]?.notes.find(({ topic }) => topic === "affinity")?.message).toContain(
    "for 10m (--max-affinity-timeout; the Service asks for 3h), or",
  );
});

test.each([
  ["one endpoint has none", [...HINTED, endpoint("10.244.9.9", "node-9")], "10.244.9.9 has none"],
  ["none is for this zone", HINTED.slice(1), "none is for node-1 or zone-a"],
])("explain notes why hints are not followed: %s", async (_what, endpoints, message) => {
  const { explanations } = await explained(NODES + service("") + slice(endpoints), TO_CLUSTER_IP);
  const [explanation] = explanations;
  expect(explanation?.verdict.cause).toBe("served");
  expect(explanation?.notes.find(({ topic }) => topic === "hints")?.message).toContain(message);
});

test("the outcome does not depend on the client if the source range is 0.0.0.0/0", async () => {
  const spec = ", type: LoadBalancer, loadBalancerSourceRanges: [0.0.0.0/0]";
  const { explanations } = await explained(NODES + service(spec, "", LOAD_BALANCER) + slice(READY), {
    to: "203.0.113.9",
    port: "80",
  });
  expect(explanations[0]?.verdict).toMatchObject({ result: "served", cause: "served" });
});

test("explain shows the whole range of a Service's ports", async () => {
  const { text } = await explained(NODES + RANGED + slice(READY), { service: "shop/cart" });
  expect(text).toContain("cluster IP 10.96.0.7 port 8000-8999/tcp, from ");
  expect(text).toContain("external IP 203.0.113.7 port 8000-8999/tcp, from ");
});

test("explain says that a port is in a range of a feature that is off", async () => {
  const flags = { to: "10.96.0.7", port: "8472", features: "none" };
  const { explanations } = await explained(
    NODES + RANGED + slice(READY),
    flags,
    /needs the feature port-ranges/,
  );
  expect(explanations[0]?.verdict).toMatchObject({
    result: "refused",
    cause: "unserved-port",
    message:
      "10.96.0.7 belongs to Service shop/cart, which serves http (80/tcp), but not 8472/tcp; its annotation nft-proxy.io/port-ranges needs the feature port-ranges, which is off in namespace shop: see --features",
  });
});

test("explain warns of a namespace without Services, and names the nearest one", async () => {
  const warning = /^warning: there is no Service in namespace shpo: did you mean shop\?$/;
  const { text } = await explained(NODES + service(""), { problems: true, namespace: "shpo" }, warning);
  expect(text).toBe("no Services\n");
});
