import { afterEach, beforeEach, expect, test } from "vitest";
import { fleetText } from "../../../../src/cli/commands/fleet.ts";
import { gatherFleet } from "../../../../src/inspect/fleet/gather-fleet.ts";
import { type FleetNode, fleetEjections, isFine } from "../../../../src/inspect/fleet/node-status.ts";
import type { ApiClient } from "../../../../src/kube/client/client.ts";
import { schemaErrors } from "../../../support/output-schema.ts";
import { type OtherAnswer, StubApi } from "../../../support/stub-api/stub-api.ts";
import { stubClient } from "../../../support/stub-api/stub-client.ts";

const NOW = Date.parse("2026-11-21T12:00:00Z");

interface Pod {
  readonly node: string;
  /** `pod-NODE` if not given. */
  readonly name?: string;
  readonly deletionTimestamp?: string;
  readonly status?: object;
  readonly livez?: OtherAnswer | undefined;
  readonly metrics?: string;
  /** The declared port of its health checks. */
  readonly healthPort?: number;
}

let api: StubApi;
let client: ApiClient;
beforeEach(async () => {
  api = await StubApi.start();
  client = stubClient(api);
});
afterEach(async () => {
  client.close();
  await api.close();
});

const ago = (seconds: number) => new Date(NOW - seconds * 1000).toISOString();

interface Livez {
  readonly reasons?: readonly string[];
  readonly since?: number;
  readonly quarantined?: number;
  readonly unserved?: readonly string[];
  readonly problems?: readonly { readonly kind: string; readonly found: string }[];
}

/** The answer of nft-proxy's /livez. */
function livez(
  status: number,
  verifiedAgo: number,
  { reasons, since, quarantined = 0, unserved = [], problems }: Livez = {},
) {
  const families = ["IPv4", "IPv6"].map((family) => [family, { healthy: !unserved.includes(family) }]);
  const body = {
    currentTime: ago(0),
    lastVerified: ago(verifiedAgo),
    quarantinedServicePorts: quarantined,
    ...(since === undefined ? {} : { outOfSyncSince: ago(since) }),
    status: Object.fromEntries(families),
    reasons,
    problems,
  };
  return { status, body: JSON.stringify(body) };
}

function metrics({ drift = 0, refused = 0, slow = 1, ejected = [] as readonly string[] } = {}): string {
  return `# HELP nft_proxy_build_info 1, with the versions
nft_proxy_build_info{version="1.2.3",nft="1.1.3",kernel="6.18.1",nodejs="v20.20.2"} 1
nft_proxy_drift_repairs_total{kind="table"} ${drift}
nft_proxy_drift_repairs_total{kind="element"} 1
nft_proxy_refused_packets_total{namespace="shop",service="cart",reason="no-endpoints"} ${refused}
nft_proxy_refused_packets_total{namespace="",service="",reason="no-service"} 2
nft_proxy_change_lag_seconds_bucket{le="0.01"} 90
nft_proxy_change_lag_seconds_bucket{le="0.05"} 99
nft_proxy_change_lag_seconds_bucket{le="+Inf"} ${99 + slow}
nft_proxy_change_lag_seconds_count ${99 + slow}
${ejected.map((name) => `nft_proxy_endpoint_ejected{namespace="shop",service="cart",endpoint="${name}"} 1\n`).join("")}`;
}

/** Serves nodes, pods (in pages) and their proxies, and a DaemonSet for the nodes with these labels. */
function serve(
  pods: readonly Pod[],
  nodes: readonly string[],
  nodeSelector: Readonly<Record<string, string>> = {},
): void {
  const page = (items: readonly object[], query: Readonly<Record<string, string>>): OtherAnswer => {
    const start = Number(query.continue ?? 0);
    const end = start + Number(query.limit ?? items.length);
    const metadata = { resourceVersion: "1", ...(end < items.length ? { continue: String(end) } : {}) };
    return { status: 200, body: JSON.stringify({ items: items.slice(start, end), metadata }) };
  };
  api.other = (path, query) => {
    if (path === "/api/v1/nodes") {
      expect(query.labelSelector?.split(",")).toContain("kubernetes.io/os!=windows");
      return page(
        nodes.map((name) => ({ metadata: { name, labels: { name } } })),
        query,
      );
    }
    if (path === "/apis/apps/v1/namespaces/kube-system/daemonsets") {
      return page([{ spec: { template: { spec: { nodeSelector } } } }], query);
    }
    if (path === "/api/v1/namespaces/kube-system/pods") {
      expect(query.labelSelector).toBe("app.kubernetes.io/name=nft-proxy");
      return page(
        pods.map(({ node, name = `pod-${node}`, deletionTimestamp, status, healthPort }) => ({
          metadata: { name, deletionTimestamp },
          spec: {
            nodeName: node,
            containers: [{ ports: healthPort && [{ name: "healthz", containerPort: healthPort }] }],
          },
          status,
        })),
        query,
      );
    }
    const [, asked = "", port = ""] = /\/pods\/([^:]+):(\d+)\/proxy/.exec(path) ?? [];
    const pod = pods.find(({ node: of, name = `pod-${of}` }) => name === asked);
    if (port === String(pod?.healthPort ?? 10256)) return pod?.livez;
    return {
      status: pod?.metrics === undefined ? 503 : 200,
      body: pod?.metrics ?? "error trying to reach service",
    };
  };
}

