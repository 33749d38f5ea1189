import { describe, expect, test } from "vitest";
import type { ObjectCache } from "../../../src/model/object-cache.ts";
import { diffRuleset } from "../../../src/nft/delta.ts";
import { removalTransaction } from "../../../src/nft/transaction.ts";
import { Reconciler, type SyncReport } from "../../../src/sync/reconciler.ts";
import { bothContexts, cacheOf, named, port, renderAll, service, slice } from "../../support/build.ts";
import { FakeNft } from "../../support/fake-nft.ts";

const web = service();
const dns = service({ name: "dns", clusterIPs: ["10.96.0.53"], ports: [port(53, { protocol: "udp" })] });
const webSlice = slice({ endpoints: ["10.244.2.11", "10.244.2.12"] });

function setUp(cache: ObjectCache = cacheOf({ services: [web, dns], slices: [webSlice] })) {
  const fake = new FakeNft();
  let nodeContext = bothContexts();
  const make = () => new Reconciler({ cache, nft: fake.nft, nodeContext: () => nodeContext, chunkSize: 2 });
  return {
    cache,
    fake,
    reconciler: make(),
    make,
    setNodeContext: (next: typeof nodeContext) => {
      nodeContext = next;
    },
  };
}

/** What the kernel lacks of what a fresh rendering of these objects wants. */
function missing({ fake, cache }: { fake: FakeNft; cache: ObjectCache }, nodeContext = bothContexts()) {
  const objects = {
    services: cache.serviceNames().flatMap((name) => cache.service(name) ?? []),
    slices: cache.serviceNames().flatMap((name) => cache.slices(name)),
  };
  return diffRuleset(fake.kernel.ruleset, renderAll(objects, nodeContext).state.ruleset);
}

const summary = ({ kind, reason, refused, rendered }: SyncReport) => ({
  kind,
  reason,
  refused,
  rendered: [...rendered],
});

describe("a sync", () => {
  test("makes the tables at start, hooks last, and then sends nothing but changes", async () => {
    const parts = setUp();
    const report = await parts.reconciler.sync();
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
    const change = await parts.reconciler.sync();
    expect(summary(change)).toEqual({ kind: "partial", reason: undefined, refused: [], rendered: ["default/web"] });
    expect(missing(parts)).toEqual([]);
    expect(parts.fake.count("list"), "nothing is listed on the way").toBe(listed);
    expect(summary(await parts.reconciler.sync())).toMatchObject({ kind: "nothing", rendered: [] });
  });

  test("over tables that are right sends nothing", async () => {
    const parts = setUp();
    await parts.reconciler.sync();
    const sent = parts.fake.transactions.length;
    parts.cache.markDirty(web.name);
    parts.cache.markDirty(dns.name);
    const report = await parts.make().sync();
    expect([report.kind, report.applied, report.deltas, report.drift]).toEqual(["full", [], [], []]);
    expect(parts.fake.transactions).toHaveLength(sent);
  });

  test("that fails commits nothing, and the next one has everything that was rendered meanwhile", async () => {
    const parts = setUp();
    await parts.reconciler.sync();
    parts.fake.broken = "Error: netlink: Operation not permitted";
    parts.cache.deleteService(dns.name);
    await expect(parts.reconciler.sync()).rejects.toThrow("Operation not permitted");
    expect(missing(parts)).not.toEqual([]);
    parts.cache.putSlice(slice({ endpoints: ["10.244.2.14"] }));
    await expect(parts.reconciler.sync()).rejects.toThrow("Operation not permitted");
    parts.fake.broken = undefined;
    const report = await parts.reconciler.sync();
    expect(summary(report)).toMatchObject({
      kind: "full",
      reason: "failure",
      rendered: ["default/dns", "default/web"],
    });
    expect(report.drift, "our own doing").toEqual([]);
    expect(missing(parts)).toEqual([]);
  });

  test("takes over other context, other sets too", async () => {
    const parts = setUp();
    await parts.reconciler.sync();
    for (const context of [{ masqueradeAll: true }, { counters: "endpoints" as const }]) {
      const nodeContext = bothContexts(context);
      expect(parts.reconciler.wouldChange(nodeContext)).toBe(true);
      parts.setNodeContext(nodeContext);
      expect(new Set((await parts.reconciler.sync()).rendered)).toEqual(new Set([web.name, dns.name]));
      expect(missing(parts, nodeContext)).toEqual([]);
    }
  });

  test("serves one family where the host has no other", async () => {
    const parts = setUp();
    parts.setNodeContext(bothContexts().filter(({ family }) => family === "ip"));
    const alone = parts.make();
    await alone.sync();
    expect(Object.keys(parts.fake.kernel.ruleset)).toEqual(["ip"]);
  });
});

