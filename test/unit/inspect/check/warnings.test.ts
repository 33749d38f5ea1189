import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import type { ProxyOptions } from "../../../../src/config/options.ts";
import { resolveOptions } from "../../../../src/config/resolve.ts";
import { ALL_FEATURES } from "../../../../src/features/selection.ts";
import { checkWarnings } from "../../../../src/inspect/check/warnings.ts";
import { loadFromFiles } from "../../../../src/inspect/load/desired.ts";

const directory = mkdtempSync(join(tmpdir(), "check-warnings-"));
afterAll(() => rmSync(directory, { recursive: true }));

let files = 0;

/** The warnings about a text, `line path reason`, sorted. */
async function warningsOf(
  text: string,
  given: Partial<ProxyOptions> = {},
  errors: readonly string[] = [],
): Promise<string[]> {
  files += 1;
  const path = join(directory, `${files}.yaml`);
  writeFileSync(path, text);
  const options = {
    ...resolveOptions().options,
    features: ALL_FEATURES,
    maxAffinityTimeoutMs: 3_600_000,
    ...given,
  };
  const request = {
    options,
    nodeName: "node-1",
    paths: [path],
    stdin: process.stdin,
    env: {},
    userAgent: "test",
  };
  const desired = await loadFromFiles(request, { thorough: true, placeholders: true });
  const found = desired.diagnostics.filter(({ severity }) => severity === "error");
  expect(found.map(({ code }) => code).sort()).toEqual(errors);
  return checkWarnings(desired)
    .map(({ line, path: where, reason }) => `${line} ${where} ${reason.replaceAll(path, "FILE")}`)
    .sort();
}

interface Given {
  readonly name?: string;
  readonly spec?: string;
  readonly status?: string;
}

function service({ name = "web", spec = "", status = "" }: Given): string {
  return `apiVersion: v1
kind: Service
metadata: {name: ${name}, namespace: shop}
spec:
  selector: {app: web}
  ports: [{name: http, port: 80}]
${spec}
${status}
---
`;
}

function slice(text: string, owner = "web"): string {
  return `apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: ${owner}-1, namespace: shop, labels: {kubernetes.io/service-name: ${owner}}}
${text}
---
`;
}

const SERVICE_CIDR = `apiVersion: networking.k8s.io/v1
kind: ServiceCIDR
metadata: {name: kubernetes}
spec: {cidrs: [10.96.0.0/16]}
---
`;