function gather() {
  const ports = { healthPort: 10256, metricsPort: 10249, answerWithin: 60_000 };
  return gatherFleet({
    server: "https://stub",
    client,
    namespace: "kube-system",
    selector: "app.kubernetes.io/name=nft-proxy",
    ...ports,
  });
}

/** Every Pod in a node of its own, which has the Pod's name. */
async function gatherOf(pods: readonly Pod[], others: readonly string[] = []): Promise<readonly FleetNode[]> {
  serve(pods, [...pods.map(({ node }) => node), ...others]);
  return await gather();
}

test("fleet asks a pod at the port that it declares, as on RKE2", async () => {
  const nodes = await gatherOf([
    { node: "node-a", livez: livez(200, 1), healthPort: 10266 },
    { node: "node-b", livez: livez(200, 1) },
  ]);
  expect(nodes.map(({ state }) => state)).toEqual(["healthy", "healthy"]);
});

test("fleet gives a line for each node, the worst first", async () => {
  const nodes = await gatherOf(
    [
      { node: "node-a", livez: livez(200, 12), metrics: metrics() },
      { node: "node-b", livez: livez(200, 3), metrics: metrics({ drift: 4 }) },
      {
        node: "node-c",
        livez: livez(503, 90, { reasons: ["IPv4: not synced"], since: 70 }),
        metrics: metrics(),
      },
      { node: "node-d", livez: livez(200, 5, { since: 8 }), metrics: metrics() },
      { node: "node-e", livez: livez(200, 5, { quarantined: 2 }) },
      { node: "node-f", livez: { status: 502, body: "bad gateway" } },
      { node: "node-g", livez: livez(200, 7200) },
      { node: "node-h", livez: livez(200, 7201), metrics: metrics() },
      { node: "node-i", livez: livez(200, 9, { since: 2 }), metrics: metrics({ refused: 40, slow: 2 }) },
    ],
    ["node-z"],
  );
  expect(nodes.map(({ node, state }) => `${node} ${state}`)).toEqual([
    "node-z no-pod",
    "node-f unreachable",
    "node-c unhealthy",
    "node-d out-of-sync",
    "node-e quarantine",
    "node-h unverified",
    "node-b healthy",
    "node-i healthy",
    "node-a healthy",
    "node-g healthy",
  ]);
  expect(nodes.find(({ node }) => node === "node-b")).toEqual({
    node: "node-b",
    pod: "pod-node-b",
    state: "healthy",
    verifiedAgo: 3,
    outOfSyncFor: 0,
    quarantined: 0,
    metrics: { version: "1.2.3", driftRepairs: 5, refused: 2, ejected: [], lagP99: 0.05 },
  });
  expect(schemaErrors("fleet", { nodes, ejections: [] })).toEqual([]);
  expect(schemaErrors("fleet", { nodes: [{ ...nodes[0], state: "fine" }], ejections: [] })).toHaveLength(1);
  const lines = fleetText(nodes).trimEnd().split("\n");
  expect(lines[3]).toMatch(
    /^node-c +unhealthy +1\.2\.3 +1m30s ago +1m10s +1 +0 +2 +0 +0\.05 s +IPv4: not synced$/,
  );
  expect(lines[8]).toMatch(/^node-i +healthy +1\.2\.3 +9s ago +2s +1 +0 +42 +0 +>0\.05 s$/);
  expect(lines.at(-2)).toMatch(/^node-g +healthy +- +2h ago +no +- +0 +- +- +-$/);
  expect(lines.at(-1)).toBe("10 nodes, 4 healthy");
});

test("fleet counts a node without a pod as healthy only if the DaemonSet does not select it", async () => {
  const pods = [{ node: "node-a", livez: livez(200, 12) }];
  serve(pods, ["node-a", "node-b"], { name: "node-a" });
  const nodes = await gather();
  expect(nodes.map(({ node, state }) => `${node} ${state}`)).toEqual([
    "node-a healthy",
    "node-b not-selected",
  ]);
  expect(nodes.map(isFine)).toEqual([true, true]);
  expect(schemaErrors("fleet", { nodes, ejections: [] })).toEqual([]);
  expect(fleetText(nodes).trimEnd().split("\n").at(-1)).toBe("2 nodes, 1 healthy, 1 not selected");
  serve(pods, ["node-a", "node-b"]);
  expect((await gather()).map(isFine)).toEqual([false, true]);
});