describe("what others did", () => {
  test.each([
    ["our table deleted", removalTransaction([{ family: "ip", name: "nft-proxy" }]), ["create"]],
    [
      "a chain emptied",
      { nftables: [{ flush: { chain: { family: "ip", table: "nft-proxy", name: "services" } } } as const] },
      ["change"],
    ],
  ])("%s is repaired and reported, once", async (_name, interference, modes) => {
    const parts = setUp();
    await parts.reconciler.sync();
    parts.fake.kernel.apply(interference);
    parts.reconciler.requestFullSync("drift");
    const report = await parts.reconciler.sync();
    expect(report.drift.map(({ mode }) => mode)).toEqual(modes);
    expect(missing(parts)).toEqual([]);
    parts.reconciler.requestFullSync("periodic");
    expect((await parts.reconciler.sync()).drift).toEqual([]);
  });

  test("is found out by a change that the kernel refuses for it", async () => {
    const parts = setUp();
    await parts.reconciler.sync();
    parts.fake.kernel.apply(removalTransaction([{ family: "ip", name: "nft-proxy" }]));
    parts.cache.deleteService(web.name);
    const report = await parts.reconciler.sync();
    expect(summary(report)).toMatchObject({ kind: "full", reason: "failure", refused: [] });
    expect(report.drift.map(({ mode }) => mode)).toEqual(["create"]);
    expect(missing(parts)).toEqual([]);
  });
});

describe("chains out of use", () => {
  test("go later, unless they are used again by then", async () => {
    const parts = setUp();
    await parts.reconciler.sync();
    const chains = () =>
      [...(parts.fake.kernel.ruleset.ip?.chains.keys() ?? [])].filter((name) => name.startsWith("balance"));
    parts.cache.putSlice(slice({ endpoints: ["10.244.2.11"] }));
    await parts.reconciler.sync();
    expect(chains()).toEqual(["balance-2", "balance-1"]);
    parts.cache.putSlice(webSlice);
    await parts.reconciler.sync();
    await parts.reconciler.tidy();
    expect(chains()).toEqual(["balance-2"]);
    expect(missing(parts)).toEqual([]);
  });
});

describe("chains out of use, several times over", () => {
  test("go all the same, and are no drift", async () => {
    const parts = setUp();
    await parts.reconciler.sync();
    for (const endpoints of [["10.244.2.11"], ["10.244.2.11", "10.244.2.12"], ["10.244.2.11"]]) {
      parts.cache.putSlice(slice({ endpoints }));
      await parts.reconciler.sync();
    }
    await parts.reconciler.tidy();
    expect(missing(parts)).toEqual([]);
    parts.reconciler.requestFullSync("periodic");
    expect((await parts.reconciler.sync()).drift).toEqual([]);
  });

  test("are kept in mind while nft cannot be asked", async () => {
    const parts = setUp();
    await parts.reconciler.sync();
    parts.cache.putSlice(slice({ endpoints: ["10.244.2.11"] }));
    await parts.reconciler.sync();
    parts.fake.timesOut = true;
    await expect(parts.reconciler.tidy()).rejects.toThrow("did not end within");
    parts.fake.timesOut = false;
    await parts.reconciler.tidy();
    expect(missing(parts)).toEqual([]);
  });
});

