import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { judgeHealth } from "../../../../src/daemon/health/health.ts";
import { healthRoutes } from "../../../../src/daemon/health/health-routes.ts";
import { HealthTracker } from "../../../../src/daemon/health/health-tracker.ts";

const NOW = Date.UTC(2026, 10, 20, 12);
const THRESHOLD = 60_000;
const recorded = readFileSync(new URL("../../../fixtures/kube-proxy/endpoints.txt", import.meta.url), "utf8");

function recordedBody(path: string): Record<string, unknown> {
  const line = recorded.split("\n").find((text) => text.startsWith(`10256${path}: `)) ?? "";
  return JSON.parse(line.slice(line.indexOf("{"), line.lastIndexOf("}") + 1)) as Record<string, unknown>;
}

/** Every key of an object, nested ones after their parent, in order. */
function keysOf(value: unknown): unknown[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).map(([key, inner]) => [key, typeof inner, ...keysOf(inner)]);
}

async function ask(tracker: HealthTracker, path: "/healthz" | "/livez", now = NOW) {
  const answers: [string, number][] = [];
  const routes = healthRoutes({
    snapshot: () => tracker.snapshot(),
    now: () => now,
    threshold: () => THRESHOLD,
    onAnswer: (...answer) => answers.push(answer),
  });
  const answer = await routes.get(path)?.(new URLSearchParams());
  expect(answers).toEqual([[path, answer?.status]]);
  return { status: answer?.status, body: JSON.parse(answer?.body ?? "") as Record<string, unknown> };
}

function synced(at: number): HealthTracker {
  const tracker = new HealthTracker(["ip", "ip6"], at);
  tracker.synced(at);
  return tracker;
}

describe("health", () => {
  test.each(["/healthz", "/livez"] as const)("%s has the recorded shape when all is well", async (path) => {
    const { status, body } = await ask(synced(NOW - 3_600_000), path);
    expect(status).toBe(200);
    expect(keysOf(body)).toEqual(keysOf(recordedBody(path)));
    expect(body).toMatchObject({
      lastUpdated: "2026-11-20T12:00:00.000Z",
      currentTime: "2026-11-20T12:00:00.000Z",
      healthy: true,
      status: { IPv4: { lastUpdated: "2026-11-20T11:00:00.000Z", healthy: true } },
    });
  });

  test("a change that waits too long is unhealthy and says why", async () => {
    const tracker = synced(NOW - 100_000);
    tracker.queued(NOW - 60_000);
    tracker.queued(NOW - 10_000);
    tracker.failed(NOW - 5000, "nft: Could not process rule");
    const reason = "the kernel has not been what the cluster wants for 60 s: nft: Could not process rule";
    for (const path of ["/healthz", "/livez"] as const) {
      const { status, body } = await ask(tracker, path);
      expect(status).toBe(503);
      expect(body).toMatchObject({
        lastUpdated: "2026-11-20T11:58:20.000Z",
        healthy: false,
        status: { IPv4: { healthy: false, reason }, IPv6: { healthy: false, reason } },
        reasons: [reason],
      });
    }
  });

  test("a change that has just come is not late yet", async () => {
    const tracker = synced(NOW - 100_000);
    tracker.queued(NOW - 59_999);
    expect((await ask(tracker, "/healthz")).status).toBe(200);
  });

  test("a failure counts from the failure when nothing was queued, and is over with the next sync", async () => {
    const tracker = synced(NOW - 100_000);
    tracker.failed(NOW - 60_000, "drift");
    expect((await ask(tracker, "/healthz")).status).toBe(503);
    tracker.synced(NOW);
    expect((await ask(tracker, "/healthz")).status).toBe(200);
  });

  test("what was wanted during a sync waits from when it was wanted", async () => {
    const tracker = synced(NOW - 100_000);
    tracker.queued(NOW - 90_000);
    tracker.synced(NOW - 1000, { wantedSince: NOW - 70_000 });
    expect((await ask(tracker, "/healthz")).status).toBe(503);
  });

  test("before the first sync /healthz is unhealthy after the threshold, /livez is not", async () => {
    const tracker = new HealthTracker(["ip"], NOW, "waiting for the API server");
    expect((await ask(tracker, "/healthz", NOW + 59_999)).status).toBe(200);
    const { status, body } = await ask(tracker, "/healthz", NOW + 60_000);
    expect(status).toBe(503);
    expect(body).toMatchObject({
      lastUpdated: "0001-01-01T00:00:00Z",
      reasons: ["nothing has been programmed in the 60 s since the start: waiting for the API server"],
      status: { IPv4: { healthy: false } },
    });
    expect(body.status).not.toHaveProperty("IPv6");
    expect((await ask(tracker, "/livez", NOW + 60_000)).status).toBe(200);
  });

  test.each([
    [{ deleting: true, taints: [] }, "the node is being deleted"],
    [
      { deleting: false, taints: ["x", "ToBeDeletedByClusterAutoscaler"] },
      "the node has the taint ToBeDeletedByClusterAutoscaler",
    ],
  ])("a node about to go takes no new connections (%o)", async (node, reason) => {
    const tracker = synced(NOW);
    tracker.nodeChanged(node);
    const { status, body } = await ask(tracker, "/healthz");
    expect(status).toBe(503);
    expect(body).toMatchObject({ nodeEligible: false, healthy: false, reasons: [reason] });
    expect((await ask(tracker, "/livez")).status).toBe(200);
    expect(judgeHealth(tracker.snapshot(), NOW, THRESHOLD).proxyHealthy).toBe(true);
    tracker.nodeChanged({ deleting: false, taints: ["x"] });
    expect((await ask(tracker, "/healthz")).status).toBe(200);
  });
});