test("fleet tells which nodes eject an endpoint, and whether most do", async () => {
  const [silent, hidden, six] = ["10.244.1.12:8080", "10.244.2.13:8080", "[fd00:244:1::12]:8080"];
  const nodes = await gatherOf([
    { node: "node-a", livez: livez(200, 12), metrics: metrics({ ejected: [six, silent] }) },
    { node: "node-b", livez: livez(200, 12), metrics: metrics({ ejected: [silent, hidden] }) },
    { node: "node-c", livez: livez(200, 12), metrics: metrics() },
    { node: "node-d", livez: livez(200, 12) },
  ]);
  expect(nodes[0]?.metrics?.ejected).toEqual([
    { endpoint: six, service: "shop/cart" },
    { endpoint: silent, service: "shop/cart" },
  ]);
  const ejections = fleetEjections(nodes);
  expect(ejections).toEqual([
    { endpoint: silent, service: "shop/cart", nodes: ["node-a", "node-b"], byMost: true },
    { endpoint: hidden, service: "shop/cart", nodes: ["node-b"], byMost: false },
    { endpoint: six, service: "shop/cart", nodes: ["node-a"], byMost: false },
  ]);
  expect(schemaErrors("fleet", { nodes, ejections })).toEqual([]);
  expect(fleetText(nodes).trimEnd().split("\n").slice(5)).toEqual([
    `${silent} of shop/cart is ejected by node-a and node-b, most nodes: it does not answer, even if its readiness probe succeeds`,
    `${hidden} of shop/cart is ejected by node-b`,
    `${six} of shop/cart is ejected by node-a`,
    "4 nodes, 4 healthy",
  ]);
});

const status = (phase: string, waiting?: string) => ({
  phase,
  containerStatuses: [{ state: waiting === undefined ? { running: {} } : { waiting: { reason: waiting } } }],
});
const refusedByNode = {
  status: 503,
  body: JSON.stringify({ kind: "Status", message: "error trying to reach service: connection refused" }),
};

const FOREIGN = "unreachable: HTTP status 200: not";

test.each<[string, Omit<Pod, "node">, string]>([
  [
    "that serves one family of two is degraded",
    { livez: livez(200, 5, { unserved: ["IPv6"], reasons: ["IPv6 is not served: not supported"] }) },
    "degraded: IPv6 is not served: not supported",
  ],
  [
    "that does not follow the API server is degraded",
    { livez: livez(200, 5, { problems: [{ kind: "following", found: "it cannot follow services" }] }) },
    "degraded: it cannot follow services",
  ],
  [
    "whose changed configuration is invalid is degraded",
    { livez: livez(200, 5, { problems: [{ kind: "configuration", found: "config.yaml is not YAML" }] }) },
    "degraded: config.yaml is not YAML",
  ],
  [
    "with a problem of one Service alone is healthy",
    { livez: livez(200, 5, { problems: [{ kind: "conflict", found: "shop/a has what shop/b wants" }] }) },
    "healthy",
  ],
  [
    "whose Node is unknown is degraded",
    { livez: livez(200, 5, { reasons: ["the API server has not listed the Node x"] }) },
    "degraded: the API server has not listed the Node x",
  ],
  [
    "that has programmed nothing since its start is unhealthy",
    {
      livez: livez(200, 5, {
        unserved: ["IPv4", "IPv6"],
        reasons: ["nothing has been programmed in the 90 s"],
      }),
    },
    "unhealthy: nothing has been programmed in the 90 s",
  ],
  [
    "whose health port kube-proxy has is unreachable",
    {
      livez: {
        status: 200,
        body: JSON.stringify({ currentTime: ago(0), lastUpdated: ago(0), healthy: true }),
      },
    },
    "unreachable: another service proxy, such as kube-proxy, answers its health checks",
  ],
  [
    "where a pod removes the rules is unreachable, with the state of its pod, although kube-proxy answers",
    {
      livez: {
        status: 200,
        body: JSON.stringify({ currentTime: ago(0), lastUpdated: ago(0), healthy: true }),
      },
      status: status("Pending"),
    },
    "unreachable: its pod is Pending; another service proxy, such as kube-proxy, answers its health checks",
  ],
  [
    "with times that are none is unreachable",
    { livez: { status: 200, body: JSON.stringify({ currentTime: "now", lastVerified: "now" }) } },
    "unreachable: another service proxy, such as kube-proxy, answers its health checks",
  ],
  ["that answers HTML is unreachable", { livez: { status: 200, body: "<html>" } }, FOREIGN],
  ["that answers null is unreachable", { livez: { status: 200, body: "null" } }, FOREIGN],
  ...[
    { reasons: 5 },
    { problems: {} },
    { problems: [{ kind: 5 }] },
    { status: { IPv4: null } },
    { quarantinedServicePorts: "no" },
  ].map((foreign): [string, Omit<Pod, "node">, string] => {
    const body = JSON.stringify({ currentTime: ago(0), lastVerified: ago(0), ...foreign });
    const livez = { status: 200, body };
    return [`that answers ${Object.keys(foreign)} of a wrong type is unreachable`, { livez }, FOREIGN];
  }),
  [
    "that refuses connections is unreachable, as the API server tells it",
    { livez: refusedByNode },
    "unreachable: HTTP status 503: error trying to reach service: connection refused",
  ],
  [
    "whose pod crashes is unreachable, with the state of its pod",
    { livez: refusedByNode, status: status("Running", "CrashLoopBackOff") },
    "unreachable: its pod is Running (CrashLoopBackOff); HTTP status 503",
  ],
  [
    "whose image cannot be pulled is unreachable, with the state of its pod",
    { livez: refusedByNode, status: status("Pending", "ErrImagePull") },
    "unreachable: its pod is Pending (ErrImagePull); HTTP status 503",
  ],
])("a node %s", async (_what, pod, expected) => {
  const [node] = await gatherOf([{ node: "node-a", ...pod }]);
  expect(`${node?.state}: ${node?.reason}`.slice(0, expected.length)).toBe(expected);
  expect(schemaErrors("fleet", { nodes: [node], ejections: [] })).toEqual([]);
});