describe("quarantine", () => {
  const bad = service({ name: "bad", clusterIPs: ["10.96.6.66"] });

  test("leaves out what the kernel refuses, at start and later, and takes it when the kernel does", async () => {
    const parts = setUp(cacheOf({ services: [web, dns, bad], slices: [webSlice] }));
    parts.fake.refuses = "10.96.6.66";
    const start = await parts.reconciler.sync();
    expect(start.refused).toEqual(["ip default/bad:/tcp"]);
    expect(
      missing(parts).flatMap(({ elements }) => elements.flatMap(({ added }) => added.map(({ key }) => key))),
    ).toEqual(["10.96.6.66", "10.96.6.66 . tcp . 80"]);
    expect([...parts.reconciler.quarantined]).toEqual(start.refused);

    parts.cache.putSlice(slice({ endpoints: ["10.244.2.15"] }));
    expect(summary(await parts.reconciler.sync()), "others go on as ever").toMatchObject({
      kind: "partial",
      refused: [],
    });
    parts.cache.putSlice(slice({ service: "bad", endpoints: ["10.244.2.16"] }));
    expect((await parts.reconciler.sync()).refused, "it changed, and is tried again").toEqual(start.refused);
    expect(parts.reconciler.retryQuarantined()).toBe(true);
    parts.fake.refuses = undefined;
    expect((await parts.reconciler.sync()).refused).toEqual([]);
    expect(parts.reconciler.retryQuarantined()).toBe(false);
    expect(missing(parts)).toEqual([]);
  });

  test("leaves out what our own schema refuses, before it leaves", async () => {
    const hostile = slice({ service: "bad", endpoints: ["10.244.2.16; flush ruleset"] });
    const parts = setUp(cacheOf({ services: [web, dns, bad], slices: [webSlice, hostile] }));
    expect((await parts.reconciler.sync()).refused).toEqual(["ip default/bad:/tcp"]);
    expect(JSON.stringify(parts.fake.transactions)).not.toContain("flush ruleset");
    expect(JSON.stringify(parts.fake.transactions)).toContain("10.244.2.12");
  });

  test("a change that is refused leaves what the others changed in the same sync", async () => {
    const parts = setUp();
    await parts.reconciler.sync();
    parts.fake.refuses = "10.96.6.66";
    parts.cache.putService(bad);
    parts.cache.deleteService(dns.name);
    parts.cache.putSlice(slice({ endpoints: ["10.244.2.15", "10.244.2.16", "10.244.2.17"] }));
    const report = await parts.reconciler.sync();
    expect(report.refused).toEqual(["ip default/bad:/tcp"]);
    parts.cache.deleteService(bad.name);
    await parts.reconciler.sync();
    expect(parts.reconciler.quarantined.size).toBe(0);
    expect(missing(parts)).toEqual([]);
  });

  test("nft that fails in the middle of the search costs nothing but time", async () => {
    const parts = setUp(cacheOf({ services: [web, dns, bad], slices: [webSlice] }));
    parts.fake.refuses = "10.96.6.66";
    parts.fake.before = (run) => {
      parts.fake.timesOut = run === "check" && parts.fake.count("check") === 3;
    };
    await expect(parts.reconciler.sync()).rejects.toThrow("did not end within");
    parts.fake.refuses = undefined;
    await parts.reconciler.sync();
    expect(missing(parts)).toEqual([]);
  });

  test("a refusal that no service port explains fails the sync, and quarantines nothing", async () => {
    const parts = setUp();
    parts.fake.refuses = "masquerade";
    await expect(parts.reconciler.sync()).rejects.toThrow("nft refused the transaction");
    expect(parts.reconciler.quarantined.size).toBe(0);
    parts.fake.refuses = undefined;
    parts.cache.markDirty(named("web"));
    await parts.reconciler.sync();
    expect(missing(parts)).toEqual([]);
  });
});
