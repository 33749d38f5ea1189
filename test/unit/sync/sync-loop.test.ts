import { describe, expect, test, vi } from "vitest";
import { resolveOptions } from "../../../src/config/resolve.ts";
import { ALL_FEATURES } from "../../../src/features/selection.ts";
import { RESOURCE_NAMES } from "../../../src/kube/source.ts";
import { ObjectCache } from "../../../src/model/object-cache.ts";
import { removalTransaction } from "../../../src/nft/transaction.ts";
import { BoundedFrequencyRunner } from "../../../src/sync/bounded-frequency-runner.ts";
import { ChangeTracker } from "../../../src/sync/change-tracker.ts";
import { NodeContextReader } from "../../../src/sync/node-context.ts";
import { Reconciler } from "../../../src/sync/reconciler.ts";
import { SyncLoop } from "../../../src/sync/sync-loop.ts";
import type { SyncFailure, SyncReport } from "../../../src/sync/sync-report.ts";
import { node, port, service, slice } from "../../support/build.ts";
import { FakeNft } from "../../support/fake-nft.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { memoryLogger } from "../../support/memory-logger.ts";

function setUp() {
  const fake = new FakeNft();
  const clock = new ManualClock(100_000);
  const logger = memoryLogger();
  const cache = new ObjectCache("node-1");
  const options = { inForce: { ...resolveOptions().options, features: ALL_FEATURES } };
  const view = { families: ["ip", "ip6"], addresses: { ip: [], ip6: [] }, local: [] } as const;
  const nodeContext = new NodeContextReader({
    options: () => options.inForce,
    cache,
    host: view,
    apiServers: () => [],
    readHost: async () => view,
  });
  const runner = new BoundedFrequencyRunner(clock, () => 1000);
  const tracker = new ChangeTracker({
    cache,
    clock,
    logger,
    onChange: () => runner.request(),
    awaitsPodCIDRs: false,
  });
  const reconciler = new Reconciler({ cache, nft: fake.nft, tables: fake.tables });
  const reports: SyncReport[] = [];
  const failures: SyncFailure[] = [];
  const cleanUps: unknown[] = [];
  const faulty = {
    synced() {
      throw new Error("a faulty subscriber");
    },
  };
  const keeper = {
    synced: (report: SyncReport) => void reports.push(report),
    failed: (failure: SyncFailure) => void failures.push(failure),
    cleanUpFailed: (error: unknown) => void cleanUps.push(error),
  };
  const subscribers = [faulty, keeper];
  const loop = new SyncLoop({
    clock,
    logger,
    tracker,
    runner,
    reconciler,
    nodeContext,
  });
  loop.start(subscribers);
  const handlers = tracker.handlers();
  /** Lets `ms` pass, and then whatever began to its end. */
  const pass = async (ms: number) => {
    clock.advance(ms);
    // Rendering on a busy machine takes several turns of the event loop.
    for (let n = 0; n < 5; n++) await new Promise((resolve) => setImmediate(resolve));
  };
  const list = async () => {
    handlers.services.onUpsert("default/web", service(), undefined);
    for (const name of RESOURCE_NAMES) handlers[name].onSynced();
    await pass(0);
  };
  return {
    cache,
    fake,
    clock,
    logger,
    options,
    tracker,
    nodeContext,
    loop,
    handlers,
    reports,
    failures,
    cleanUps,
    pass,
    list,
  };
}

/** The Service with a limit of its clients, which has a chain. */
const limited = (connections: number) => service({ clientLimits: { connections } });

