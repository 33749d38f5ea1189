import { describe, expect, test } from "vitest";
import { AppError } from "../../../../src/base/errors.ts";
import { EventChannel } from "../../../../src/daemon/events/event-channel.ts";
import type { EventNote } from "../../../../src/daemon/events/events.ts";
import { createMetrics } from "../../../../src/daemon/metrics/metrics.ts";
import { Telemetry } from "../../../../src/daemon/metrics/telemetry.ts";
import type { ServicePortKey } from "../../../../src/model/ids.ts";
import { creation } from "../../../../src/nft/delta.ts";
import type { SyncReport } from "../../../../src/sync/reconciler.ts";
import { cacheOf, localEndpoint, port, renderAll, service, slice } from "../../../support/build.ts";
import { ManualClock } from "../../../support/manual-clock.ts";
import { memoryLogger } from "../../../support/memory-logger.ts";

const BAD = "ip default/bad:/tcp" as ServicePortKey;
const NOTHING: SyncReport = { kind: "nothing", rendered: new Set(), deltas: [], applied: [], drift: [], refused: [] };
const TIMES = { startedAt: 1000, endedAt: 1250 };
const ip = renderAll({ services: [service()] }).state.ruleset.ip;
if (ip === undefined) throw new Error("no IPv4");
const gone = creation(ip, "create");
const flushed = { ...creation(ip, "create"), mode: "change" as const, addedSets: [], writtenChains: [] };

function setUp() {
  const metrics = createMetrics("1", { cpu: () => ({ user: 0, system: 0 }), residentBytes: () => 0, startedAt: 0 });
  const logger = memoryLogger();
  const told: EventNote[] = [];
  const cache = cacheOf({ services: [service({ name: "bad" })] });
  const sink = { send: async (_method: string, _path: string, body: object) => void told.push(body as EventNote) };
  const events = new EventChannel({ sink, clock: new ManualClock(), logger, metrics, cache });
  const telemetry = new Telemetry({ metrics, events, logger, families: ["ip"] });
  const value = async (name: string, labels = "") => {
    const text = await metrics.registry.metrics();
    return Number(
      text
        .split("\n")
        .find((line) => line.startsWith(name) && line.includes(labels))
        ?.split(" ")
        .at(-1),
    );
  };
  const settle = () => new Promise((resolve) => setImmediate(resolve));
  return { telemetry, logger, told, value, settle };
}

describe("a sync", () => {
  test("that succeeded is timed, for the families that are served, and logged for those who debug", async () => {
    const { telemetry, logger, value } = setUp();
    const applied = [{ bytes: 5000, durationMs: 20 }];
    telemetry.queued(1000);
    telemetry.synced({ ...NOTHING, kind: "partial", deltas: [flushed], applied }, TIMES, [{ family: "ip", at: 250 }]);
    expect(await value("kubeproxy_sync_proxy_rules_duration_seconds_sum", "IPv4")).toBe(0.25);
    expect(await value("kubeproxy_sync_proxy_rules_duration_seconds_count", "IPv6")).toBe(0);
    expect(await value("kubeproxy_sync_partial_proxy_rules_duration_seconds_count", "IPv4")).toBe(1);
    expect(await value("kubeproxy_sync_full_proxy_rules_duration_seconds_count", "IPv4")).toBe(0);
    expect(await value("kubeproxy_sync_proxy_rules_last_timestamp_seconds")).toBe(1.25);
    expect(await value("kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds")).toBe(1);
    expect(await value("kubeproxy_network_programming_duration_seconds_sum", "IPv4")).toBe(1);
    expect(await value("nft_proxy_transaction_bytes_sum")).toBe(5000);
    expect(await value("nft_proxy_nft_duration_seconds_sum")).toBe(0.02);
    expect(logger.lines).toMatchObject([{ level: "debug", message: "synced", fields: { chains: 0, sets: 0 } }]);
  });

  test("that failed is counted, logged with what proves it, and told to the cluster", async () => {
    const { telemetry, logger, told, value, settle } = setUp();
    telemetry.failed(new AppError("NFT_TIMEOUT", "nft hangs", { evidence: { stderr: "..." }, hint: "wait" }), true);
    telemetry.failed(new Error("odd"), false);
    await settle();
    expect(await value("kubeproxy_sync_proxy_rules_nftables_sync_failures_total", "IPv4")).toBe(2);
    expect(await value("nft_proxy_full_resyncs_total", "failed")).toBe(1);
    expect(logger.lines[0]).toMatchObject({
      level: "error",
      fields: { error: "nft hangs", stderr: "...", hint: "wait" },
    });
    expect(told.map(({ reason, note }) => [reason, note])).toEqual([
      ["SyncFailed", "nft hangs"],
      ["SyncFailed", "odd"],
    ]);
  });
});

