import { describe, expect, test, vi } from "vitest";
import { DEFAULT_PASSIVE_HEALTH_CHECK } from "../../../src/features/passive-health-checks/check.ts";
import type { ObjectCache } from "../../../src/model/object-cache.ts";
import type { Transaction } from "../../../src/nft/ast/json.ts";
import { diffRuleset, onlyElements } from "../../../src/nft/delta.ts";
import { removalTransaction } from "../../../src/nft/transaction.ts";
import { adoptNumbers } from "../../../src/ruleset/adopt-numbers.ts";
import { CHUNK_SIZE } from "../../../src/ruleset/apply-plan.ts";
import { MOST_STICKY_ENDPOINTS } from "../../../src/ruleset/list-ids.ts";
import type { NodeContext } from "../../../src/ruleset/node-context.ts";
import { Reconciler } from "../../../src/sync/reconciler.ts";
import type { SyncOutcome } from "../../../src/sync/sync-report.ts";
import { cacheOf, named, port, renderAll, service, slice, testNodeContext } from "../../support/build.ts";
import { FakeNft } from "../../support/fake-nft.ts";
import { objectWords } from "../../support/object-words.ts";
import { rulesetText } from "../../support/ruleset-text.ts";

const web = service();
const dns = service({ name: "dns", clusterIPs: ["10.96.0.53"], ports: [port(53, { protocol: "udp" })] });
const webSlice = slice({ endpoints: ["10.244.2.11", "10.244.2.12"] });

function setUp(cache: ObjectCache = cacheOf({ services: [web, dns], slices: [webSlice] }), chunkSize = 2) {
  const fake = new FakeNft();
  const view = { nodeContext: testNodeContext() as NodeContext };
  const make = () => new Reconciler({ cache, nft: fake.nft, tables: fake.tables, chunkSize });
  const reconciler = make();
  const sync = () => reconciler.sync({ nodeContext: view.nodeContext, services: cache.takeDirty() });
  return { cache, fake, reconciler, make, view, sync };
}

/** What the kernel lacks of what a fresh rendering of these objects wants. */
function missing({ fake, cache }: { fake: FakeNft; cache: ObjectCache }, nodeContext = testNodeContext()) {
  const objects = {
    services: cache.serviceNames().flatMap((name) => cache.service(name) ?? []),
    slices: cache.serviceNames().flatMap((name) => cache.slices(name)),
  };
  return adoptNumbers(renderAll(objects, nodeContext).state, fake.kernel.ruleset);
}

const summary = ({ kind, reason, refused, rendered }: SyncOutcome) => ({
  kind,
  reason,
  refused,
  rendered: [...rendered],
});

test.each([
  ["stays ejected if passive health checks run", true],
  ["returns if passive health checks do not run", false],
])("an endpoint that an earlier process ejected %s", async (_title, checksHealth) => {
  const objects = {
    services: [service({ passiveHealthCheck: DEFAULT_PASSIVE_HEALTH_CHECK })],
    slices: [slice({ endpoints: ["10.244.2.11", "10.244.2.12", "10.244.2.13"] })],
  };
  const before = setUp(cacheOf(objects));
  await before.sync();
  before.cache.setEjected("ip", "10.244.2.11 . 8080", true, [web.name]);
  await before.sync();
  const cache = cacheOf(objects);
  const { nft, tables } = before.fake;
  const restarted = new Reconciler({ cache, nft, tables, checksHealth });
  const report = await restarted.sync({ nodeContext: testNodeContext(), services: cache.takeDirty() });
  const changed = new Set(report.deltas.flatMap(({ elements }) => elements.map(({ spec }) => spec.name)));
  expect(changed.has("endpoints")).toBe(!checksHealth);
  expect([...cache.ejected.ip]).toEqual(checksHealth ? ["10.244.2.11 . 8080"] : []);
});

