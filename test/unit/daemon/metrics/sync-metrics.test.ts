import { expect, test } from "vitest";
import { AppError } from "../../../../src/base/errors.ts";
import { renderAll, service } from "../../../support/build.ts";
import { metricValue, testMetrics } from "../../../support/metric-values.ts";
import { LOST_ELEMENTS, MISSING_TABLE, syncFailure, syncReport } from "../../../support/sync-report.ts";

function setUp() {
  const metrics = testMetrics();
  const value = (name: string, labels = "") => metricValue(metrics, name, labels);
  return { metrics, subscriber: metrics.syncs(["ip"]), value };
}

test("a successful sync is timed for each programmed family", async () => {
  const { subscriber, value } = setUp();
  const applied = [{ bytes: 5000, durationMs: 20 }];
  const triggerTimes = [{ family: "ip", at: 250 }] as const;
  const receivedAt = [950, 1240];
  subscriber.synced(
    syncReport({ kind: "partial", deltas: [LOST_ELEMENTS], applied, triggerTimes, receivedAt }),
  );
  expect(await value("nft_proxy_change_lag_seconds_count")).toBe(2);
  expect(await value("nft_proxy_change_lag_seconds_sum")).toBeCloseTo(0.31);
  expect(await value("kubeproxy_sync_proxy_rules_duration_seconds_sum", "IPv4")).toBe(0.25);
  expect(await value("kubeproxy_sync_proxy_rules_duration_seconds_count", "IPv6")).toBe(0);
  expect(await value("kubeproxy_sync_partial_proxy_rules_duration_seconds_count", "IPv4")).toBe(1);
  expect(await value("kubeproxy_sync_full_proxy_rules_duration_seconds_count", "IPv4")).toBe(0);
  expect(await value("kubeproxy_sync_proxy_rules_last_timestamp_seconds")).toBe(1.25);
  expect(await value("kubeproxy_network_programming_duration_seconds_sum", "IPv4")).toBe(1);
  expect(await value("nft_proxy_transaction_bytes_sum")).toBe(5000);
  expect(await value("nft_proxy_nft_duration_seconds_sum")).toBe(0.02);
});

test("failed syncs and clean-ups are counted separately", async () => {
  const { subscriber, value } = setUp();
  subscriber.failed?.(syncFailure(new AppError("NFT_TIMEOUT", "nft hangs"), true));
  subscriber.failed?.(syncFailure(new Error("odd")));
  subscriber.cleanUpFailed?.(new Error("busy"));
  expect(await value("kubeproxy_sync_proxy_rules_nftables_sync_failures_total", "IPv4")).toBe(2);
  expect(await value("nft_proxy_full_resyncs_total", "failed")).toBe(1);
  expect(await value("nft_proxy_nft_failures_total", "timeout")).toBe(1);
  expect(await value("nft_proxy_nft_failures_total", "other")).toBe(1);
  expect(await value("kubeproxy_sync_proxy_rules_duration_seconds_sum", "IPv4")).toBe(0.5);
  expect(await value("kubeproxy_sync_full_proxy_rules_duration_seconds_count", "IPv4")).toBe(1);
  expect(await value("kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total", "IPv4")).toBe(1);
});

test("a full sync without differences is counted as same, and so is one that replaces unreadable tables at the start", async () => {
  const { subscriber, value } = setUp();
  subscriber.synced(syncReport({ kind: "full", reason: "periodic" }));
  subscriber.synced(syncReport({ kind: "full", reason: "start", unreadable: "a foreign table" }));
  expect(await value("nft_proxy_full_resyncs_total", "same")).toBe(2);
});

test.each([
  ["a missing table", { drift: [MISSING_TABLE] }, "table", 29],
  ["other elements", { drift: [LOST_ELEMENTS] }, "element", 3],
  ["unreadable tables", { unreadable: "counter" }, "element", 0],
])("a full sync that repaired %s is counted as a repair", async (_found, found, kind, differences) => {
  const { subscriber, value } = setUp();
  subscriber.synced(syncReport({ kind: "full", reason: "drift", ...found }));
  expect(await value("nft_proxy_full_resyncs_total", "repaired")).toBe(1);
  expect(await value("nft_proxy_drift_repairs_total", kind)).toBe(1);
  expect(await value("nft_proxy_full_resync_differences_total")).toBeGreaterThanOrEqual(
    Math.min(differences, 3),
  );
});

test("service ports in conflict are counted while the conflict lasts", async () => {
  const { subscriber, value } = setUp();
  const [old, young] = [service({ name: "old", createdAt: 1 }), service({ name: "young", createdAt: 2 })];
  subscriber.synced(syncReport({ state: renderAll({ services: [old, young] }).state }));
  expect(await value("nft_proxy_contested_service_ports")).toBe(1);
  subscriber.synced(syncReport());
  expect(await value("nft_proxy_contested_service_ports")).toBe(0);
});

test("deleted stale UDP flows are counted by family", async () => {
  const { metrics, value } = setUp();
  metrics.observe("flowsCleaned", { deleted: { ip: 3, ip6: 1 }, duration: 500 });
  expect(await value("kubeproxy_conntrack_reconciler_deleted_entries_total", "IPv4")).toBe(3);
  expect(await value("kubeproxy_conntrack_reconciler_deleted_entries_total", "IPv6")).toBe(1);
  expect(await value("kubeproxy_conntrack_reconciler_sync_duration_seconds_sum", "IPv6")).toBe(0.5);
});
