import { expect, test } from "vitest";
import { eventRecorder } from "../../../../src/daemon/events/event-recorder.ts";
import type { EventNote } from "../../../../src/daemon/events/events.ts";
import { syncEvents } from "../../../../src/daemon/events/sync-events.ts";
import type { ServicePortKey } from "../../../../src/model/ids.ts";
import { cacheOf, port, renderAll, service, testNodeContext } from "../../../support/build.ts";
import { ManualClock } from "../../../support/manual-clock.ts";
import { memoryLogger } from "../../../support/memory-logger.ts";
import { MISSING_TABLE, syncFailure, syncReport, syncReporter } from "../../../support/sync-report.ts";

function setUp() {
  let refusal: Error | undefined;
  const sent: EventNote[] = [];
  const logger = memoryLogger();
  const clock = new ManualClock();
  const send = async (_method: string, _path: string, body: object) => {
    if (refusal !== undefined) throw refusal;
    sent.push(body as EventNote);
  };
  const events = eventRecorder({
    send,
    clock,
    random: () => 0.5,
    logger,
    instance: "node-1",
    onDropped: () => {},
  });
  const cache = cacheOf({ services: [service({ name: "bad" })] });
  const settle = () => new Promise((resolve) => setImmediate(resolve));
  const refuse = (error: Error | undefined) => {
    refusal = error;
  };
  return { cache, subscriber: syncEvents(cache, events), sent, settle, clock, logger, refuse };
}

test("the API server's reason for refusing Events is logged once, and so is the end of the refusals", async () => {
  const { subscriber, settle, logger, refuse } = setUp();
  refuse(new Error("403 events is forbidden"));
  for (const reason of ["nft hangs", "nft is missing"]) subscriber.failed?.(syncFailure(new Error(reason)));
  await settle();
  refuse(undefined);
  subscriber.failed?.(syncFailure(new Error("nft is old")));
  await settle();
  expect(logger.lines.filter(({ level }) => level !== "debug")).toEqual([
    {
      level: "warn",
      fields: { error: "403 events is forbidden" },
      message: "cannot send Events to the API server (logged once)",
    },
    { level: "info", fields: { failed: 2, seconds: 0 }, message: "can send Events to the API server again" },
  ]);
});

test("a sync with nothing to report sends no Event", async () => {
  const { subscriber, sent, settle } = setUp();
  subscriber.synced(syncReport({ kind: "full", reason: "periodic" }));
  await settle();
  expect(sent).toEqual([]);
});

test("a failed sync is reported with its reason", async () => {
  const { subscriber, sent, settle } = setUp();
  subscriber.failed?.(syncFailure(new Error("nft hangs")));
  await settle();
  expect(sent).toMatchObject([
    { reason: "SyncFailed", note: "the rules on node node-1 are not updated, retrying: nft hangs" },
  ]);
});

test("repaired drift is reported with the differences", async () => {
  const { subscriber, sent, settle } = setUp();
  subscriber.synced(syncReport({ kind: "full", reason: "drift", drift: [MISSING_TABLE] }));
  await settle();
  expect(sent).toMatchObject([
    { reason: "RulesRepaired", note: expect.stringContaining("table ip nft-proxy was missing") },
  ]);
});

test("repaired drift is reported with the program that caused it, if known", async () => {
  const { subscriber, sent, settle } = setUp();
  subscriber.synced(
    syncReport({ kind: "partial", reason: "drift", drift: [MISSING_TABLE], author: "firewalld" }),
  );
  await settle();
  expect(sent).toMatchObject([
    { note: expect.stringMatching(/table ip nft-proxy was missing.*, by firewalld$/) },
  ]);
});

test("a refused service port is reported in an Event about its Service, which is not that of other nodes", () => {
  const recorded: EventNote[] = [];
  const { cache } = setUp();
  syncEvents(cache, { record: (event) => recorded.push(event) }).synced(
    syncReport({ quarantined: new Map([["ip default/bad/tcp" as ServicePortKey, "EINVAL"]]) }),
  );
  // Without a key of the cluster.
  expect(recorded).toEqual([
    {
      type: "Warning",
      reason: "ServicePortQuarantined",
      action: "Sync",
      note: "node node-1 has no rules for default/bad/tcp, which is quarantined: EINVAL",
      regarding: { kind: "Service", namespace: "default", name: "bad", uid: "uid-default/bad" },
    },
  ]);
});