describe("a sync", () => {
  test("yields to the event loop while it renders, unless everything is to be rendered at once", async () => {
    for (const [atOnce, rendered] of [
      [false, 0],
      [true, 2],
    ] as const) {
      const { cache, reconciler } = setUp();
      let now = 0;
      const clock = vi.spyOn(performance, "now").mockImplementation(() => (now += 30));
      const syncing = reconciler.sync({
        nodeContext: testNodeContext(),
        services: cache.takeDirty(),
        atOnce,
      });
      const ports = () => [...(reconciler.state.families.ip?.allServicePortRules() ?? [])];
      expect(ports()).toHaveLength(rendered);
      await syncing;
      clock.mockRestore();
      expect(ports()).toHaveLength(2);
    }
  });

  test("creates the tables at start, base chains last, and then only sends changes", async () => {
    const parts = setUp();
    const report = await parts.sync();
    expect(summary(report)).toEqual({
      kind: "full",
      reason: "start",
      refused: [],
      rendered: ["default/web", "default/dns"],
    });
    expect(report.drift).toEqual([]);
    expect(missing(parts)).toEqual([]);
    const hooked = parts.fake.transactions.map((sent) => JSON.stringify(sent).includes('"hook"'));
    expect(hooked.length).toBeGreaterThan(2);
    expect(hooked.indexOf(true)).toBe(hooked.length - 1);

    const listed = parts.fake.count("list");
    parts.cache.putSlice(slice({ endpoints: ["10.244.2.11", "10.244.2.13"] }));
    const change = await parts.sync();
    expect(summary(change)).toEqual({
      kind: "partial",
      reason: undefined,
      refused: [],
      rendered: ["default/web"],
    });
    expect(missing(parts)).toEqual([]);
    expect(parts.fake.count("list"), "nothing is listed on the way").toBe(listed);
    expect(summary(await parts.sync())).toMatchObject({ kind: "nothing", rendered: [] });
  });

  test("sends no transaction if the tables are right", async () => {
    const parts = setUp();
    await parts.sync();
    const sent = parts.fake.transactions.length;
    const report = await parts.make().sync({ nodeContext: testNodeContext(), services: [] });
    expect([report.kind, report.applied, report.deltas, report.drift]).toEqual(["full", [], [], []]);
    expect(parts.fake.transactions).toHaveLength(sent);
  });

  test("that fails commits nothing, and the next one sends everything rendered meanwhile", async () => {
    const parts = setUp();
    await parts.sync();
    parts.fake.broken = "Error: netlink: Operation not permitted";
    parts.cache.deleteService(dns.name);
    await expect(parts.sync()).rejects.toThrow("Operation not permitted");
    expect(missing(parts)).not.toEqual([]);
    parts.cache.putSlice(slice({ endpoints: ["10.244.2.14"] }));
    await expect(parts.sync()).rejects.toThrow("Operation not permitted");
    parts.fake.broken = undefined;
    const report = await parts.sync();
    expect(summary(report)).toMatchObject({
      kind: "full",
      reason: "failure",
      rendered: ["default/dns", "default/web"],
    });
    expect(report.drift, "our own doing").toEqual([]);
    expect(missing(parts)).toEqual([]);
  });

  test("takes over another node context, also with other sets", async () => {
    const parts = setUp();
    await parts.sync();
    for (const context of [{ masqueradeAll: true }, { affinityMapSize: 7 }]) {
      const nodeContext = testNodeContext(context);
      expect(parts.reconciler.isCurrent(nodeContext)).toBe(false);
      parts.view.nodeContext = nodeContext;
      expect(new Set((await parts.sync()).rendered)).toEqual(new Set([web.name, dns.name]));
      expect(missing(parts, nodeContext)).toEqual([]);
    }
  });

  test("serves one family where the host has no other", async () => {
    const parts = setUp();
    parts.view.nodeContext = testNodeContext().filter(({ family }) => family === "ip");
    await parts.sync();
    expect(Object.keys(parts.fake.kernel.ruleset)).toEqual(["ip"]);
  });
});

describe("a full sync that is requested during another one", () => {
  test("is done by the next sync", async () => {
    const parts = setUp();
    parts.fake.before = (run) => {
      if (run !== "apply") return;
      parts.fake.before = () => {};
      parts.reconciler.requestFullSync("drift");
    };
    await parts.sync();
    expect(summary(await parts.sync())).toMatchObject({ kind: "full", reason: "drift" });
    expect(summary(await parts.sync())).toMatchObject({ kind: "nothing" });
  });
});

describe("a Service that cannot be rendered", () => {
  test("fails the sync, and the next one renders every Service that changed", async () => {
    const parts = setUp();
    await parts.sync();
    parts.cache.deleteService(dns.name);
    parts.cache.putSlice(slice({ endpoints: ["10.244.2.14"] }));
    const { slices } = parts.cache;
    parts.cache.slices = () => {
      parts.cache.slices = slices;
      throw new Error("a fault of our own");
    };
    await expect(parts.sync()).rejects.toThrow("a fault of our own");
    expect(summary(await parts.sync())).toMatchObject({ rendered: ["default/dns", "default/web"] });
    expect(missing(parts)).toEqual([]);
  });
});

describe("drift", () => {
  test.each([
    ["a deleted table", removalTransaction([{ family: "ip", name: "nft-proxy" }]), ["create"]],
    [
      "an emptied chain",
      { nftables: [{ flush: { chain: { family: "ip", table: "nft-proxy", name: "services" } } } as const] },
      ["change"],
    ],
  ])("of %s is repaired and reported, once", async (_name, interference, modes) => {
    const parts = setUp();
    await parts.sync();
    parts.fake.kernel.apply(interference);
    parts.reconciler.requestFullSync("drift");
    const report = await parts.sync();
    expect(report.drift.map(({ mode }) => mode)).toEqual(modes);
    expect(missing(parts)).toEqual([]);
    parts.reconciler.requestFullSync("periodic");
    expect((await parts.sync()).drift).toEqual([]);
  });

  test("is found if the kernel refuses a change because of it", async () => {
    const parts = setUp();
    await parts.sync();
    parts.fake.kernel.apply(removalTransaction([{ family: "ip", name: "nft-proxy" }]));
    parts.cache.deleteService(web.name);
    const report = await parts.sync();
    expect(summary(report)).toMatchObject({ kind: "full", reason: "failure", refused: [] });
    expect(report.drift.map(({ mode }) => mode)).toEqual(["create"]);
    expect(missing(parts)).toEqual([]);
  });
});

