import { expect, test } from "vitest";
import { endingTargets, resetPackets } from "../../../src/kernel/vanished.ts";
import type { Transaction } from "../../../src/nft/ast/json.ts";
import { deltaSize } from "../../../src/nft/delta.ts";
import { VANISHED, VANISHED_MARGIN, VANISHED_SECONDS } from "../../../src/ruleset/sets.ts";
import { Reconciler } from "../../../src/sync/reconciler.ts";
import { VANISHED_DELAY, VanishedEndpoints } from "../../../src/sync/vanished-endpoints.ts";
import { cacheOf, service, slice, testNodeContext } from "../../support/build.ts";
import { FakeNft } from "../../support/fake-nft.ts";

const [A, B, C] = ["10.244.2.11", "10.244.2.12", "10.244.2.13"] as const;
const at = (address: string) => `${address} . 8080`;

/** A daemon's reconciler over a kernel, on a clock that tests move. */
function start(fake: FakeNft, endpoints: readonly string[], resetVanished = true) {
  const cache = cacheOf({ services: [service()], slices: [slice({ endpoints, family: "ip" })] });
  const clock = { now: 1_000_000 };
  const vanished = resetVanished
    ? new VanishedEndpoints({ cache, now: () => clock.now, delayMs: VANISHED_DELAY })
    : undefined;
  const reconciler = new Reconciler({ cache, nft: fake.nft, vanished });
  const sync = () => reconciler.sync({ nodeContext: testNodeContext({ resetVanished }), services: cache.takeDirty() });
  const serve = (...addresses: readonly string[]) => cache.putSlice(slice({ endpoints: addresses, family: "ip" }));
  return { clock, vanished, reconciler, sync, serve };
}

const inKernel = (fake: FakeNft) => [...(fake.kernel.ruleset.ip?.sets.get(VANISHED)?.elements.keys() ?? [])];

/** What somebody else does to the set. */
function changeSet(fake: FakeNft, command: "add" | "delete", address: string): void {
  const element = { family: "ip", table: "nft-proxy", name: VANISHED, elem: [{ concat: [address, 8080] }] } as const;
  fake.kernel.apply({ nftables: [{ [command]: { element } }] } as unknown as Transaction);
}

test("an endpoint that left is put into the kernel after the delay, and deleted when it is back or its time is over", async () => {
  const fake = new FakeNft();
  const { sync, serve, clock } = start(fake, [A, B]);
  await sync();
  serve(B);
  await sync();
  expect(inKernel(fake)).toEqual([]);
  clock.now += VANISHED_DELAY;
  expect(await sync()).toMatchObject({ kind: "partial" });
  expect(inKernel(fake)).toEqual([at(A)]);
  serve(A, B);
  await sync();
  expect(inKernel(fake)).toEqual([]);
  serve(B);
  await sync();
  clock.now += VANISHED_DELAY;
  await sync();
  clock.now += VANISHED_SECONDS * 1000;
  await sync();
  expect(inKernel(fake)).toEqual([]);
});

test("an endpoint that is back is deleted in one partial sync, though the kernel has ended it before", async () => {
  const fake = new FakeNft();
  const { sync, serve, clock } = start(fake, [A, B]);
  await sync();
  serve(B);
  await sync();
  clock.now += VANISHED_DELAY;
  await sync();
  changeSet(fake, "delete", A);
  serve(A, B);
  expect(await sync()).toMatchObject({ kind: "partial" });
  expect(inKernel(fake)).toEqual([]);
});

test("a restart keeps what left before it, deletes what is back, and adds what left meanwhile after the delay", async () => {
  const fake = new FakeNft();
  const before = start(fake, [A, B, C]);
  await before.sync();
  before.serve(C);
  await before.sync();
  before.clock.now += VANISHED_DELAY;
  await before.sync();
  expect(inKernel(fake)).toEqual([at(A), at(B)]);

  const after = start(fake, [B]);
  expect((await after.sync()).drift).toEqual([]);
  expect(inKernel(fake)).toEqual([at(A)]);
  after.clock.now += VANISHED_DELAY;
  await after.sync();
  expect(inKernel(fake).sort()).toEqual([at(A), at(C)]);
  expect(after.vanished?.held()).toMatchObject([
    { target: at(A), services: [] },
    { target: at(C), services: ["default/web"] },
  ]);
});

test("a restart over right tables with a vanished endpoint sends nothing", async () => {
  const fake = new FakeNft();
  const before = start(fake, [A, B]);
  await before.sync();
  before.serve(B);
  await before.sync();
  before.clock.now += VANISHED_DELAY;
  await before.sync();
  await before.reconciler.deleteStaleChains();
  expect((await start(fake, [B]).sync()).applied).toEqual([]);
});

test("a full sync deletes what others put into the set of vanished endpoints", async () => {
  const fake = new FakeNft();
  await start(fake, [A]).sync();
  changeSet(fake, "add", A);
  await start(fake, [A]).sync();
  expect(inKernel(fake)).toEqual([]);
});

test("without the option the set, the chain and the rule that leads to it go, and come back with it", async () => {
  const fake = new FakeNft();
  const text = () => JSON.stringify([...(fake.kernel.ruleset.ip?.chains ?? [])]) + inKernel(fake);
  await start(fake, [A], false).sync();
  const without = text();
  expect(without).not.toContain(VANISHED);
  await start(fake, [A]).sync();
  expect(text()).toContain(VANISHED);
  await start(fake, [A], false).sync();
  expect(text()).toBe(without);
});

test("endingTargets reads the time that remains from nft's listing", () => {
  const elem = [{ elem: { val: { concat: [A, 8080] }, expires: 900 + VANISHED_MARGIN } }];
  const listing = { nftables: [{ metainfo: {} }, { set: { name: VANISHED, elem } }] };
  expect(endingTargets(JSON.stringify(listing))).toEqual([{ target: at(A), expires: 960 }]);
  expect(() => endingTargets('{"nftables": [{"set": {"elem": ["x"]}}]}')).toThrow(
    expect.objectContaining({ code: "NFT_OUTPUT" }),
  );
});

test("resetPackets counts the packets of rules with a reset alone", () => {
  const rule = (reject: unknown, packets: number) => ({
    rule: { expr: [{ counter: { packets, bytes: 1 } }, { reject }] },
  });
  const objects = [rule({ type: "tcp reset" }, 3), rule({ type: "tcp reset" }, 4), rule(null, 100), { chain: {} }];
  expect(resetPackets(JSON.stringify({ nftables: objects }))).toBe(7);
});

test("a full sync puts back what others deleted from the set, as drift", async () => {
  const fake = new FakeNft();
  const { sync, serve, clock, reconciler } = start(fake, [A, B]);
  await sync();
  serve(B);
  await sync();
  clock.now += VANISHED_DELAY;
  await sync();
  changeSet(fake, "delete", A);
  reconciler.requestFullSync("drift");
  expect(deltaSize((await sync()).drift)).toEqual({ chains: 0, sets: 0, elements: 1 });
  expect(inKernel(fake)).toEqual([at(A)]);
});
