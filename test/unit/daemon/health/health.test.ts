import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { Family } from "../../../../src/base/family.ts";
import {
  type HealthTracker,
  healthTracker,
  isServed,
  judgeHealth,
} from "../../../../src/daemon/health/health.ts";
import { type HealthPath, healthRoutes } from "../../../../src/daemon/health/health-routes.ts";
import { SyncHistory } from "../../../../src/daemon/health/sync-history.ts";
import type { DaemonProblem } from "../../../../src/socket/daemon-protocol.ts";
import type { FirstSyncCondition } from "../../../../src/sync/change-tracker.ts";
import type { SyncReport } from "../../../../src/sync/sync-report.ts";
import { node } from "../../../support/build.ts";
import { syncReport } from "../../../support/sync-report.ts";

const NOW = Date.UTC(2026, 10, 20, 12);
const THRESHOLD = 60_000;
const recorded = readFileSync(new URL("../../../fixtures/kube-proxy/endpoints.txt", import.meta.url), "utf8");

function recordedBody(path: string): Record<string, unknown> {
  const line = recorded.split("\n").find((text) => text.startsWith(`10256${path}: `)) ?? "";
  return JSON.parse(line.slice(line.indexOf("{"), line.lastIndexOf("}") + 1)) as Record<string, unknown>;
}

/** Returns every key of an object in order, nested keys after their parent. */
function keysOf(value: unknown): unknown[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).map(([key, inner]) => [key, typeof inner, ...keysOf(inner)]);
}

/** Returns a tracker, and the runner and node that it reads. */
function setUp(startedAt: number, families: readonly Family[] = ["ip", "ip6"]) {
  const runner: { pendingSince: number | undefined } = { pendingSince: undefined };
  const cache = { node: node(), isNodeKnown: true };
  const changes: { waitingFor: readonly FirstSyncCondition[] } = { waitingFor: [] };
  const clock = { now: () => startedAt, monotonic: () => 0 };
  const history = new SyncHistory();
  const tracker = healthTracker(families, clock, { runner, tracker: changes, cache, history });
  const syncedAt = (endedAt: number, excludedFamilies: SyncReport["excludedFamilies"] = new Map()) =>
    history.synced(syncReport({ endedAt, excludedFamilies }));
  const failed = (message: string) => history.failed({ error: new Error(message) });
  return { runner, cache, changes, tracker, syncedAt, failed };
}

interface Asked {
  readonly tracker: HealthTracker;
  readonly verifiedAt?: number;
  readonly quarantined?: number;
  readonly problems?: readonly DaemonProblem[];
}

const FOLLOWING: DaemonProblem = {
  kind: "following",
  level: "warning",
  found: "the daemon cannot follow services: HTTP 403: forbidden",
};
const OUT_OF_DATE: DaemonProblem = {
  kind: "programming",
  level: "fault",
  found: "the rules have been out of date for 1 min: nft hangs",
};

/** The fields of /livez that kube-proxy's answer does not have. */
const OWN_FIELDS = new Set(["lastVerified", "quarantinedServicePorts", "outOfSyncSince", "problems"]);

async function ask(
  { tracker, verifiedAt, quarantined = 0, problems = [] }: Asked,
  path: HealthPath,
  now = NOW,
) {
  const answers: [string, number][] = [];
  const source = {
    judge: () => judgeHealth(tracker.snapshot(), now, THRESHOLD),
    problems: () => problems,
    quarantinedCount: () => quarantined,
    health: tracker,
    history: { verifiedAt },
  };
  const routes = healthRoutes(source, { now: () => now }, (...answer) => answers.push(answer));
  const answer = await routes.get(path)?.(new URLSearchParams());
  expect(answers).toEqual([[path, answer?.status]]);
  return { status: answer?.status, body: JSON.parse(answer?.body ?? "") as Record<string, unknown> };
}

function synced(at: number) {
  const parts = setUp(at);
  parts.syncedAt(at);
  return parts;
}