describe("a repair", () => {
  const FLUSH = {
    nftables: [{ flush: { chain: { family: "ip", table: "nft-proxy", name: "services" } } } as const],
  };
  const MISSING = { ...onlyElements({ family: "ip", table: "nft-proxy" }, []), mode: "create" } as const;

  /** A kernel that somebody changed, and what is wrong in it. */
  async function changed(interference: Transaction) {
    const parts = setUp();
    await parts.sync();
    parts.fake.kernel.apply(interference);
    const found = diffRuleset(parts.fake.kernel.ruleset, parts.reconciler.state.ruleset);
    return { ...parts, found, listed: parts.fake.count("list") };
  }

  test("goes before our own changes, in a transaction of its own and without a listing", async () => {
    const parts = await changed(FLUSH);
    parts.reconciler.requestRepair(parts.found);
    parts.cache.putSlice(slice({ endpoints: ["10.244.2.11", "10.244.2.13"] }));
    const report = await parts.sync();
    expect(summary(report)).toMatchObject({ kind: "partial", reason: "drift", rendered: ["default/web"] });
    expect([report.drift, report.applied.length]).toEqual([parts.found, 2]);
    const isChange = (sent: Transaction) => JSON.stringify(sent).includes("10.244.2.13");
    expect(parts.fake.transactions.slice(-2).map(isChange)).toEqual([false, true]);
    expect(parts.fake.count("list")).toBe(parts.listed);
    expect(missing(parts)).toEqual([]);
    expect(summary(await parts.sync())).toMatchObject({ kind: "nothing", reason: undefined });
  });

  test("counts as a full sync if everything was compared for it, also without a difference", async () => {
    const parts = await changed(FLUSH);
    parts.reconciler.requestRepair(parts.found, { comparisonReason: "periodic" });
    const report = await parts.sync();
    expect([summary(report), report.drift]).toMatchObject([
      { kind: "full", reason: "periodic" },
      parts.found,
    ]);
    parts.reconciler.requestRepair([], { comparisonReason: "periodic" });
    expect(await parts.sync()).toMatchObject({ kind: "full", reason: "periodic", drift: [], applied: [] });
    expect(parts.fake.count("list")).toBe(parts.listed);
  });

  test("names the last known author of the changes, and no other sync does", async () => {
    const parts = await changed(FLUSH);
    parts.reconciler.requestRepair(parts.found, { author: "first" });
    parts.reconciler.requestRepair(parts.found, { author: "second" });
    parts.reconciler.requestRepair(parts.found);
    expect(await parts.sync()).toMatchObject({ author: "second" });
    parts.reconciler.requestRepair([], { comparisonReason: "periodic" });
    expect((await parts.sync()).author).toBeUndefined();
  });

  test("names the author of the changes also if a full sync has to repair them", async () => {
    const parts = await changed(FLUSH);
    parts.fake.refuses = '"rule"';
    parts.fake.before = (run) => {
      if (run === "list") parts.fake.refuses = undefined;
    };
    parts.reconciler.requestRepair(parts.found, { author: "first" });
    expect(await parts.sync()).toMatchObject({ kind: "full", reason: "drift", author: "first" });
  });

  test("leaves what our own changes touch to them", async () => {
    const parts = await changed({
      nftables: [
        { add: { element: { family: "ip", table: "nft-proxy", name: "cluster-ips", elem: ["10.96.0.99"] } } },
      ],
    });
    const [, extra] = [parts.cache.deleteService(web.name), parts.found];
    parts.reconciler.requestRepair(extra);
    parts.reconciler.requestRepair(extra);
    const report = await parts.sync();
    expect(summary(report)).toMatchObject({ kind: "partial", reason: "drift" });
    expect(report.drift).toEqual(extra);
    await parts.reconciler.deleteStaleChains();
    expect(missing(parts)).toEqual([]);
  });

  test("creates missing tables as a whole without listing the others, and never one that exists", async () => {
    const parts = await changed(removalTransaction([{ family: "ip", name: "nft-proxy" }]));
    parts.reconciler.requestRepair([MISSING]);
    parts.cache.deleteService(dns.name);
    const report = await parts.sync();
    expect(summary(report)).toMatchObject({ kind: "partial", reason: "drift" });
    expect(report.drift.map(({ mode }) => mode)).toEqual(["create"]);
    expect(parts.fake.count("list"), "the names of tables").toBe(parts.listed + 1);
    expect(missing(parts)).toEqual([]);
    parts.reconciler.requestRepair([MISSING]);
    expect(await parts.sync()).toMatchObject({ kind: "full", drift: [], applied: [] });
    expect(missing(parts)).toEqual([]);
  });

  test("creates a table that is deleted after a full sync has read it", async () => {
    const parts = setUp();
    const fullSync = async () => {
      const listed = parts.fake.count("list");
      parts.reconciler.requestFullSync("failure");
      await parts.sync();
      return parts.fake.count("list") - listed;
    };
    await fullSync();
    const last = parts.fake.count("list") + (await fullSync()) * 2;
    parts.fake.before = (run) => {
      if (run !== "list" || parts.fake.count("list") !== last) return;
      parts.fake.kernel.apply(removalTransaction([{ family: "ip", name: "nft-proxy" }]));
      parts.reconciler.requestRepair([MISSING]);
    };
    await fullSync();
    expect(Object.keys(parts.fake.kernel.ruleset)).toEqual(["ip6"]);
    await parts.sync();
    expect(missing(parts)).toEqual([]);
  });

  test("that the kernel refuses, because its state has changed, becomes a full sync", async () => {
    const parts = await changed(FLUSH);
    parts.fake.kernel.apply(removalTransaction([{ family: "ip", name: "nft-proxy" }]));
    parts.reconciler.requestRepair(parts.found);
    const report = await parts.sync();
    expect(summary(report)).toMatchObject({ kind: "full", reason: "drift" });
    expect(report.drift.map(({ mode }) => mode)).toEqual(["create"]);
    expect(missing(parts)).toEqual([]);
  });
});

/** The Service with a limit of its clients, which has a chain. */
const limited = (connections: number) => service({ clientLimits: { connections } });

