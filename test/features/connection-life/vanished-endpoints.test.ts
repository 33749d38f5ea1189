import { describe, expect, test, vi } from "vitest";
import { changeTimer } from "../../../src/daemon/proxier.ts";
import { resetPackets } from "../../../src/features/connection-life/reset-packets.ts";
import { MOST_VANISHED, VANISHED, VANISHED_SECONDS } from "../../../src/features/connection-life/rules.ts";
import { statePart } from "../../../src/features/connection-life/state.ts";
import {
  VANISHED_DELAY,
  VanishedEndpoints,
} from "../../../src/features/connection-life/vanished-endpoints.ts";
import { remainingTimes, type TableReader } from "../../../src/kernel/table-reader.ts";
import type { EndpointSlice } from "../../../src/model/endpoint-slice.ts";
import type { Transaction } from "../../../src/nft/ast/json.ts";
import { deltaSize } from "../../../src/nft/delta.ts";
import { Reconciler } from "../../../src/sync/reconciler.ts";
import {
  cacheOf,
  DRAINING,
  endpoint,
  GONE,
  STARTING,
  service,
  slice,
  slicePort,
  testNodeContext,
} from "../../support/build.ts";
import { FakeNft } from "../../support/fake-nft.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { countOperations } from "../../support/operations.ts";

const [A, B, C] = ["10.244.2.11", "10.244.2.12", "10.244.2.13"] as const;
const DELAY = VANISHED_DELAY;
const PERIOD = VANISHED_SECONDS * 1000;

/** A tracker of a cluster with these slices, on a clock that tests move. */
function tracking(...slices: readonly EndpointSlice[]) {
  const cache = cacheOf({ slices });
  const clock = { now: 0 };
  const vanished = new VanishedEndpoints({ cache, now: () => clock.now, delayMs: DELAY, byDefault: true });
  vanished.update(cache.takeDirty());
  const known = new Map(slices.map((one) => [one.name, one]));
  /** Puts a slice, and takes the change over. */
  const put = (one: EndpointSlice) => {
    cache.putSlice(one, known.get(one.name));
    known.set(one.name, one);
    vanished.update(cache.takeDirty());
  };
  const remove = (one: EndpointSlice) => {
    cache.deleteSlice(one);
    vanished.update(cache.takeDirty());
  };
  const sync = () => vanished.putInto({ families: {} });
  const held = () => vanished.beingReset().map(({ target }) => target);
  const wait = (milliseconds: number) => {
    clock.now += milliseconds;
    sync();
    return held();
  };
  return { cache, clock, vanished, put, remove, sync, held, wait };
}