test("a node before its first verification is unverified", async () => {
  const body = JSON.stringify({ currentTime: ago(0), lastVerified: "0001-01-01T00:00:00Z" });
  const [node] = await gatherOf([{ node: "node-a", livez: { status: 200, body } }]);
  expect(node).toMatchObject({ state: "unverified", reason: "the kernel has not been verified yet" });
});

test("pods that end or have ended stand for their node only where it has no other", async () => {
  const running = livez(200, 5);
  const nodes = await gatherOf([
    { node: "a", name: "a-old", deletionTimestamp: ago(3), livez: refusedByNode },
    { node: "a", name: "a-new", livez: running },
    { node: "b", name: "b-evicted", status: { phase: "Failed", reason: "Evicted" }, livez: refusedByNode },
    { node: "b", name: "b-new", livez: running },
    { node: "c", name: "c-evicted", status: { phase: "Failed", reason: "Evicted" }, livez: refusedByNode },
    { node: "d", name: "d-old", deletionTimestamp: ago(3), livez: running },
    { node: "e", name: "e-one", livez: running },
    { node: "e", name: "e-two", livez: refusedByNode },
  ]);
  expect(nodes.map(({ pod, state }) => `${pod} ${state}`)).toEqual([
    "c-evicted unreachable",
    "e-two unreachable",
    "a-new healthy",
    "b-new healthy",
    "d-old healthy",
    "e-one healthy",
  ]);
  expect(nodes[0]?.reason).toMatch(/^its pod is Failed \(Evicted\); /);
  expect(fleetText(nodes).trimEnd().split("\n").at(-1)).toBe("5 nodes, 3 healthy");
});

test("fleet asks 1,000 nodes once each, at most 200 at a time", async () => {
  const names = Array.from({ length: 1000 }, (_, index) => `node-${String(index).padStart(4, "0")}`);
  serve(
    names.map((node) => ({ node, livez: livez(200, 10), metrics: metrics() })),
    names,
  );
  const answer = api.other;
  let now = 0;
  let most = 0;
  api.other = async (path, query) => {
    now += 1;
    most = Math.max(most, now);
    await new Promise((resolve) => setImmediate(resolve));
    now -= 1;
    return await answer(path, query);
  };
  const nodes = await gather();
  expect(nodes.map(({ node }) => node)).toEqual(names);
  expect(nodes.every(({ state }) => state === "healthy")).toBe(true);
  expect(most).toBeGreaterThan(16);
  expect(most).toBeLessThanOrEqual(200);
  expect(api.requests.filter(({ path }) => path.endsWith("/proxy/livez"))).toHaveLength(1000);
});

test("fleet fails with the reason and a hint when the API server refuses a list", async () => {
  api.other = () => ({ status: 403, body: "{}" });
  await expect(gather()).rejects.toMatchObject({
    code: "API_UNAVAILABLE",
    message: expect.stringMatching(/^cannot list \/api\/v1\/nodes at https:\/\/stub: HTTP 403/),
    hint: expect.stringContaining("pods/proxy"),
  });
  api.other = () => ({ status: 500, body: "{}" });
  await expect(gather()).rejects.toMatchObject({ hint: expect.stringContaining("--context") });
});