describe("stale chains", () => {
  test("are deleted with the sets that they looked into", async () => {
    const guarded = (sourceRanges: readonly string[]) =>
      service({ name: "lb", clusterIPs: ["10.96.8.8"], loadBalancerIPs: ["203.0.113.8"], sourceRanges });
    const parts = setUp();
    const names = () => {
      const { chains, sets } = parts.fake.kernel.ruleset.ip ?? {};
      return [...(chains?.keys() ?? []), ...(sets?.keys() ?? [])].filter((name) =>
        name.startsWith("source-range"),
      );
    };
    parts.cache.putSlice(slice({ service: "lb", endpoints: ["10.244.2.20"] }));
    parts.cache.putService(guarded(["10.0.0.0/8"]));
    await parts.sync();
    const all = ["source-ranges-check", "source-ranges-allowed", "source-ranges", "source-range-lists"];
    expect(names().toSorted()).toEqual(all.toSorted());
    parts.cache.putService(guarded([]));
    await parts.sync();
    while (parts.reconciler.state.hasStale) await parts.sync();
    await parts.reconciler.deleteStaleChains();
    expect(names()).toEqual([]);
    expect(missing(parts)).toEqual([]);
  });

  test("are deleted later, unless they are in use again by then", async () => {
    const parts = setUp();
    await parts.sync();
    const chains = () =>
      [...(parts.fake.kernel.ruleset.ip?.chains.keys() ?? [])].filter((name) =>
        /^client-limit-\d/.test(name),
      );
    for (const connections of [2, 1]) {
      parts.cache.putService(limited(connections));
      await parts.sync();
    }
    expect(chains()).toEqual(["client-limit-2", "client-limit-1"]);
    parts.cache.putService(limited(2));
    await parts.sync();
    await parts.reconciler.deleteStaleChains();
    expect(chains()).toEqual(["client-limit-2"]);
    expect(missing(parts)).toEqual([]);
  });
});

test("source ranges that come back allow nothing of the earlier ones, though their set was not deleted yet", async () => {
  const guarded = (sourceRanges: readonly string[]) =>
    service({ name: "lb", clusterIPs: ["10.96.8.8"], loadBalancerIPs: ["203.0.113.8"], sourceRanges });
  const parts = setUp();
  parts.cache.putSlice(slice({ service: "lb", endpoints: ["10.244.2.20"] }));
  for (const ranges of [["10.0.0.0/8"], [], ["192.168.0.0/16"]]) {
    parts.cache.putService(guarded(ranges));
    await parts.sync();
  }
  while (parts.reconciler.state.hasStale) await parts.sync();
  const allowed = parts.fake.kernel.ruleset.ip?.sets.get("source-ranges")?.elements.keys();
  expect([...(allowed ?? [])]).toEqual([expect.stringMatching(/^192\.168\.0\.0 .* 16$/)]);
});

describe("stale chains that came and went several times", () => {
  test("are deleted, and are no drift", async () => {
    const parts = setUp();
    await parts.sync();
    for (const connections of [2, 1, 2, 1]) {
      parts.cache.putService(limited(connections));
      await parts.sync();
    }
    await parts.reconciler.deleteStaleChains();
    expect(missing(parts)).toEqual([]);
    parts.reconciler.requestFullSync("periodic");
    expect((await parts.sync()).drift).toEqual([]);
  });

  test("explain differences until the kernel has deleted them", async () => {
    const parts = setUp();
    await parts.sync();
    for (const connections of [2, 1]) {
      parts.cache.putService(limited(connections));
      await parts.sync();
    }
    const explained = () => objectWords(parts.reconciler.unsent);
    const meanwhile: string[] = [];
    parts.fake.before = () => void meanwhile.push(...explained());
    await parts.reconciler.deleteStaleChains();
    expect([meanwhile, explained()]).toEqual([["- chain client-limit-2"], []]);
  });

  test("are deleted in one family if the table of the other was created again", async () => {
    const parts = setUp();
    const both = async (ip: readonly string[], ip6: readonly string[]) => {
      parts.cache.putSlice(slice({ endpoints: ip }));
      parts.cache.putSlice(slice({ service: "six", endpoints: ip6 }));
      await parts.sync();
    };
    parts.cache.putService(service({ name: "six", clusterIPs: ["fd00:10:96::6"] }));
    await both(["10.244.2.11", "10.244.2.12"], ["fd00::11", "fd00::12"]);
    await both(["10.244.2.11"], ["fd00::11"]);
    parts.fake.kernel.apply(removalTransaction([{ family: "ip", name: "nft-proxy" }]));
    parts.reconciler.requestRepair([
      { ...onlyElements({ family: "ip", table: "nft-proxy" }, []), mode: "create" },
    ]);
    await parts.sync();
    await parts.reconciler.deleteStaleChains();
    expect(missing(parts)).toEqual([]);
  });

  test("are kept for later while nft fails", async () => {
    const parts = setUp();
    await parts.sync();
    for (const connections of [2, 1]) {
      parts.cache.putService(limited(connections));
      await parts.sync();
    }
    parts.fake.timesOut = true;
    await expect(parts.reconciler.deleteStaleChains()).rejects.toThrow("did not end within");
    parts.fake.timesOut = false;
    await parts.reconciler.deleteStaleChains();
    expect(missing(parts)).toEqual([]);
  });
});