describe("SyncLoop", () => {
  test("programs nothing before every resource has been listed", async () => {
    const { loop, fake, list, pass, reports } = setUp();
    loop.requestFullSync("periodic");
    await pass(5000);
    expect(fake.runs).toEqual([]);
    await list();
    expect(reports).toMatchObject([{ kind: "full", reason: "start" }]);
  });

  test("gives one report of a change to every subscriber, also when one of them throws", async () => {
    const { handlers, reports, logger, list, pass } = setUp();
    await list();
    const endpoints = { ...slice({ endpoints: ["10.244.2.11"] }), lastChangeTriggerTime: 99_000 };
    handlers.endpointslices.onUpsert("default/web-ip", endpoints, undefined);
    await pass(1000);
    expect(reports).toHaveLength(2);
    expect(reports[1]).toMatchObject({
      kind: "partial",
      rendered: new Set(["default/web"]),
      triggerTimes: [{ family: "ip", at: 99_000 }],
    });
    expect(reports[1]?.nodeContext.map(({ family }) => family)).toEqual(["ip", "ip6"]);
    expect(logger.lines.filter(({ level }) => level === "error")).toMatchObject([
      { fields: { error: "a faulty subscriber" } },
      { fields: { error: "a faulty subscriber" } },
    ]);
  });

  test("keeps the changes of a failed sync for the next one", async () => {
    const { fake, handlers, reports, failures, list, pass } = setUp();
    await list();
    fake.timesOut = true;
    const endpoints = { ...slice({ endpoints: ["10.244.2.11"] }), lastChangeTriggerTime: 99_000 };
    handlers.endpointslices.onUpsert("default/web-ip", endpoints, undefined);
    await pass(1000);
    expect(failures).toMatchObject([{ isFull: false, error: { code: "NFT_TIMEOUT" } }]);
    fake.timesOut = false;
    await pass(500);
    expect(reports[1]).toMatchObject({ kind: "full", reason: "failure", rendered: new Set(["default/web"]) });
    expect(reports[1]?.triggerTimes).toEqual([{ family: "ip", at: 99_000 }]);
  });

  test("keeps the changes for the next sync if there is no node context", async () => {
    const { nodeContext, tracker, handlers, reports, failures, list, pass } = setUp();
    await list();
    vi.spyOn(nodeContext, "current").mockImplementationOnce(() => {
      throw new Error("no addresses");
    });
    const dns = service({ name: "dns", clusterIPs: ["10.96.0.53"] });
    handlers.services.onUpsert("default/dns", dns, undefined);
    await pass(1000);
    expect(failures).toMatchObject([{ isFull: false, error: { message: "no addresses" } }]);
    await pass(500);
    expect(reports[1]).toMatchObject({ kind: "partial", rendered: new Set(["default/dns"]) });
    expect(reports[1]?.receivedAt).toHaveLength(1);
    expect(tracker.serviceChanges.unsynced).toBe(0);
  });

  test.each([
    ["back", 90_000_000],
    ["forth", -90_000_000],
  ])("times the lag of a change rightly when the wall clock is set %s meanwhile", async (_where, step) => {
    const { clock, fake, handlers, reports, list, pass } = setUp();
    await list();
    clock.advance(90_000_000 + 1000);
    const endpoints = { ...slice({ endpoints: ["10.244.2.11"] }), lastChangeTriggerTime: clock.now() - 500 };
    handlers.endpointslices.onUpsert("default/web-ip", endpoints, undefined);
    clock.set(clock.now() - step);
    fake.before = () => {
      clock.set(clock.now() + 3 * step);
    };
    await pass(1000);
    const { endedAt = 0, receivedAt = [], triggerTimes = [] } = reports[1] ?? {};
    expect(receivedAt.map((at) => endedAt - at)).toEqual([1000]);
    expect(triggerTimes.map(({ at }) => endedAt - at)).toEqual([1500]);
  });

  test("reports nothing of a sync whose listings end because the process stops", async () => {
    const { fake, list, reports, failures, logger } = setUp();
    fake.before = () => fake.nft.stopReading();
    await list();
    expect([reports, failures]).toEqual([[], []]);
    expect(logger.lines.filter(({ level }) => level !== "info")).toEqual([]);
    expect(fake.runs).toEqual(["list"]);
  });

  test("reports since when a change that came during the sync has waited", async () => {
    const { clock, fake, tracker, handlers, reports, list } = setUp();
    fake.before = () => {
      fake.before = () => {};
      clock.advance(300);
      handlers.services.onUpsert(
        "default/dns",
        service({ name: "dns", clusterIPs: ["10.96.0.53"] }),
        undefined,
      );
    };
    await list();
    expect(reports).toMatchObject([{ startedAt: 100_000, endedAt: 100_300, durationMs: 300 }]);
    expect(tracker.serviceChanges, "the first one is in the kernel").toEqual({ total: 2, unsynced: 1 });
  });

  test("reports how long a sync took when the wall clock is set meanwhile", async () => {
    const { clock, fake, reports, list } = setUp();
    fake.before = () => {
      fake.before = () => {};
      clock.advance(300);
      clock.set(0);
    };
    await list();
    expect(reports).toMatchObject([{ startedAt: 100_000, endedAt: 100_300 }]);
  });

  test("gives the desired ruleset unless a repair is due, also while a sync is due", async () => {
    const { loop, handlers, list, pass } = setUp();
    const isGiven = () => loop.desiredUnlessRepairing !== undefined;
    expect(isGiven()).toBe(false);
    await list();
    expect(isGiven()).toBe(true);
    handlers.nodes.onUpsert("node-1", node(), undefined);
    expect(isGiven()).toBe(true);
    await pass(1000);
    expect(isGiven()).toBe(true);
    loop.requestFullSync("drift");
    expect(isGiven()).toBe(false);
    await pass(1000);
    expect(isGiven()).toBe(true);
  });

  test("syncs when the node context is no longer that of the last sync, and only then", async () => {
    const { loop, fake, options, reports, list, pass } = setUp();
    await list();
    const runs = fake.runs.length;
    loop.requestIfContextChanged();
    await pass(1000);
    expect(fake.runs).toHaveLength(runs);
    options.inForce = { ...options.inForce, masqueradeAll: true };
    loop.requestIfContextChanged();
    await pass(0);
    expect(reports[1]?.nodeContext).toMatchObject([{ masqueradeAll: true }, { masqueradeAll: true }]);
  });

  test("makes no pause between syncs while Services wait for the next portion", async () => {
    const { handlers, reports, list, pass } = setUp();
    await list();
    for (let n = 1; n <= 3; n++) {
      const ports = Array.from({ length: 3000 }, (_, k) => port(k + 1, { name: `p${k}` }));
      handlers.services.onUpsert(
        `default/s${n}`,
        service({ name: `s${n}`, clusterIPs: [`10.96.1.${n}`], ports }),
        undefined,
      );
    }
    for (let n = 0; n < 60 && (reports.at(-1)?.waiting.size !== 0 || reports.length < 3); n++)
      await pass(n === 0 ? 1000 : 0);
    expect(reports.length).toBeGreaterThan(3);
  });

  test("repairs drift without waiting for the interval", async () => {
    const { loop, fake, reports, list, pass } = setUp();
    await list();
    fake.kernel.apply(removalTransaction([{ family: "ip", name: "nft-proxy" }]));
    loop.requestFullSync("drift");
    await pass(0);
    expect(reports[1]).toMatchObject({ reason: "drift", repaired: { kind: "table" } });
  });

  test("reports stale chains that cannot be deleted to subscribers", async () => {
    const { loop, fake, handlers, cleanUps, list, pass } = setUp();
    await list();
    handlers.endpointslices.onUpsert("default/web-ip", slice({ endpoints: ["10.244.2.11"] }), undefined);
    for (const connections of [2, 1]) {
      handlers.services.onUpsert("default/web", limited(connections), undefined);
      await pass(1000);
    }
    fake.timesOut = true;
    await loop.deleteStaleChains();
    expect(cleanUps).toMatchObject([{ code: "NFT_TIMEOUT" }]);
    fake.timesOut = false;
    await loop.deleteStaleChains();
    expect([...(fake.kernel.ruleset.ip?.chains.keys() ?? [])]).not.toContain("client-limit-2");
  });

  test("tries again what the kernel refused, if there is anything", async () => {
    const { loop, fake, handlers, reports, list, pass } = setUp();
    fake.refuses = "10.96.6.66";
    handlers.services.onUpsert(
      "default/bad",
      service({ name: "bad", clusterIPs: ["10.96.6.66"] }),
      undefined,
    );
    await list();
    expect(reports[0]?.quarantineChange.begun).toHaveLength(1);
    fake.refuses = undefined;
    loop.retryRefused();
    await pass(1000);
    expect(reports[1]?.quarantineChange.ended).toHaveLength(1);
    loop.retryRefused();
    await pass(1000);
    expect(reports).toHaveLength(2);
  });

  test("deletes stale chains after the sync that is due, once", async () => {
    const { loop, fake, handlers, list, pass } = setUp();
    await list();
    handlers.endpointslices.onUpsert("default/web-ip", slice({ endpoints: ["10.244.2.11"] }), undefined);
    for (const connections of [2, 1]) {
      handlers.services.onUpsert("default/web", limited(connections), undefined);
      await pass(1000);
    }
    const runs = fake.runs.length;
    handlers.services.onUpsert(
      "default/other",
      service({ name: "other", clusterIPs: ["10.96.0.11"] }),
      undefined,
    );
    await loop.deleteStaleChains();
    expect(fake.runs).toHaveLength(runs);
    const chains = () => [...(fake.kernel.ruleset.ip?.chains.keys() ?? [])];
    expect(chains()).toContain("client-limit-2");
    await pass(1000);
    expect(chains()).not.toContain("client-limit-2");
    const after = fake.runs.length;
    handlers.services.onUpsert("default/web", limited(3), undefined);
    await pass(1000);
    expect(chains()).toContain("client-limit-1");
    expect(fake.runs.length).toBeGreaterThan(after);
  });

  test("a sync waits until stale chains are deleted, however often that was requested", async () => {
    const { loop, fake, handlers, list, pass } = setUp();
    await list();
    handlers.endpointslices.onUpsert("default/web-ip", slice({ endpoints: ["10.244.2.11"] }), undefined);
    for (const connections of [2, 1]) {
      handlers.services.onUpsert("default/web", limited(connections), undefined);
      await pass(1000);
    }
    let end: () => void = () => {};
    fake.before = () => new Promise((resolve) => (end = resolve));
    const deleted = loop.deleteStaleChains();
    await pass(0);
    const runs = fake.runs.length;
    void loop.deleteStaleChains();
    loop.requestFullSync("drift");
    await pass(0);
    expect(fake.runs).toHaveLength(runs);
    fake.before = () => {};
    end();
    await deleted;
    await pass(0);
    expect(fake.runs.length).toBeGreaterThan(runs);
  });

  test("makes a change between two syncs: it waits for the current one, and the next one waits for it", async () => {
    const { loop, fake, list, pass } = setUp();
    await list();
    const order: string[] = [];
    const ends: (() => void)[] = [];
    fake.before = () => {
      order.push("sync");
      return new Promise((resolve) => ends.push(resolve));
    };
    loop.requestFullSync("drift");
    await pass(0);
    expect(order).toEqual(["sync"]);
    const change = () => {
      order.push("change");
      return new Promise<string>((resolve) => ends.push(() => resolve("done")));
    };
    const changed = loop.betweenSyncs(change);
    const failed = loop.betweenSyncs(() => Promise.reject(new Error("refused")));
    await pass(0);
    expect(order).toEqual(["sync"]);
    fake.before = () => void order.push("sync");
    ends[0]?.();
    await expect.poll(() => order.at(-1)).toBe("change");
    loop.requestFullSync("drift");
    await pass(1000);
    expect(order.at(-1)).toBe("change");
    ends[1]?.();
    expect(await changed).toBe("done");
    await expect(failed).rejects.toThrow("refused");
    await pass(1000);
    expect(order.at(-1)).toBe("sync");
  });

  test("stop() starts no more syncs", async () => {
    const { loop, fake, handlers, list, pass } = setUp();
    await list();
    const runs = fake.runs.length;
    await loop.stop();
    handlers.endpointslices.onUpsert("default/web-ip", slice({ endpoints: ["10.244.2.11"] }), undefined);
    loop.requestFullSync("periodic");
    await pass(60_000);
    expect(fake.runs).toHaveLength(runs);
  });

  test("gives objects and rules of one moment: now, or after the next successful sync", async () => {
    const { loop, list, pass, handlers, cache } = setUp();
    await list();
    const endpoints = () =>
      loop.atOneMoment(
        () => cache.allSlices().flatMap((one) => one.endpoints.length),
        (counts, { ip }) => [counts, ip?.sets.get("endpoints")?.elements.size],
      );
    expect(await endpoints()).toEqual([[], 0]);
    handlers.endpointslices.onUpsert("default/web-1", slice({ endpoints: ["10.244.2.11"] }), undefined);
    const moment = endpoints();
    await pass(1000);
    expect(await moment).toEqual([[1], 1]);
  });

  test("gives the objects and the last rules that the kernel was given if no sync succeeds for 5 s", async () => {
    const { loop, list, pass, handlers, cache, fake } = setUp();
    await list();
    fake.timesOut = true;
    handlers.endpointslices.onUpsert("default/web-1", slice({ endpoints: ["10.244.2.11"] }), undefined);
    const moment = loop.atOneMoment(
      () => cache.allSlices().length,
      (count, { ip }) => [count, ip?.sets.get("endpoints")?.elements.size],
    );
    for (let n = 0; n < 6; n++) await pass(1000);
    expect(await moment).toEqual([1, 0]);
  });

  test.each([
    ["reads", 1000],
    ["uses what it read", 1000],
    ["reads after 5 s without a sync", 6000],
  ])("goes on if a caller throws while it %s, and gives the error to the caller", async (when, ms) => {
    const { loop, list, pass, handlers, fake, reports, failures } = setUp();
    await list();
    const before = reports.length;
    fake.timesOut = ms > 1000;
    handlers.endpointslices.onUpsert("default/web-1", slice({ endpoints: ["10.244.2.11"] }), undefined);
    const throwing = () => {
      throw new Error("a faulty caller");
    };
    const isReading = when.startsWith("reads");
    const moment = loop.atOneMoment(isReading ? throwing : () => {}, isReading ? () => {} : throwing);
    const failed = expect(moment).rejects.toThrow("a faulty caller");
    for (let passed = 0; passed < ms; passed += 1000) await pass(1000);
    await failed;
    fake.timesOut = false;
    await pass(60_000);
    expect(reports.length).toBeGreaterThan(before);
    if (ms === 1000) expect(failures).toEqual([]);
  });

  test("gives an error of a caller that need not wait to the caller", async () => {
    const { loop, list } = setUp();
    await list();
    const throwing = () => {
      throw new Error("a faulty caller");
    };
    await expect(loop.atOneMoment(throwing, () => {})).rejects.toThrow("a faulty caller");
  });
});