const rows: readonly {
  readonly name: string;
  readonly text: string;
  readonly warnings: readonly string[];
}[] = [
  { name: "a sound Service", text: service({}), warnings: [] },
  {
    name: "a sound Service with an address and slices",
    text: `${SERVICE_CIDR}${service({ spec: "  clusterIP: 10.96.0.1" })}${slice("addressType: IPv4\nports: [{name: http, port: 8080}]\nendpoints: [{addresses: [10.244.0.1]}]")}`,
    warnings: [],
  },
  {
    name: "session affinity for longer than clients may keep an endpoint",
    text: service({
      spec: "  sessionAffinity: ClientIP\n  sessionAffinityConfig: {clientIP: {timeoutSeconds: 3601}}",
    }),
    warnings: [
      "8 spec.sessionAffinityConfig.clientIP.timeoutSeconds clients keep their endpoint for 3600 s, not 3601 s: --max-affinity-timeout",
    ],
  },
  {
    name: "session affinity without a timeout of its own, whose default is longer",
    text: service({ spec: "  sessionAffinity: ClientIP" }),
    warnings: [
      "7 spec.sessionAffinity clients keep their endpoint for 3600 s, not 10800 s: --max-affinity-timeout",
    ],
  },
  {
    name: "a Service without a selector and a slice",
    text: "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec:\n  ports: [{port: 80}]\n",
    warnings: ["4 spec has no selector, and there is no EndpointSlice for it: it has no endpoints"],
  },
  {
    name: "a service port that no slice has",
    text: `${service({})}${slice("addressType: IPv4\nports: [{name: www, port: 8080}]\nendpoints: [{addresses: [10.244.0.1]}]")}`,
    warnings: [
      '6 spec.ports[0].name matches no port of the IPv4 EndpointSlices: the Service\'s port is "http" (TCP), theirs are "www" (TCP)',
    ],
  },
  {
    name: "a service port that no slice has in this protocol",
    text: `${service({})}${slice("addressType: IPv4\nports: [{name: http, port: 8080, protocol: UDP}]\nendpoints: [{addresses: [10.244.0.1]}]")}`,
    warnings: [
      '6 spec.ports[0].name matches no port of the IPv4 EndpointSlices: the Service\'s port is "http" (TCP), theirs are "http" (UDP)',
    ],
  },
  {
    name: "service ports that a slice without endpoints does not list",
    text: `${service({})}${slice("addressType: IPv4\nports: null\nendpoints: null")}`,
    warnings: [],
  },
  {
    name: "source ranges of a family that the Service lacks",
    text: service({
      spec: "  type: LoadBalancer\n  loadBalancerSourceRanges:\n  - 192.0.2.0/24\n  - fd00::/8",
    }),
    warnings: ["10 spec.loadBalancerSourceRanges[1] fd00::/8 is of a family that the Service does not have"],
  },
  {
    name: "source ranges that leave a family of the Service open",
    text: service({
      spec: "  type: LoadBalancer\n  ipFamilies: [IPv4, IPv6]\n  loadBalancerSourceRanges:\n  - 192.0.2.0/24",
    }),
    warnings: ["9 spec.loadBalancerSourceRanges has no IPv6 range: all IPv6 clients are allowed"],
  },
  {
    name: "source ranges of nobody, of everybody and with host bits set",
    text: service({
      spec: "  type: LoadBalancer\n  loadBalancerSourceRanges:\n  - 127.0.0.0/8\n  - 224.1.0.0/16\n  - 0.0.0.0/0\n  - 192.0.2.1/24",
    }),
    warnings: [
      "10 spec.loadBalancerSourceRanges[1] 224.1.0.0/16 holds no address that a client can have",
      "11 spec.loadBalancerSourceRanges[2] 0.0.0.0/0 makes the other ranges redundant",
      "12 spec.loadBalancerSourceRanges[3] 192.0.2.1/24 has host bits set; it means 192.0.2.0/24",
      "9 spec.loadBalancerSourceRanges[0] 127.0.0.0/8 holds no address that a client can have",
    ],
  },
  {
    name: "addresses that lie in or outside of a ServiceCIDR wrongly, or are link-local",
    text: `${SERVICE_CIDR}${service({
      spec: "  clusterIP: 10.97.0.1\n  type: LoadBalancer\n  externalIPs: [10.96.7.7]",
      status: "status: {loadBalancer: {ingress: [{ip: 169.254.1.1}]}}",
    })}`,
    warnings: [
      "12 spec.clusterIP 10.97.0.1 is not in any ServiceCIDR",
      "14 spec.externalIPs[0] 10.96.7.7 is in a ServiceCIDR: it may become another Service's cluster IP",
      "15 status.loadBalancer.ingress[0].ip 169.254.1.1 is link-local: routers do not forward packets to it",
    ],
  },
  {
    name: "one external IP and port of two Services",
    text: `${service({ spec: "  externalIPs: [192.0.2.9]" })}${service({ name: "other", spec: "  externalIPs: [192.0.2.9]" })}`,
    warnings: [
      "7 spec.externalIPs[0] 192.0.2.9 tcp 80 goes to shop/other:http/tcp (FILE:10), which is older or comes first by name",
    ],
  },
  {
    name: "one load-balancer address of two Services",
    text: ["web", "other"]
      .map((name) =>
        service({
          name,
          spec: "  type: LoadBalancer",
          status: "status: {loadBalancer: {ingress: [{hostname: lb.example}, {ip: 192.0.2.9}]}}",
        }),
      )
      .join(""),
    warnings: [
      "8 status.loadBalancer.ingress[1].ip 192.0.2.9 tcp 80 goes to shop/other:http/tcp (FILE:10), which is older or comes first by name",
    ],
  },
  {
    name: "one external IP with different ports of two Services",
    text: `${service({ spec: "  externalIPs: [192.0.2.9]" })}${service({ name: "other", spec: "  externalIPs: [192.0.2.9]" }).replace("80", "81")}`,
    warnings: [],
  },
  {
    name: "one NodePort of two Services, which is an error already",
    text: ["web", "other"]
      .map((name) =>
        service({ name, spec: "  ipFamilies: [IPv4, IPv6]" }).replace(
          "port: 80",
          "port: 80, nodePort: 30080",
        ),
      )
      .join(""),
    // An error of the strict check.
    warnings: [],
  },
  {
    name: "one health check node port of two Services",
    text: ["web", "other"]
      .map((name) =>
        service({
          name,
          spec: "  type: LoadBalancer\n  externalTrafficPolicy: Local\n  healthCheckNodePort: 32000",
        }),
      )
      .join(""),
    warnings: ["20 spec.healthCheckNodePort 32000 is also used by shop/web for its own health checks"],
  },
  {
    name: "a slice of a Service that is not there",
    text: `${service({})}${slice("addressType: IPv4\nports: []\nendpoints: []", "nobody")}`,
    warnings: ["12 metadata.labels belongs to the Service shop/nobody, which is not among the files"],
  },
  {
    name: "a slice of a headless Service",
    text: `${service({ spec: "  clusterIP: None" })}${slice("addressType: IPv4\nports: []\nendpoints: []")}`,
    warnings: [],
  },
  {
    name: "a slice of a family that the Service lacks",
    text: `${service({})}${slice("addressType: IPv6\nports: []\nendpoints: []")}`,
    warnings: [
      "13 addressType is of a family that the Service shop/web does not have: its endpoints are not used",
    ],
  },
  {
    name: "an endpoint that is a cluster IP",
    text: `${service({ spec: "  clusterIP: 10.96.0.1" })}${slice("addressType: IPv4\nports: [{name: http, port: 80}]\nendpoints: [{addresses: [10.96.0.1]}]")}`,
    warnings: [
      "15 endpoints[0] 10.96.0.1 is the cluster IP of shop/web: connections cannot be forwarded to it",
    ],
  },
];

