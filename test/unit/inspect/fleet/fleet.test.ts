import { afterEach, beforeEach, expect, test } from "vitest";
import { fleetText } from "../../../../src/cli/print/fleet-text.ts";
import { gatherFleet } from "../../../../src/inspect/fleet/gather-fleet.ts";
import type { HttpApiClient } from "../../../../src/kube/client/client.ts";
import { schemaErrors } from "../../../support/output-schema.ts";
import { type OtherAnswer, StubApi } from "../../../support/stub-api/stub-api.ts";
import { stubClient } from "../../../support/stub-api/stub-client.ts";

const NOW = Date.parse("2026-11-21T12:00:00Z");

interface Pod {
  readonly node: string;
  readonly livez?: OtherAnswer | undefined;
  readonly metrics?: string;
}

let api: StubApi;
let client: HttpApiClient;
beforeEach(async () => {
  api = await StubApi.start();
  client = stubClient(api);
});
afterEach(async () => {
  client.close();
  await api.close();
});

function livez(status: number, verifiedAgo: number, reasons: readonly string[] = []): OtherAnswer {
  const times = {
    currentTime: new Date(NOW).toISOString(),
    lastVerified: new Date(NOW - verifiedAgo * 1000).toISOString(),
  };
  return { status, body: JSON.stringify({ ...times, reasons }) };
}

function metrics({ since = 0, drift = 0, quarantined = 0, refused = 0 } = {}): string {
  return `# HELP nft_proxy_build_info The version
nft_proxy_build_info{version="1.2.3"} 1
nft_proxy_out_of_sync_since_timestamp_seconds ${since === 0 ? 0 : NOW / 1000 - since}
nft_proxy_drift_repairs_total{kind="table"} ${drift}
nft_proxy_drift_repairs_total{kind="element"} 1
nft_proxy_quarantined_service_ports ${quarantined}
nft_proxy_refused_packets_total{namespace="shop",service="cart",reason="no-endpoints"} ${refused}
nft_proxy_refused_packets_total{namespace="",service="",reason="no-service"} 2
nft_proxy_change_lag_seconds_bucket{le="0.01"} 90
nft_proxy_change_lag_seconds_bucket{le="0.05"} 99
nft_proxy_change_lag_seconds_bucket{le="+Inf"} 100
nft_proxy_change_lag_seconds_count 100
`;
}

/** Serves nodes, pods (in pages) and their proxies. */
function serve(pods: readonly Pod[], nodes: readonly string[]): void {
  const page = (items: readonly object[], query: Readonly<Record<string, string>>): OtherAnswer => {
    const start = Number(query.continue ?? 0);
    const end = start + Number(query.limit ?? items.length);
    const metadata = end < items.length ? { continue: String(end) } : {};
    return { status: 200, body: JSON.stringify({ items: items.slice(start, end), metadata }) };
  };
  api.other = (path, query) => {
    if (path === "/api/v1/nodes")
      return page(
        nodes.map((name) => ({ metadata: { name } })),
        query,
      );
    if (path === "/api/v1/namespaces/kube-system/pods") {
      expect(query.labelSelector).toBe("app.kubernetes.io/name=nft-proxy");
      return page(
        pods.map(({ node }) => ({ metadata: { name: `pod-${node}` }, spec: { nodeName: node } })),
        query,
      );
    }
    const [, node = "", port = ""] = /\/pods\/pod-([^:]+):(\d+)\/proxy/.exec(path) ?? [];
    const pod = pods.find((one) => one.node === node);
    if (port === "10256") return pod?.livez;
    return { status: pod?.metrics === undefined ? 503 : 200, body: pod?.metrics ?? "error trying to reach service" };
  };
}

function gather() {
  const ports = { healthPort: 10256, metricsPort: 10249, answerWithin: 60_000 };
  return gatherFleet({ client, namespace: "kube-system", selector: "app.kubernetes.io/name=nft-proxy", ...ports });
}

test("fleet gives a line for each node, the worst first", async () => {
  const pods: Pod[] = [
    { node: "node-a", livez: livez(200, 12), metrics: metrics() },
    { node: "node-b", livez: livez(200, 3), metrics: metrics({ drift: 4 }) },
    { node: "node-c", livez: livez(503, 90, ["IPv4: not synced for 70 s"]), metrics: metrics({ since: 70 }) },
    { node: "node-d", livez: livez(200, 5), metrics: metrics({ since: 8 }) },
    { node: "node-e", livez: livez(200, 5), metrics: metrics({ quarantined: 2 }) },
    { node: "node-f", livez: { status: 502, body: "bad gateway" } },
    { node: "node-g", livez: livez(200, 20) },
    { node: "node-h", livez: livez(200, 7200), metrics: metrics() },
    { node: "node-i", livez: livez(200, 9), metrics: metrics({ refused: 40 }) },
  ];
  serve(pods, [...pods.map(({ node }) => node), "node-z"]);
  const nodes = await gather();
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
    metrics: { version: "1.2.3", outOfSyncFor: 0, driftRepairs: 5, quarantined: 0, refused: 2, lagP99: 0.05 },
  });
  expect(schemaErrors("fleet", { nodes })).toEqual([]);
  expect(schemaErrors("fleet", { nodes: [{ ...nodes[0], state: "fine" }] })).toHaveLength(1);
  const lines = fleetText(nodes).trimEnd().split("\n");
  expect(lines[3]).toMatch(
    /^node-c +unhealthy +1\.2\.3 +1m30s ago +1m10s +1 +0 +2 +0\.05 s +IPv4: not synced for 70 s$/,
  );
  expect(lines.at(-2)).toMatch(/^node-g +healthy +- +20s ago +- +- +- +- +-$/);
  expect(lines.at(-1)).toBe("10 nodes, 4 healthy");
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

test("fleet fails with the reason when pods may not be listed", async () => {
  api.other = () => ({ status: 403, body: "{}" });
  await expect(gather()).rejects.toMatchObject({
    code: "API_UNAVAILABLE",
    message: expect.stringContaining("HTTP status 403"),
  });
});