describe("an endpoint that left every EndpointSlice", () => {
  test("is held after the delay, for 15 minutes, with the Service that it left", () => {
    const { put, held, wait, vanished } = tracking(slice({ endpoints: [A, B] }));
    put(slice({ endpoints: [B] }));
    expect(held()).toEqual([]);
    expect(wait(DELAY - 1)).toEqual([]);
    expect(wait(1)).toEqual([`${A} . 8080`]);
    expect(vanished.beingReset()).toMatchObject([{ family: "ip", services: ["default/web"] }]);
    expect(wait(PERIOD - 1)).toEqual([`${A} . 8080`]);
    expect(wait(1)).toEqual([]);
  });

  test("is held when its EndpointSlice was deleted", () => {
    const only = slice({ endpoints: [A] });
    const { remove, wait } = tracking(only);
    remove(only);
    expect(wait(DELAY)).toEqual([`${A} . 8080`]);
  });

  test("is not held when it is back within the delay, nor when it is back later", () => {
    const { put, wait, held } = tracking(slice({ endpoints: [A, B] }));
    put(slice({ endpoints: [B] }));
    wait(DELAY - 1);
    put(slice({ endpoints: [A, B] }));
    expect(wait(DELAY)).toEqual([]);
    put(slice({ endpoints: [B] }));
    expect(wait(DELAY)).toEqual([`${A} . 8080`]);
    put(slice({ endpoints: [A, B] }));
    expect(held()).toEqual([]);
  });

  test("that leaves a second time is held for the full time again", () => {
    const { put, wait } = tracking(slice({ endpoints: [A] }));
    for (const endpoints of [[], [A], []]) {
      put(slice({ endpoints, family: "ip" }));
      wait(PERIOD / 2);
    }
    expect(wait(PERIOD / 2 + DELAY - 1)).toEqual([`${A} . 8080`]);
    expect(wait(1)).toEqual([]);
  });

  test.each([
    ["terminates and serves", DRAINING],
    ["terminates and does not serve", GONE],
    ["is not ready", STARTING],
  ])("is not one that %s", (_, conditions) => {
    const { put, wait } = tracking(slice({ endpoints: [A] }));
    put(slice({ endpoints: [endpoint(A, conditions)] }));
    expect(wait(DELAY)).toEqual([]);
  });

  test("of several Services is held when it left the last", () => {
    const other = { name: "other-ip", service: "other", endpoints: [A] };
    const { put, wait, vanished } = tracking(slice({ endpoints: [A] }), slice(other));
    put(slice({ endpoints: [], family: "ip" }));
    expect(wait(DELAY)).toEqual([]);
    put(slice({ ...other, endpoints: [B] }));
    expect(wait(DELAY)).toEqual([`${A} . 8080`]);
    expect(vanished.beingReset()).toMatchObject([{ services: ["default/web", "default/other"] }]);
  });

  test("that moves to another EndpointSlice or Service at once is not held, whichever is seen first", () => {
    for (const order of [0, 1]) {
      const { cache, vanished, wait } = tracking(slice({ endpoints: [A] }));
      const without = () => cache.putSlice(slice({ endpoints: [], family: "ip" }), slice({ endpoints: [A] }));
      const elsewhere = () => cache.putSlice(slice({ name: "other-ip", service: "other", endpoints: [A] }));
      for (const change of order === 0 ? [without, elsewhere] : [elsewhere, without]) change();
      vanished.update(cache.takeDirty());
      expect(wait(DELAY)).toEqual([]);
    }
  });

  test("is known by its address and port, of TCP alone", () => {
    const ports = [slicePort(8080, { name: "web" }), slicePort(53, { name: "dns", protocol: "udp" })];
    const { put, wait } = tracking(slice({ endpoints: [A], ports }));
    put(slice({ endpoints: [A], ports: [slicePort(9090, { name: "web" })] }));
    expect(wait(DELAY)).toEqual([`${A} . 8080`]);
  });
});

describe("the endpoints that are held", () => {
  test("are limited for each family, and the oldest go first", () => {
    const address = (n: number) => `10.${n >> 16}.${(n >> 8) & 255}.${n & 255}`;
    const many = Array.from({ length: MOST_VANISHED }, (_, n) => address(n));
    const { put, wait, clock } = tracking(slice({ endpoints: [A, ...many] }));
    put(slice({ endpoints: many }));
    clock.now += 1;
    put(slice({ endpoints: [], family: "ip" }));
    const held = wait(DELAY);
    expect(held).toHaveLength(MOST_VANISHED);
    expect(held).not.toContain(`${A} . 8080`);
  });

  test("change next when one is due, or when its time is over", () => {
    const { put, wait, sync, vanished, clock } = tracking(slice({ endpoints: [A, B] }));
    sync();
    expect(vanished.nextChangeAt()).toBe(Number.POSITIVE_INFINITY);
    put(slice({ endpoints: [B] }));
    sync();
    expect(vanished.nextChangeAt()).toBe(clock.now + DELAY);
    wait(DELAY);
    sync();
    expect(vanished.nextChangeAt()).toBe(clock.now + PERIOD);
    put(slice({ endpoints: [], family: "ip" }));
    sync();
    expect(vanished.nextChangeAt()).toBe(clock.now + DELAY);
    wait(DELAY + PERIOD);
    sync();
    expect(vanished.nextChangeAt(), "the time of both is over").toBe(Number.POSITIVE_INFINITY);
  });

  test("change next at a time in the past if it passed during a sync", () => {
    const { put, sync, vanished, clock } = tracking(slice({ endpoints: [A, B] }));
    put(slice({ endpoints: [B] }));
    sync();
    const due = clock.now + DELAY;
    clock.now += 2 * DELAY;
    expect(vanished.nextChangeAt()).toBe(due);
    sync();
    expect(vanished.nextChangeAt()).toBe(due + PERIOD);
  });
});

describe("endpoints that an earlier process held", () => {
  test("are held for the time that remains, unless an EndpointSlice names them", () => {
    const { vanished, wait, held } = tracking(slice({ endpoints: [A] }));
    const remaining = [5000, 5000, 0].map((time, index) => [`${[A, B, C][index]} . 8080`, time] as const);
    vanished.adopt("ip", new Map(remaining), new Map());
    expect(held()).toEqual([`${B} . 8080`]);
    expect(wait(4999)).toEqual([`${B} . 8080`]);
    expect(wait(1)).toEqual([]);
  });
});