describe("quarantine", () => {
  const bad = service({ name: "bad", clusterIPs: ["10.96.6.66"] });

  test("takes a refused service port out, at start and later, and programs it once the kernel accepts it", async () => {
    const parts = setUp(cacheOf({ services: [web, dns, bad], slices: [webSlice] }));
    parts.fake.refuses = "10.96.6.66";
    const start = await parts.sync();
    expect(start.refused).toEqual(["ip default/bad/tcp"]);
    expect(
      missing(parts).flatMap(({ elements }) => elements.flatMap(({ added }) => added.map(({ key }) => key))),
    ).toEqual(["10.96.6.66", "10.96.6.66 . tcp . 80"]);
    expect([...parts.reconciler.quarantined]).toEqual([
      ["ip default/bad/tcp", "the kernel refuses its rules"],
    ]);

    parts.cache.putSlice(slice({ endpoints: ["10.244.2.15"] }));
    expect(summary(await parts.sync()), "others go on as ever").toMatchObject({
      kind: "partial",
      refused: [],
    });
    parts.cache.putSlice(slice({ service: "bad", endpoints: ["10.244.2.16"] }));
    expect((await parts.sync()).refused, "it changed, and is tried again").toEqual(start.refused);
    expect(parts.reconciler.retryRefused()).toBe(true);
    parts.fake.refuses = undefined;
    expect((await parts.sync()).refused).toEqual([]);
    expect(parts.reconciler.retryRefused()).toBe(false);
    expect(missing(parts)).toEqual([]);
  });

  test.each(["at start", "later"])(
    "takes out a service port whose port ranges are refused, %s, and serves the others in its family",
    async (when) => {
      const ports = [port(80, { ranges: [{ first: 1000, last: 1999 }] })];
      const ranged = service({ name: "ranged", clusterIPs: ["10.96.9.9"], ports });
      const parts = setUp();
      if (when === "later") await parts.sync();
      parts.cache.putService(ranged);
      parts.cache.putSlice(slice({ service: "ranged", endpoints: ["10.244.2.20"] }));
      parts.fake.refuses = '"range":[1000,1999]';
      expect((await parts.sync()).refused).toEqual(["ip default/ranged/tcp"]);
      expect([...parts.reconciler.quarantined.keys()]).toEqual(["ip default/ranged/tcp"]);
      parts.cache.deleteService(ranged.name);
      await parts.sync();
      await parts.reconciler.deleteStaleChains();
      expect(missing(parts)).toEqual([]);
    },
  );

  test.each(["at start", "later"])(
    "takes out a service port whose source ranges are refused, %s, and no other",
    async (when) => {
      const guarded = (name: string, number: number, sourceRanges: readonly string[]) =>
        service({
          name,
          clusterIPs: [`10.96.9.${number}`],
          loadBalancerIPs: [`203.0.113.${number}`],
          sourceRanges,
        });
      const parts = setUp();
      if (when === "later") await parts.sync();
      for (const [number, name] of ["bad", "good", "other"].entries()) {
        parts.cache.putService(guarded(name, number, [`${name === "bad" ? 192 : 172}.16.${number}.0/24`]));
        parts.cache.putSlice(slice({ service: name, endpoints: ["10.244.2.20"] }));
      }
      parts.fake.refuses = "192.16.0.0";
      expect((await parts.sync()).refused).toEqual(["ip default/bad/tcp"]);
      expect([...parts.reconciler.quarantined.keys()]).toEqual(["ip default/bad/tcp"]);
      const allowed = parts.fake.kernel.ruleset.ip?.sets.get("source-ranges")?.elements;
      expect(allowed?.size).toBe(2);
    },
  );

  const RANGES = { ranges: [{ first: 1000, last: 1999 }] };
  test.each([
    ["another releases", "another", "a-good", {}],
    ["z-last releases", "z-last", "a-good", {}],
    ["port ranges of a-range hold", "a-range", "b-good", RANGES],
    ["port ranges of z-range hold", "z-range", "b-good", RANGES],
  ])(
    "takes out a refused service port that needs the last id with session affinity, which %s",
    async (_, releasing, good, ranges) => {
      const one = (name: string, number: number, affinitySeconds: number, endpoint: number) => {
        const ports = [port(80, name === releasing ? ranges : {})];
        parts.cache.putService(service({ name, clusterIPs: [`10.96.9.${number}`], affinitySeconds, ports }));
        parts.cache.putSlice(slice({ service: name, endpoints: [`10.244.2.${endpoint}`] }));
      };
      const parts = setUp();
      parts.view.nodeContext = testNodeContext({ maxStickyPorts: 1 });
      one(releasing, 1, 60, 20);
      one("bad", 2, 0, 21);
      // Intervals never change in two syncs in a row.
      await parts.sync();
      one(good, 3, 0, 22);
      await parts.sync();
      one(releasing, 1, 0, 20);
      one(good, 3, 0, 23);
      one("bad", 2, 60, 66);
      parts.fake.refuses = "10.244.2.66";
      expect((await parts.sync()).refused).toEqual(["ip default/bad/tcp"]);
      expect([...parts.reconciler.quarantined.keys()]).toEqual(["ip default/bad/tcp"]);
    },
  );

  test("takes a refused service port out after a part of it is in the kernel, which is no drift", async () => {
    const parts = setUp();
    await parts.sync();
    parts.cache.putService(service({ name: "late", clusterIPs: ["10.96.0.99"] }));
    parts.cache.putSlice(
      slice({ service: "late", endpoints: ["10.244.2.13", "10.244.2.14", "10.244.2.15"] }),
    );
    parts.fake.refuses = "10.244.2.15";
    const sent = parts.fake.transactions.length;
    const report = await parts.sync();
    expect(parts.fake.transactions.length - sent).toBeGreaterThan(2);
    expect(report.refused).toEqual(["ip default/late/tcp"]);
    expect(report.drift).toEqual([]);
    const { sets } = parts.fake.kernel.ruleset.ip ?? {};
    expect([...(sets?.get("endpoints")?.elements.values() ?? [])].join()).not.toContain("10.244.2.13");
  });

  test("takes out a service port that our own schema refuses, before anything is sent", async () => {
    const hostile = slice({ service: "bad", endpoints: ["10.244.2.16; flush ruleset"] });
    const parts = setUp(cacheOf({ services: [web, dns, bad], slices: [webSlice, hostile] }));
    expect((await parts.sync()).refused).toEqual(["ip default/bad/tcp"]);
    expect(JSON.stringify(parts.fake.transactions)).not.toContain("flush ruleset");
    expect(JSON.stringify(parts.fake.transactions)).toContain("10.244.2.12");
  });

  test("contains a service port that exceeds a limit, with the limit as the reason, until it no longer does", async () => {
    const sticky = service({ name: "sticky", clusterIPs: ["10.96.7.7"], affinitySeconds: 60 });
    const endpoints = Array.from(
      { length: MOST_STICKY_ENDPOINTS + 1 },
      (_, i) => `10.244.${i >> 8}.${i & 255}`,
    );
    const parts = setUp(
      cacheOf({ services: [web, sticky], slices: [webSlice, slice({ service: "sticky", endpoints })] }),
      CHUNK_SIZE,
    );
    await parts.sync();
    expect([...parts.reconciler.quarantined]).toEqual([
      [
        "ip default/sticky/tcp",
        "a Service with session affinity can have 16380 endpoints, and this one has 16381",
      ],
    ]);
    expect(JSON.stringify(parts.fake.transactions)).not.toContain("10.96.7.7");
    parts.cache.putSlice(slice({ service: "sticky", endpoints: endpoints.slice(1) }));
    let waiting = 1;
    while (waiting > 0) {
      const outcome = await parts.sync();
      expect(outcome.kind).toBe("partial");
      waiting = outcome.waiting.size;
    }
    expect([...parts.reconciler.quarantined]).toEqual([]);
    expect(missing(parts)).toEqual([]);
  });

  test("does not stop other changes of the same sync", async () => {
    const parts = setUp();
    await parts.sync();
    parts.fake.refuses = "10.96.6.66";
    parts.cache.putService(bad);
    parts.cache.deleteService(dns.name);
    parts.cache.putSlice(slice({ endpoints: ["10.244.2.15", "10.244.2.16", "10.244.2.17"] }));
    const report = await parts.sync();
    expect(report.refused).toEqual(["ip default/bad/tcp"]);
    parts.cache.deleteService(bad.name);
    await parts.sync();
    expect(parts.reconciler.quarantined.size).toBe(0);
    expect(missing(parts)).toEqual([]);
  });

  test("does not take out a service port that left a chain, on a kernel that deletes no chain with its elements", async () => {
    const parts = setUp();
    await parts.sync();
    parts.fake.isOld = true;
    parts.fake.refuses = "10.96.6.66";
    parts.cache.putService(bad);
    parts.cache.putSlice(slice({ endpoints: ["10.244.2.15"] }));
    expect((await parts.sync()).refused).toEqual(["ip default/bad/tcp"]);
  });

  test("takes a refused service port out although our tables cannot be read", async () => {
    const parts = setUp(cacheOf({ services: [web, dns, bad], slices: [webSlice] }));
    parts.fake.refuses = "10.96.6.66";
    parts.fake.before = (run) => {
      parts.fake.broken = run === "list" ? "Error: cannot parse a foreign rule" : undefined;
    };
    expect((await parts.sync()).refused).toEqual(["ip default/bad/tcp"]);
    expect(JSON.stringify(parts.fake.transactions)).toContain("10.244.2.12");
  });

  test("fails the sync when nft fails during the search, and the next sync succeeds", async () => {
    const parts = setUp(cacheOf({ services: [web, dns, bad], slices: [webSlice] }));
    parts.fake.refuses = "10.96.6.66";
    parts.fake.before = (run) => {
      parts.fake.timesOut = run === "check" && parts.fake.count("check") === 3;
    };
    await expect(parts.sync()).rejects.toThrow("did not end within");
    parts.fake.refuses = undefined;
    expect(summary(await parts.sync()), "it is the sync at start still").toMatchObject({ reason: "start" });
    expect(missing(parts)).toEqual([]);
  });

  test("keeps the desired state whole while the kernel is asked about parts of it", async () => {
    const parts = setUp(cacheOf({ services: [web, dns, bad], slices: [webSlice] }));
    parts.fake.refuses = "10.96.6.66";
    const seen: number[] = [];
    parts.fake.before = (run) => {
      const clusterIPs = parts.reconciler.state.families.ip?.table.sets.get("cluster-ips")?.elements.size;
      if (run === "check") seen.push(clusterIPs ?? 0);
    };
    await parts.sync();
    expect(new Set(seen)).toEqual(new Set([3]));
    expect(seen.length).toBeGreaterThan(2);
  });

  test("a lack of memory for a change quarantines nothing, and leaves the kernel's rules", async () => {
    const parts = setUp();
    await parts.sync();
    const before = rulesetText(parts.fake.kernel.ruleset);
    parts.fake.before = (run) => {
      parts.fake.broken =
        run === "list" ? undefined : "internal:0:0-0: Error: Could not process rule: Cannot allocate memory";
    };
    parts.cache.putSlice(slice({ endpoints: ["10.244.2.15"] }));
    for (const _attempt of ["partial", "full"]) {
      await expect(parts.sync()).rejects.toMatchObject({ code: "NFT_FAILED" });
      expect(parts.reconciler.quarantined.size).toBe(0);
      expect(rulesetText(parts.fake.kernel.ruleset)).toBe(before);
    }
    parts.fake.before = () => {};
    parts.fake.broken = undefined;
    await parts.sync();
    expect(missing(parts)).toEqual([]);
  });

  test("contains nothing if the kernel refuses every change, also removals, and the sync fails", async () => {
    const parts = setUp();
    await parts.sync();
    const before = rulesetText(parts.fake.kernel.ruleset);
    parts.fake.refuses = "";
    parts.fake.before = () => expect(parts.fake.count("check"), "the search ends").toBeLessThan(20);
    parts.cache.putSlice(slice({ endpoints: ["10.244.2.15"] }));
    await expect(parts.sync()).rejects.toMatchObject({ code: "NFT_REFUSED" });
    expect(parts.reconciler.quarantined.size).toBe(0);
    expect(rulesetText(parts.fake.kernel.ruleset)).toBe(before);
    parts.fake.refuses = undefined;
    await parts.sync();
    expect(missing(parts)).toEqual([]);
  });

  test("contains nothing for refusals while another program deletes and restores the tables", async () => {
    const parts = setUp();
    await parts.sync();
    const { kernel } = parts.fake;
    const whole = kernel.ruleset;
    // They are there when they are read, and gone when something is sent or checked, up to the first check.
    let isChecked = false;
    parts.fake.before = (run) => {
      kernel.ruleset = run === "list" || isChecked ? whole : {};
      isChecked ||= run === "check";
    };
    parts.cache.putSlice(slice({ endpoints: ["10.244.2.15"] }));
    await expect(parts.sync()).rejects.toMatchObject({ code: "NFT_REFUSED" });
    expect(parts.reconciler.quarantined.size).toBe(0);
    parts.fake.before = () => {};
    await parts.sync();
    expect(missing(parts)).toEqual([]);
  });

  test("takes nothing out for a refusal that no service port explains, and the sync fails", async () => {
    const parts = setUp();
    parts.fake.refuses = "masquerade";
    await expect(parts.sync()).rejects.toThrow("nft refused the transaction");
    expect(parts.reconciler.quarantined.size).toBe(0);
    parts.fake.refuses = undefined;
    parts.cache.putService(web);
    await parts.sync();
    expect(missing(parts)).toEqual([]);
  });
});