describe("health", () => {
  test.each(["/healthz", "/livez"] as const)(
    "%s has the shape of kube-proxy's answer when all is well",
    async (path) => {
      const { status, body } = await ask(synced(NOW - 3_600_000), path);
      expect(status).toBe(200);
      const theirs = Object.fromEntries(Object.entries(body).filter(([key]) => !OWN_FIELDS.has(key)));
      expect(keysOf(theirs)).toEqual(keysOf(recordedBody(path)));
      expect(body).toMatchObject({
        lastUpdated: "2026-11-20T12:00:00.000Z",
        currentTime: "2026-11-20T12:00:00.000Z",
        healthy: true,
        status: { IPv4: { lastUpdated: "2026-11-20T11:00:00.000Z", healthy: true } },
      });
    },
  );

  test("/healthz and /livez are 503 with the reason once a change has waited for the threshold", async () => {
    const parts = synced(NOW - 100_000);
    parts.runner.pendingSince = NOW - 60_000;
    parts.failed("nft: Could not process rule");
    const reason = "the rules have been out of date for 60 s: nft: Could not process rule";
    for (const path of ["/healthz", "/livez"] as const) {
      const { status, body } = await ask(parts, path);
      expect(status).toBe(503);
      expect(body).toMatchObject({
        lastUpdated: "2026-11-20T11:58:20.000Z",
        healthy: false,
        status: { IPv4: { healthy: false, reason }, IPv6: { healthy: false, reason } },
        reasons: [reason],
      });
    }
    parts.runner.pendingSince = undefined;
    parts.syncedAt(NOW);
    expect((await ask(parts, "/healthz")).status, "the next sync ends it").toBe(200);
  });

  test("/healthz is 200 while a change has waited for less than the threshold", async () => {
    const parts = synced(NOW - 100_000);
    parts.runner.pendingSince = NOW - 59_999;
    expect((await ask(parts, "/healthz")).status).toBe(200);
  });

  test("before the first sync /healthz is unhealthy after the threshold, but /livez is not", async () => {
    const parts = setUp(NOW, ["ip"]);
    parts.changes.waitingFor = ["services", "podCIDRs"];
    expect((await ask(parts, "/healthz", NOW + 59_999)).status).toBe(200);
    const { status, body } = await ask(parts, "/healthz", NOW + 60_000);
    expect(status).toBe(503);
    expect(body).toMatchObject({
      lastUpdated: "0001-01-01T00:00:00Z",
      reasons: ["nothing has been programmed in the 60 s since the start: waiting for services, podCIDRs"],
      status: { IPv4: { healthy: false } },
    });
    expect(body.status).not.toHaveProperty("IPv6");
    expect((await ask(parts, "/livez", NOW + 60_000)).status).toBe(200);
  });

  test("/healthz stays 200 and names a family that the kernel refuses", async () => {
    const parts = setUp(NOW);
    const excludedFamilies = new Map([["ip6", "Operation not supported"] as const]);
    parts.syncedAt(NOW, excludedFamilies);
    const { status, body } = await ask(parts, "/healthz", NOW + 3_600_000);
    expect(status).toBe(200);
    expect(body).toMatchObject({
      healthy: true,
      status: {
        IPv4: { healthy: true },
        IPv6: { healthy: false, reason: "IPv6 is not served: Operation not supported" },
      },
      reasons: ["IPv6 is not served: Operation not supported"],
    });
    expect((await ask(parts, "/readyz")).status).toBe(200);
    const report = judgeHealth(parts.tracker.snapshot(), NOW, THRESHOLD);
    expect([isServed(report, "ip"), isServed(report, "ip6")], "for load balancers").toEqual([true, false]);
  });

  test("/livez reports the time of the last verification", async () => {
    const parts = { ...synced(NOW), verifiedAt: NOW - 12_000 };
    expect((await ask(parts, "/livez")).body).toMatchObject({ lastVerified: "2026-11-20T11:59:48.000Z" });
    expect((await ask(synced(NOW), "/livez")).body).toMatchObject({ lastVerified: "0001-01-01T00:00:00Z" });
  });

  test("/livez is 200 and reports a pending change, quarantined service ports and problems", async () => {
    const parts = { ...synced(NOW - 100_000), quarantined: 2, problems: [FOLLOWING] };
    expect((await ask(parts, "/livez")).body).not.toHaveProperty("outOfSyncSince");
    parts.runner.pendingSince = NOW - 5000;
    const own = {
      outOfSyncSince: "2026-11-20T11:59:55.000Z",
      quarantinedServicePorts: 2,
      problems: [{ kind: "following", found: FOLLOWING.found }],
    };
    expect(await ask(parts, "/livez")).toMatchObject({ status: 200, body: own });
  });

  test("/healthz is 200 with a reason for each problem, and says once that the rules are out of date", async () => {
    const parts = { ...synced(NOW - 100_000), problems: [FOLLOWING, OUT_OF_DATE] };
    const reasons = [FOLLOWING.found, OUT_OF_DATE.found];
    expect(await ask(parts, "/healthz")).toMatchObject({ status: 200, body: { healthy: true, reasons } });
    parts.runner.pendingSince = NOW - THRESHOLD;
    parts.failed("nft hangs");
    expect(await ask(parts, "/healthz")).toMatchObject({
      status: 503,
      body: { reasons: ["the rules have been out of date for 60 s: nft hangs", FOLLOWING.found] },
    });
  });

  test("/readyz is 503 until the first sync, and 200 from then on, even while syncs fail", async () => {
    const parts = setUp(NOW);
    expect(await ask(parts, "/readyz")).toMatchObject({ status: 503, body: { healthy: false } });
    parts.syncedAt(NOW);
    parts.runner.pendingSince = NOW;
    parts.failed("nft hangs");
    expect((await ask(parts, "/readyz", NOW + 3_600_000)).status, "though it is not healthy").toBe(200);
  });

  test("/healthz is 503 until the Node has been seen, and /livez is 200", async () => {
    const parts = synced(NOW);
    parts.cache.isNodeKnown = false;
    const reasons = ["the API server has not listed the Node node-1"];
    expect(await ask(parts, "/healthz")).toMatchObject({
      status: 503,
      body: { nodeEligible: false, reasons },
    });
    expect((await ask(parts, "/livez")).status).toBe(200);
  });

  test.each([
    [{ deleting: true, taints: [] }, "the node is being deleted"],
    [
      { deleting: false, taints: ["x", "ToBeDeletedByClusterAutoscaler"] },
      "the node has the taint ToBeDeletedByClusterAutoscaler",
    ],
  ])(
    "/healthz is 503 and /livez is 200 for a node that is about to be deleted (%o)",
    async (change, reason) => {
      const parts = synced(NOW);
      parts.cache.node = node(change);
      const { status, body } = await ask(parts, "/healthz");
      expect(status).toBe(503);
      expect(body).toMatchObject({ nodeEligible: false, healthy: false, reasons: [reason] });
      expect((await ask(parts, "/livez")).status).toBe(200);
      expect(judgeHealth(parts.tracker.snapshot(), NOW, THRESHOLD).proxyHealthy).toBe(true);
      parts.cache.node = node({ taints: ["x"] });
      expect((await ask(parts, "/healthz")).status).toBe(200);
    },
  );
});