const at = (address: string) => `${address} . 8080`;

/** A daemon's reconciler over a kernel, on a clock that tests move. */
function start(fake: FakeNft, endpoints: readonly string[], resetVanished = true) {
  const cache = cacheOf({ services: [service()], slices: [slice({ endpoints, family: "ip" })] });
  const clock = { now: 0 };
  const vanished = resetVanished
    ? new VanishedEndpoints({ cache, now: () => clock.now, delayMs: VANISHED_DELAY, byDefault: true })
    : undefined;
  const now = () => clock.now;
  const parts = vanished === undefined ? [] : [statePart(vanished, { now, monotonic: now })];
  const reconciler = new Reconciler({ cache, nft: fake.nft, tables: fake.tables, stateParts: parts });
  const sync = () =>
    reconciler.sync({ nodeContext: testNodeContext({ resetVanished }), services: cache.takeDirty() });
  const serve = (...addresses: readonly string[]) =>
    cache.putSlice(slice({ endpoints: addresses, family: "ip" }));
  return { clock, vanished, reconciler, sync, serve };
}

const inKernel = (fake: FakeNft) => [...(fake.kernel.ruleset.ip?.sets.get(VANISHED)?.elements.keys() ?? [])];

/** What somebody else does to the set. */
function changeSet(fake: FakeNft, command: "add" | "delete", address: string): void {
  const element = {
    family: "ip",
    table: "nft-proxy",
    name: VANISHED,
    elem: [{ concat: [address, 8080] }],
  } as const;
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
  expect(after.vanished?.beingReset()).toMatchObject([
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

test("the set, the chain and its rule are deleted without the option, and added again with it", async () => {
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

test("remainingTimes reads the times in whole seconds, the shortest first", async () => {
  const spec = {
    name: VANISHED,
    key: ["ipv4_addr", "inet_service"],
    dynamic: false,
    counter: false,
  } as const;
  const tables: Pick<TableReader, "elements"> = {
    async *elements() {
      yield [{ key: at(A), value: "", expiresMs: 959_001 }];
      yield [{ key: at(B), value: "", expiresMs: 1000 }];
    },
  };
  expect([...(await remainingTimes(tables)("ip", spec))]).toEqual([
    [at(B), 1000],
    [at(A), 960_000],
  ]);
});

test("resetPackets counts the packets of rules with a reset alone", () => {
  const rule = (reject: unknown, packets: number) => ({
    rule: { expr: [{ counter: { packets, bytes: 1 } }, { reject }] },
  });
  const objects = [
    rule({ type: "tcp reset" }, 3),
    rule({ type: "tcp reset" }, 4),
    rule(null, 100),
    { chain: {} },
  ];
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

test("a sync is requested at the next change: at once if it is past, never if there is none", () => {
  const clock = new ManualClock();
  const next = { at: 4000 };
  const requested: number[] = [];
  const timer = changeTimer([{ nextChangeAt: () => next.at }], clock, () =>
    requested.push(clock.monotonic()),
  );
  timer.synced();
  next.at = 3000;
  timer.synced();
  clock.advance(6000);
  expect(requested).toEqual([3000]);
  timer.synced();
  clock.advance(0);
  expect(requested).toEqual([3000, 6000]);
  next.at = Number.POSITIVE_INFINITY;
  timer.synced();
  expect(clock.timers).toBe(0);
});

describe("EndpointSlices with many ports", () => {
  const PORTS = Array.from({ length: 20 }, (_, index) => slicePort(7000 + index, { name: `p${index}` }));
  const many = (endpoints: readonly string[], ports = PORTS) =>
    slice({ name: "many", service: "wide", ports, endpoints });

  test("let the connections of an endpoint that left be reset at each port", () => {
    const { put, wait } = tracking(many([A, B]));
    put(many([B]));
    expect(wait(DELAY)).toEqual(PORTS.map(({ port }) => `${A} . ${port}`));
  });

  test("let the connections to a port that is gone be reset, and keep others of the address", () => {
    const { put, wait } = tracking(slice({ endpoints: [A, B] }), many([A]));
    put(many([A], PORTS.slice(1)));
    put(slice({ endpoints: [B] }));
    expect(wait(DELAY).sort()).toEqual([`${A} . 7000`, `${A} . 8080`]);
  });

  test.each(["narrow first", "wide first"])("keep what one of two Services keeps: %s", (order) => {
    const narrow = slice({ endpoints: [A], ports: [slicePort(7000)] });
    const { cache, remove, wait } = tracking(narrow, many([A]));
    cache.putService(service({ onEndpointRemoved: "keep" }));
    for (const one of order === "narrow first" ? [narrow, many([A])] : [many([A]), narrow]) remove(one);
    expect(wait(DELAY)).toEqual(PORTS.slice(1).map(({ port }) => `${A} . ${port}`));
  });

  test("end the reset of an endpoint that they name", () => {
    const { put, wait, sync, held } = tracking(slice({ endpoints: [A, B] }));
    put(slice({ endpoints: [B] }));
    expect(wait(DELAY)).toEqual([`${A} . 8080`]);
    put(many([A], [slicePort(8080), ...PORTS]));
    sync();
    expect(held()).toEqual([]);
  });

  test("cost a limited number of targets if all endpoints leave at once", () => {
    const addresses = Array.from({ length: 1000 }, (_, n) => `10.1.${n >> 8}.${n & 255}`);
    const ports = Array.from({ length: 1000 }, (_, index) => slicePort(7000 + index));
    const { cache } = tracking(many(addresses, ports));
    const operations = countOperations(() => cache.deleteSlice(many(addresses, ports)));
    expect(operations).toBeLessThan(1_000_000);
  });
});

test("an endpoint remembers the last Services of many that it left", () => {
  const { put, remove, vanished, wait } = tracking(slice({ endpoints: [A] }));
  const passing = Array.from({ length: 20 }, (_, index) =>
    slice({ name: `s${index}`, service: `s${index}`, endpoints: [A] }),
  );
  for (const one of passing) {
    put(one);
    remove(one);
  }
  remove(slice({ endpoints: [A] }));
  wait(DELAY);
  const [held] = vanished.beingReset();
  expect(held?.services).toHaveLength(8);
  expect(held?.services.at(-1)).toBe("default/web");
});

test("a Service's wish for resets costs nothing until an endpoint leaves, and without one, nothing is remembered", () => {
  const addresses = Array.from({ length: 200 }, (_, i) => `10.1.0.${i}`);
  const others = (endpoints: readonly string[]) => slice({ service: "others", endpoints, family: "ip" });
  const cache = cacheOf({ services: [service()], slices: [others(addresses)] });
  const vanished = new VanishedEndpoints({ cache, now: () => 0, delayMs: DELAY, byDefault: false });
  const update = (options: Parameters<typeof service>[0]) =>
    countOperations(() => {
      cache.putService(service(options));
      vanished.update(cache.takeDirty());
      vanished.putInto({ families: {} });
    });
  expect(update({ onEndpointRemoved: "reset" })).toBeLessThan(addresses.length);
  expect(vanished.isNeeded).toBe(true);
  update({});
  expect(vanished.isNeeded).toBe(false);
  expect(countOperations(() => cache.putSlice(others([])))).toBeLessThan(addresses.length);
  expect(vanished.nextChangeAt()).toBe(Number.POSITIVE_INFINITY);
});

describe("the search of all EndpointSlices for endpoints that left", () => {
  test("is shared by those that leave within a second, and is announced", () => {
    const { put, sync, held, wait, vanished, clock, cache } = tracking(slice({ endpoints: [A, B, C] }));
    const search = vi.spyOn(cache, "allSlices");
    put(slice({ endpoints: [B, C] }));
    clock.now = 1;
    put(slice({ endpoints: [C] }));
    clock.now = 2;
    put(slice({ endpoints: [], family: "ip" }));
    clock.now = DELAY;
    sync();
    expect(held()).toEqual([at(A)]);
    for (const _ of [B, C]) expect(wait(1)).toEqual([at(A)]);
    expect(search).toHaveBeenCalledTimes(1);
    expect(vanished.nextChangeAt()).toBe(DELAY + 1000);
    expect(wait(998)).toEqual([at(A), at(B), at(C)]);
    expect(search).toHaveBeenCalledTimes(2);
  });

  test("finds the Services that still name an endpoint: of these, only a later leaving counts", () => {
    const other = { name: "other-ip", service: "other", endpoints: [A] };
    const { put, wait, vanished } = tracking(slice({ endpoints: [A] }), slice(other));
    put(slice({ endpoints: [], family: "ip" }));
    expect(wait(DELAY)).toEqual([]);
    put(slice({ endpoints: [A] }));
    put(slice({ ...other, endpoints: [], family: "ip" }));
    put(slice({ endpoints: [], family: "ip" }));
    expect(wait(DELAY)).toEqual([at(A)]);
    expect(vanished.beingReset()).toMatchObject([{ services: ["default/other", "default/web"] }]);
  });
});