describe("a family whose tables the kernel refuses", () => {
  const onlyIPv4 = testNodeContext().filter(({ family }) => family === "ip");

  test("is excluded, and the other one programmed and followed", async () => {
    const parts = setUp();
    parts.fake.refuses = '"family":"ip6"';
    await parts.sync();
    expect([...parts.reconciler.excludedFamilies.keys()]).toEqual(["ip6"]);
    expect(missing(parts, onlyIPv4)).toEqual([]);
    expect(parts.reconciler.isCurrent(testNodeContext())).toBe(true);
    parts.cache.putSlice(slice({ endpoints: ["10.244.2.15", "10.244.2.16"] }));
    expect(await parts.sync()).toMatchObject({ kind: "partial", rendered: new Set(["default/web"]) });
    expect(missing(parts, onlyIPv4)).toEqual([]);
  });

  test("is programmed again once the kernel accepts it", async () => {
    const parts = setUp();
    parts.fake.refuses = '"family":"ip6"';
    await parts.sync();
    expect(parts.reconciler.retryRefused()).toBe(true);
    await parts.sync();
    expect([...parts.reconciler.excludedFamilies.keys()], "still refused").toEqual(["ip6"]);
    parts.fake.refuses = undefined;
    parts.reconciler.retryRefused();
    expect((await parts.sync()).drift, "our own doing").toEqual([]);
    expect([parts.reconciler.excludedFamilies.size, missing(parts)]).toEqual([0, []]);
  });

  test("is not excluded for a refusal while another program's table has a set of ours with another type", async () => {
    const parts = setUp();
    await parts.sync();
    const table = { family: "ip6", name: "nft-proxy" } as const;
    const foreign: Transaction = {
      nftables: [
        { add: { table } },
        { delete: { table } },
        { add: { table } },
        {
          add: {
            set: {
              family: "ip6",
              table: "nft-proxy",
              name: "cluster-ips",
              type: { typeof: { payload: { protocol: "tcp", field: "dport" } } },
            },
          },
        },
      ],
    };
    // The other program replaces the table before each of the first changes and checks.
    let left = 20;
    parts.fake.before = (run) => {
      if (run !== "list" && left-- > 0) parts.fake.kernel.apply(foreign);
    };
    parts.reconciler.requestFullSync("periodic");
    parts.cache.putService(service({ name: "six", clusterIPs: ["fd00:10:96::66"] }));
    while (left > 0) {
      await parts.sync().catch(() => {});
      expect(parts.reconciler.excludedFamilies.size).toBe(0);
    }
    await parts.sync();
    expect(missing(parts)).toEqual([]);
  });

  test("is not excluded when both are refused", async () => {
    const parts = setUp();
    parts.fake.refuses = "nft-proxy";
    await expect(parts.sync()).rejects.toThrow("nft refused the transaction");
    expect(parts.reconciler.excludedFamilies.size).toBe(0);
  });
});