test.each(rows.map((row) => [row.warnings.length === 0 ? "does not warn" : "warns", row.name, row] as const))(
  "check %s of %s",
  async (_does, _what, { text, warnings }) => {
    expect(await warningsOf(text)).toEqual(warnings);
  },
);

const NODE = `apiVersion: v1
kind: Node
metadata: {name: node-2}
status: {addresses: [{type: InternalIP, address: 192.0.2.3}, {type: ExternalIP, address: "FD00::3"}, {type: Hostname, address: node-2}]}
---
`;
const RANGED = `${NODE}${service({
  spec: "  type: LoadBalancer\n  externalIPs: [203.0.113.7, 192.0.2.3]",
  status: "status: {loadBalancer: {ingress: [{ip: 192.0.2.4}, {ip: 'fd00::3'}]}}",
}).replace("namespace: shop}", "namespace: shop, annotations: {nft-proxy.io/port-ranges: http=8000-8999}}")}`;

test.each([
  [
    "virtual",
    [
      "13 spec.externalIPs[1] 192.0.2.3 is an address of Node node-2: a port range is not served there on that node, but takes connections of other nodes to its programs",
      "14 status.loadBalancer.ingress[1].ip fd00::3 is an address of Node node-2: a port range is not served there on that node, but takes connections of other nodes to its programs",
    ],
  ],
  [
    "all",
    [
      "13 spec.externalIPs[1] 192.0.2.3 is an address of Node node-2: a port range takes connections to the node's own programs",
      "14 status.loadBalancer.ingress[1].ip fd00::3 is an address of Node node-2: a port range takes connections to the node's own programs",
    ],
  ],
] as const)(
  "check warns of port ranges at a Node's addresses with --port-ranges %s",
  async (portRanges, expected) => {
    expect(await warningsOf(RANGED, { settings: { portRanges } })).toEqual(expected);
  },
);

test("check does not say that malformed source ranges allow all clients: their addresses are not served", async () => {
  const ranged = (ranges: string) =>
    warningsOf(
      service({
        spec: `  type: LoadBalancer\n  ipFamilies: [IPv4, IPv6]\n  loadBalancerSourceRanges: ${ranges}`,
      }),
      {},
      ["invalid-cidr"],
    );
  expect(await ranged("[bogus]")).toEqual([]);
  expect(await ranged("[192.0.2.0/24, 'fd00:c0::/129']")).toEqual([]);
  expect(await ranged("[192.0.2.0/24, 198.51.100.0/33]")).toEqual([
    expect.stringContaining("has no IPv6 range: all IPv6 clients are allowed"),
  ]);
});

test("check reads past an address of a Node that is missing", async () => {
  const text =
    "apiVersion: v1\nkind: Node\nmetadata: {name: node-2}\nstatus: {addresses: [{type: InternalIP}, {type: InternalIP, address: 192.0.2.3}]}\n";
  expect(await warningsOf(text, {}, ["invalid-address"])).toEqual([]);
});

test("check warns of timeouts with --fast-path alone", async () => {
  const annotations = "{nft-proxy.io/connection-timeouts: tcp-established=2h}";
  const text = service({}).replace("namespace: shop}", `namespace: shop, annotations: ${annotations}}`);
  const slices = slice(
    "addressType: IPv4\nports: [{name: http, port: 8080}]\nendpoints: [{addresses: [10.244.0.1]}]",
  );
  expect(await warningsOf(text + slices)).toEqual([]);
  expect(await warningsOf(text + slices, { settings: { fastPath: true } })).toEqual([
    '3 metadata.annotations["nft-proxy.io/connection-timeouts"] a connection that leaves the fast path has the node\'s timeouts until its next packet',
  ]);
});

test("check does not warn of a Node's addresses without port ranges", async () => {
  const text = RANGED.replace(/, annotations: .*?\}/, "");
  expect(await warningsOf(text)).toEqual([]);
});

test("check warns of a Node's addresses with --answer-ping: pings no longer reach that Node", async () => {
  const text = RANGED.replace(/, annotations: .*?\}/, "");
  const effect = "with --answer-ping, every node answers pings to it itself, even if that Node is down";
  expect(await warningsOf(text, { settings: { answerPing: true } })).toEqual([
    `13 spec.externalIPs[1] 192.0.2.3 is an address of Node node-2: ${effect}`,
    `14 status.loadBalancer.ingress[1].ip fd00::3 is an address of Node node-2: ${effect}`,
  ]);
});