test("a Service with many quarantined ports causes one Event", async () => {
  const { subscriber, sent, settle } = setUp();
  const keys = Array.from({ length: 200 }, (_, i) => `ip default/bad:p${i}/tcp` as ServicePortKey);
  const report = syncReporter();
  for (const reason of ["7 of 5 elements", "8 of 5 elements"]) {
    subscriber.synced(report({ quarantined: new Map(keys.map((key) => [key, reason])) }));
  }
  await settle();
  expect(sent).toMatchObject([
    {
      reason: "ServicePortQuarantined",
      note: expect.stringContaining("default/bad (200 service ports), which is quarantined: 7 of 5 elements"),
    },
  ]);
});

test("a service port that the kernel refuses again is reported again", async () => {
  const { subscriber, sent, settle, clock } = setUp();
  const key = "ip default/bad/tcp" as ServicePortKey;
  const report = syncReporter();
  const quarantined = new Map([[key, "EINVAL"]]);
  for (const refused of [[key], [], [key]]) {
    subscriber.synced(report({ quarantined, refused }));
    clock.advance(3_600_000);
  }
  await settle();
  expect(sent.map(({ reason }) => reason)).toEqual(["ServicePortQuarantined", "ServicePortQuarantined"]);
});

test("a Service that loses many addresses and ports causes one Event with some of them", async () => {
  const { subscriber, sent, settle, clock } = setUp();
  const ports = Array.from({ length: 400 }, (_, i) => port(1000 + i, { name: `p${i}` }));
  const services = (["old", "young"] as const).map((name, createdAt) => service({ name, createdAt, ports }));
  subscriber.synced(syncReport({ state: renderAll({ services }).state }));
  clock.advance(15_000);
  await settle();
  expect(sent).toMatchObject([
    {
      reason: "AddressConflict",
      regarding: { name: "young" },
      note: "default/young is not served at 400 of its addresses and ports, which default/old has: 10.96.0.10:1000/tcp, 10.96.0.10:1001/tcp, 10.96.0.10:1002/tcp, 10.96.0.10:1003/tcp, 10.96.0.10:1004/tcp and 395 more; change one of these Services (nft-proxy explain default/young lists all)",
    },
  ]);
});

test("a conflict is reported once, in an Event about the losing Service", async () => {
  const { subscriber, sent, settle, clock } = setUp();
  const [old, young] = [service({ name: "old", createdAt: 1 }), service({ name: "young", createdAt: 2 })];
  const { state } = renderAll({ services: [old, young] });
  for (let n = 0; n < 2; n++) subscriber.synced(syncReport({ state }));
  clock.advance(15_000);
  await settle();
  expect(sent).toMatchObject([{ reason: "AddressConflict", regarding: { name: "young" } }]);
});

test("a Service without its session affinity gets one Event from the whole cluster", async () => {
  const { subscriber, sent, settle, clock } = setUp();
  const sticky = ["a", "bad"].map((name, i) =>
    service({ name, createdAt: i, clusterIPs: [`10.96.0.1${i}`], affinitySeconds: 60 }),
  );
  const { state } = renderAll({ services: sticky }, testNodeContext({ maxStickyPorts: 1 }));
  const report = syncReporter();
  for (let i = 0; i < 2; i++) subscriber.synced(report({ state }));
  clock.advance(15_000);
  await settle();
  expect(sent).toMatchObject([
    {
      type: "Warning",
      reason: "SessionAffinityNotKept",
      regarding: { namespace: "default", name: "bad" },
      note: expect.stringMatching(
        /^default\/bad\/tcp is served without session affinity: the Services of a namespace can have 1 ports/,
      ),
    },
  ]);
});

test("a Service whose connection timeouts this node cannot set gets an Event", async () => {
  const { subscriber, sent, settle, clock } = setUp();
  const timed = service({ name: "timed", connectionTimeouts: { "tcp-established": 60 } });
  const { state } = renderAll({ services: [timed] }, testNodeContext({ lacking: ["connection-timeouts"] }));
  subscriber.synced(syncReporter()({ state }));
  clock.advance(15_000);
  await settle();
  expect(sent).toMatchObject([{ reason: "ConnectionTimeoutsNotSet", regarding: { name: "timed" } }]);
});