describe("an nft that is killed", () => {
  const REASON = "nft fails on its rules: nft was killed (SIGKILL)";
  const names = ["a", "b", "c", "d", "e"];
  const services = names.map((name, i) => service({ name, clusterIPs: [`10.96.1.${i}`] }));
  const slices = names.map((name, i) => slice({ service: name, endpoints: [`10.244.3.${i}`] }));
  /** Syncs until one succeeds, as the daemon does. @returns how many failed */
  async function syncUntilDone({ sync, cache }: ReturnType<typeof setUp>): Promise<number> {
    for (let failed = 0; failed < 20; failed++) {
      try {
        await sync();
        return failed;
      } catch (error) {
        expect(error).toMatchObject({ code: expect.stringMatching(/^NFT_/) });
        expect(cache.dirty.size).toBe(0);
      }
    }
    throw new Error("no sync succeeded");
  }
  const has = ({ fake }: ReturnType<typeof setUp>, address: string) =>
    fake.kernel.ruleset.ip?.sets.get("lists")?.elements.has(`${address} . tcp . 80`);

  test("over one Service at every try quarantines this Service alone", async () => {
    const parts = setUp(cacheOf({ services, slices }));
    parts.fake.isKilledBy = (text) => text.includes("10.96.1.2");
    expect(await syncUntilDone(parts)).toBe(2);
    expect([...parts.reconciler.quarantined]).toEqual([["ip default/c/tcp", REASON]]);
    expect(
      ["10.96.1.0", "10.96.1.1", "10.96.1.3", "10.96.1.4"].map((address) => has(parts, address)),
    ).toEqual([true, true, true, true]);
    expect(has(parts, "10.96.1.2")).toBe(false);
  });

  test("over a later Service does not stop changes of its neighbours", async () => {
    const parts = setUp(cacheOf({ services, slices }));
    await parts.sync();
    parts.fake.isKilledBy = (text) => text.includes("10.96.9.9");
    parts.cache.putService(service({ name: "late", clusterIPs: ["10.96.9.9"] }));
    parts.cache.putService(service({ name: "neighbour", clusterIPs: ["10.96.9.8"] }));
    parts.cache.putSlice(slice({ service: "neighbour", endpoints: ["10.244.3.9"] }));
    expect(await syncUntilDone(parts)).toBe(3);
    expect([...parts.reconciler.quarantined.keys()]).toEqual(["ip default/late/tcp"]);
    expect(has(parts, "10.96.9.8")).toBe(true);
  });

  test("over a Service is tried again when the retry is due, by itself, and not for each change of it", async () => {
    const parts = setUp(cacheOf({ services, slices }));
    parts.fake.isKilledBy = (text) => text.includes("10.96.1.2");
    await syncUntilDone(parts);
    const before = parts.fake.runs.length;
    parts.cache.putSlice(slice({ service: "c", endpoints: ["10.244.3.77"] }));
    expect(summary(await parts.sync()).kind).toBe("nothing");
    expect(parts.fake.runs).toHaveLength(before);

    const applied = parts.fake.count("apply");
    expect(parts.reconciler.retryRefused()).toBe(true);
    parts.cache.putSlice(slice({ service: "d", endpoints: ["10.244.3.78"] }));
    await parts.sync();
    expect(parts.fake.count("apply")).toBe(applied + 1);
    expect([...parts.reconciler.quarantined]).toEqual([["ip default/c/tcp", REASON]]);

    parts.fake.isKilledBy = () => false;
    parts.reconciler.retryRefused();
    await parts.sync();
    expect(parts.reconciler.quarantined.size).toBe(0);
    expect(has(parts, "10.96.1.2")).toBe(true);
  });

  test("over a Service no longer quarantines it after the Service was deleted", async () => {
    const parts = setUp(cacheOf({ services, slices }));
    parts.fake.isKilledBy = (text) => text.includes("10.96.1.2");
    await syncUntilDone(parts);
    parts.cache.deleteService(named("c"));
    await parts.sync();
    expect(parts.reconciler.quarantined.size).toBe(0);
  });

  test("over every transaction quarantines no Service", async () => {
    const parts = setUp(cacheOf({ services, slices }));
    parts.fake.isKilledBy = () => true;
    for (let n = 0; n < 8; n++) await expect(parts.sync()).rejects.toMatchObject({ code: "NFT_FAILED" });
    expect(parts.reconciler.quarantined.size).toBe(0);
    parts.fake.isKilledBy = () => false;
    expect(await syncUntilDone(parts)).toBe(0);
  });

  test("over what all Services need together quarantines no Service", async () => {
    const parts = setUp(cacheOf({ services, slices }), 1000);
    await parts.sync();
    parts.fake.isKilledBy = (text) => services.every((_, i) => text.includes(`10.244.4.${i}`));
    for (const [i, name] of names.entries())
      parts.cache.putSlice(slice({ service: name, endpoints: [`10.244.4.${i}`] }));
    for (let n = 0; n < 4; n++) await expect(parts.sync()).rejects.toMatchObject({ code: "NFT_FAILED" });
    expect(parts.reconciler.quarantined.size).toBe(0);
  });

  test("or hangs over one Service quarantines this one, too", async () => {
    const parts = setUp(cacheOf({ services, slices }));
    parts.fake.hangsOver = "10.96.1.2";
    expect(await syncUntilDone(parts)).toBe(2);
    expect([...parts.reconciler.quarantined]).toEqual([
      ["ip default/c/tcp", "nft fails on its rules: nft did not end within 10 s"],
    ]);
  });
});

test("a chain comes before the verdicts that lead to it, and stays when they go", async () => {
  const parts = setUp(undefined, 100);
  await parts.sync();
  const become = async (...endpoints: readonly string[]) => {
    parts.cache.putSlice(slice({ service: "web", endpoints }));
    const { applied } = await parts.sync();
    expect(missing(parts).filter(({ objects }) => objects.length === 0)).toEqual([]);
    return applied.length;
  };
  const five = ["10.244.2.11", "10.244.2.12", "10.244.2.13", "10.244.2.14", "10.244.2.15"];
  expect(await become(...five)).toBe(2);
  await become("10.244.2.11", "10.244.2.12");
  await parts.reconciler.deleteStaleChains();
  expect(await become(...five)).toBe(1);
});

test("a full sync reports the duration of the comparison before it", async () => {
  const { reconciler, sync } = setUp();
  await sync();
  reconciler.requestRepair([], { comparisonReason: "periodic", comparisonMs: 300 });
  expect(await sync()).toMatchObject({ kind: "full", reason: "periodic", comparisonMs: 300 });
  expect((await sync()).comparisonMs).toBeUndefined();
});