describe("a full sync", () => {
  test("that found nothing different is no news", async () => {
    const { telemetry, logger, told, value, settle } = setUp();
    telemetry.synced({ ...NOTHING, kind: "full", reason: "periodic" }, TIMES, []);
    telemetry.synced({ ...NOTHING, kind: "full", reason: "start", unreadable: "a foreign table" }, TIMES, []);
    await settle();
    expect(await value("nft_proxy_full_resyncs_total", "same")).toBe(2);
    expect(logger.lines.map(({ level, message }) => [level, message])).toEqual(Array(2).fill(["info", "full sync"]));
    expect(told).toEqual([]);
  });

  test.each([
    ["a table that was gone", { drift: [gone] }, "table", "table ip nft-proxy was gone or foreign"],
    [
      "elements that differed",
      { drift: [flushed] },
      "element",
      "table ip nft-proxy: 0 chains, 0 sets, 3 elements differed",
    ],
    ["tables that cannot be read", { unreadable: "counter" }, "element", "our tables could not be read: counter"],
  ])("that found %s says so in the log, a metric and an Event", async (_what, found, kind, text) => {
    const { telemetry, logger, told, value, settle } = setUp();
    telemetry.synced({ ...NOTHING, kind: "full", reason: "drift", ...found }, TIMES, []);
    await settle();
    expect(await value("nft_proxy_full_resyncs_total", "repaired")).toBe(1);
    expect(await value("nft_proxy_drift_repairs_total", kind)).toBe(1);
    expect(logger.lines).toMatchObject([{ level: "warn", fields: { reason: "drift", found: text } }]);
    expect(told).toMatchObject([{ reason: "RulesRepaired", note: expect.stringContaining(text) }]);
  });
});

describe("service ports", () => {
  test("that the kernel refuses are named, and when it takes them, too", async () => {
    const { telemetry, logger, told, settle } = setUp();
    telemetry.synced({ ...NOTHING, refused: [BAD] }, TIMES, []);
    telemetry.excluded(new Set([BAD]));
    telemetry.excluded(new Set([BAD]));
    telemetry.excluded(new Set());
    await settle();
    expect(told).toMatchObject([
      { reason: "ServicePortQuarantined", regarding: { name: "bad", uid: "uid-default/bad" } },
    ]);
    expect(logger.lines.filter(({ level }) => level !== "debug").map(({ message }) => message)).toEqual([
      "the kernel refuses a service port, which is left out",
      "a service port is no longer left out",
    ]);
  });

  test("that lost an address to an older Service are named once", async () => {
    const { telemetry, logger, told, value, settle } = setUp();
    const [old, young] = [service({ name: "old", createdAt: 1 }), service({ name: "young", createdAt: 2 })];
    const { state } = renderAll({ services: [old, young] });
    telemetry.conflicts(state.conflicts());
    telemetry.conflicts(state.conflicts());
    await settle();
    expect(await value("nft_proxy_contested_service_ports")).toBe(1);
    expect(logger.lines).toHaveLength(1);
    expect(told).toMatchObject([{ reason: "AddressConflict", regarding: { name: "young" } }]);
    telemetry.conflicts([]);
    expect(await value("nft_proxy_contested_service_ports")).toBe(0);
  });
});

test("chains that could not be deleted are counted", async () => {
  const { telemetry, logger, value } = setUp();
  telemetry.tidyFailed(new Error("busy"));
  expect(await value("kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total", "IPv4")).toBe(1);
  expect(logger.lines).toMatchObject([{ level: "info", fields: { error: "busy" } }]);
});

test("gauges are read from the state", async () => {
  const { telemetry, value } = setUp();
  const local = service({ internal: "Local", external: "Local", ports: [port(80, { nodePort: 30080 })] });
  const elsewhere = slice({ endpoints: ["10.244.2.11"] });
  telemetry.gauges(renderAll({ services: [local], slices: [elsewhere] }).state, 3);
  expect(await value("nft_proxy_quarantined_service_ports")).toBe(3);
  expect(await value("nft_proxy_map_elements", 'family="ip",map="cluster-ips"')).toBe(1);
  expect(await value("nft_proxy_map_capacity", 'family="ip",map="affinity"')).toBe(1024);
  const missing = "kubeproxy_sync_proxy_rules_no_local_endpoints_total";
  expect([await value(missing, "internal"), await value(missing, "external")]).toEqual([1, 1]);
  telemetry.gauges(
    renderAll({ services: [local], slices: [slice({ endpoints: [localEndpoint("10.244.1.11")] })] }).state,
    0,
  );
  expect([await value(missing, "internal"), await value(missing, "external")]).toEqual([0, 0]);
});
