import { describe, expect, test, vi } from "vitest";
import { changeTimer } from "../../../src/daemon/proxier.ts";
import { MOST_VANISHED, VANISHED, VANISHED_SECONDS } from "../../../src/features/connection-life/rules.ts";
import { statePart } from "../../../src/features/connection-life/state.ts";
import {
  VANISHED_DELAY,
  VanishedEndpoints,
} from "../../../src/features/connection-life/vanished-endpoints.ts";
import type { EndpointSlice, SliceEndpoint } from "../../../src/model/endpoint-slice.ts";
import { SliceEndpoints } from "../../../src/model/endpoint-slice.ts";
import type { Service } from "../../../src/model/service.ts";
import { Reconciler } from "../../../src/sync/reconciler.ts";
import {
  cacheOf,
  DRAINING,
  endpoint,
  named,
  service,
  slice,
  slicePort,
  testNodeContext,
} from "../../support/build.ts";
import { FakeNft } from "../../support/fake-nft.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { countOperations } from "../../support/operations.ts";

const [A, B, C] = ["10.244.2.11", "10.244.2.12", "10.244.2.13"] as const;
const DRAIN = 60_000;
const PERIOD = VANISHED_SECONDS * 1000;

const at = (address: string) => `${address} . 8080`;
const ending = (address: string) => endpoint(address, DRAINING);

/** Options of a daemon's reconciler. */
interface StartOptions {
  readonly services?: readonly Service[];
  readonly slices: readonly EndpointSlice[];
  readonly fake?: FakeNft;
  readonly resetVanished?: boolean;
}

/** A reconciler over a kernel, on a clock that tests move. By default, the Service has a drain timeout. */
function start({
  services = [service({ drainTimeoutMs: DRAIN })],
  slices,
  fake = new FakeNft(),
  resetVanished = false,
}: StartOptions) {
  const cache = cacheOf({ services, slices });
  const clock = { now: 0 };
  const now = () => clock.now;
  const vanished = new VanishedEndpoints({ cache, now, delayMs: VANISHED_DELAY, byDefault: resetVanished });
  const parts = [statePart(vanished, { now, monotonic: now })];
  const reconciler = new Reconciler({ cache, nft: fake.nft, tables: fake.tables, stateParts: parts });
  const sync = async (wait = 0) => {
    clock.now += wait;
    await reconciler.sync({ nodeContext: testNodeContext({ resetVanished }), services: cache.takeDirty() });
    return [...(fake.kernel.ruleset.ip?.sets.get(VANISHED)?.elements.keys() ?? [])].sort();
  };
  const serve = (...endpoints: readonly (SliceEndpoint | string)[]) =>
    cache.putSlice(slice({ endpoints, family: "ip" }));
  const chains = () => [...(fake.kernel.ruleset.ip?.chains.keys() ?? [])];
  return { cache, clock, vanished, reconciler, fake, sync, serve, chains };
}

const others = (endpoints: readonly (SliceEndpoint | string)[]) =>
  slice({ service: "other", endpoints, family: "ip" });

describe("connections to a terminating endpoint", () => {
  test("are reset when its drain timeout is over, for 15 minutes, and not before", async () => {
    const { sync, serve, vanished, clock } = start({ slices: [slice({ endpoints: [A, B] })] });
    await sync();
    serve(ending(A), B);
    expect(await sync()).toEqual([]);
    expect(vanished.nextChangeAt()).toBe(clock.now + DRAIN);
    expect(await sync(DRAIN - 1)).toEqual([]);
    expect(await sync(1)).toEqual([at(A)]);
    expect(vanished.beingReset()).toMatchObject([{ services: ["default/web"], isDrained: true }]);
    expect(await sync(PERIOD - 1)).toEqual([at(A)]);
    expect(await sync(1)).toEqual([]);
    expect(await sync(PERIOD)).toEqual([]);
  });

  test("stay where it gets new ones because no endpoint is ready, until one is", async () => {
    const { sync, serve } = start({ slices: [slice({ endpoints: [ending(A)] })] });
    expect(await sync()).toEqual([]);
    expect(await sync(DRAIN)).toEqual([]);
    serve(ending(A), B);
    expect(await sync()).toEqual([at(A)]);
    serve(ending(A));
    expect(await sync()).toEqual([]);
  });

  test("stay when it only becomes unready, or is ready again before", async () => {
    const { sync, serve } = start({ slices: [slice({ endpoints: [A, B] })] });
    await sync();
    serve(endpoint(A, { ready: false, serving: false }), B);
    expect(await sync(DRAIN)).toEqual([]);
    serve(ending(A), B);
    await sync(DRAIN / 2);
    serve(A, B);
    await sync(DRAIN / 2);
    serve(ending(A), B);
    expect(await sync(DRAIN / 2)).toEqual([]);
    expect(await sync(DRAIN / 2)).toEqual([]);
    expect(await sync(DRAIN / 2)).toEqual([at(A)]);
  });

  test("are reset no longer when it is back", async () => {
    const { sync, serve } = start({ slices: [slice({ endpoints: [ending(A), B] })] });
    await sync();
    expect(await sync(DRAIN)).toEqual([at(A)]);
    serve(A, B);
    expect(await sync()).toEqual([]);
  });

  test("stay if another entry of the Service has the address and does not terminate", async () => {
    const { sync, cache } = start({ slices: [slice({ endpoints: [ending(A), B] })] });
    cache.putSlice(slice({ name: "web-2", endpoints: [endpoint(A, { ready: false })] }));
    await sync();
    expect(await sync(DRAIN)).toEqual([]);
  });

  test.each([
    ["does not say how long", {}, []],
    ["gives it longer", { drainTimeoutMs: 2 * DRAIN }, []],
    ["gives it as long", { drainTimeoutMs: DRAIN }, [at(A)]],
  ])("are reset only if each Service that has it drained it: one that %s", async (_, options, held) => {
    const { sync } = start({
      services: [
        service({ drainTimeoutMs: DRAIN }),
        service({ name: "other", clusterIPs: ["10.96.0.11"], ...options }),
      ],
      slices: [slice({ endpoints: [ending(A), B] }), others([ending(A), B])],
    });
    await sync();
    expect(await sync(DRAIN)).toEqual(held);
    if ("drainTimeoutMs" in options) expect(await sync(DRAIN)).toEqual([at(A)]);
  });

  test("stay at once when another Service gets it, until that one has left it", async () => {
    const { sync, cache } = start({
      services: [service({ drainTimeoutMs: DRAIN }), service({ name: "other", clusterIPs: ["10.96.0.11"] })],
      slices: [slice({ endpoints: [ending(A), B] }), others([B])],
    });
    await sync();
    expect(await sync(DRAIN)).toEqual([at(A)]);
    cache.putSlice(others([A, B]));
    expect(await sync()).toEqual([]);
    cache.putSlice(others([B]));
    expect(await sync()).toEqual([at(A)]);
    cache.putSlice(others([ending(A), B]));
    expect(await sync()).toEqual([]);
    cache.deleteService(named("other"));
    expect(await sync()).toEqual([at(A)]);
  });

  test("are reset though a Service that this node does not serve names it, as a headless one", async () => {
    const { sync } = start({
      slices: [slice({ endpoints: [ending(A), B] }), others([endpoint(A, { ready: true }), B])],
    });
    await sync();
    expect(await sync(DRAIN)).toEqual([at(A)]);
  });

  test("are reset without a pause when it leaves, though the Service keeps those of others", async () => {
    const { sync, serve } = start({ slices: [slice({ endpoints: [ending(A), B, C] })] });
    await sync();
    await sync(DRAIN);
    serve(B);
    expect(await sync()).toEqual([at(A)]);
    expect(await sync(VANISHED_DELAY)).toEqual([at(A)]);
    expect(await sync(PERIOD - VANISHED_DELAY)).toEqual([]);
  });

  test("are reset after a restart without a pause, if they were before; else the timeout begins anew", async () => {
    const slices = [slice({ endpoints: [ending(A), B, ending(C)] })];
    const before = start({ slices: [slice({ endpoints: [ending(A), B, C] })] });
    await before.sync();
    await before.sync(DRAIN);
    const after = start({ slices, fake: before.fake });
    expect(await after.sync()).toEqual([at(A)]);
    expect(await after.sync(DRAIN)).toEqual([at(A), at(C)]);
    const without = start({ services: [service()], slices, fake: before.fake });
    expect(await without.sync()).toEqual([]);
    expect(without.chains()).not.toContain("vanished-endpoints-check");
  });

  test("are reset for the rest of the 15 minutes after a restart", async () => {
    const { vanished, sync } = start({ slices: [slice({ endpoints: [ending(A), B] })] });
    await sync();
    vanished.adopt("ip", new Map([[at(A), 60_000]]), new Map());
    expect(await sync(59_999)).toEqual([at(A)]);
    expect(await sync(1)).toEqual([]);
  });
});

describe("connections to an endpoint that left every EndpointSlice", () => {
  test.each([
    ["keep", true, []],
    ["reset", false, [at(A)]],
    [undefined, true, [at(A)]],
    [undefined, false, []],
  ] as const)("with %s and the default %s", async (onEndpointRemoved, resetVanished, held) => {
    const { sync, serve } = start({
      services: [service(onEndpointRemoved === undefined ? {} : { onEndpointRemoved })],
      slices: [slice({ endpoints: [A, B] })],
      resetVanished,
    });
    await sync();
    serve(B);
    await sync();
    expect(await sync(VANISHED_DELAY)).toEqual(held);
  });

  test("stay if one of its Services wants to keep them, whichever it left first", async () => {
    for (const first of [0, 1]) {
      const { sync, cache } = start({
        services: [
          service({ onEndpointRemoved: "reset" }),
          service({ name: "other", clusterIPs: ["10.96.0.11"], onEndpointRemoved: "keep" }),
        ],
        slices: [slice({ endpoints: [A, B] }), others([A, B])],
      });
      const leave = [() => cache.putSlice(slice({ endpoints: [B] })), () => cache.putSlice(others([B]))];
      await sync();
      leave[first]?.();
      await sync();
      leave[1 - first]?.();
      await sync();
      expect(await sync(VANISHED_DELAY)).toEqual([]);
    }
  });

  test("are reset as the Service wanted, if it was deleted before its EndpointSlices", async () => {
    const { sync, cache, vanished } = start({
      services: [service({ onEndpointRemoved: "reset" })],
      slices: [slice({ endpoints: [A] })],
    });
    await sync();
    cache.deleteService(service().name);
    await sync();
    cache.deleteSlice(slice({ endpoints: [A] }));
    await sync();
    expect(await sync(VANISHED_DELAY)).toEqual([at(A)]);
    expect(await sync(PERIOD)).toEqual([]);
    await sync();
    expect([vanished.isNeeded, vanished.nextChangeAt()], "nothing is remembered").toEqual([
      false,
      Number.POSITIVE_INFINITY,
    ]);
  });

  test("are reset after a restart as the Services want that they left meanwhile", async () => {
    for (const onEndpointRemoved of ["keep", "reset"] as const) {
      const services = [service({ onEndpointRemoved })];
      const before = start({ services, slices: [slice({ endpoints: [A, B] })] });
      await before.sync();
      const after = start({ services, slices: [slice({ endpoints: [B] })], fake: before.fake });
      await after.sync();
      expect(await after.sync(VANISHED_DELAY)).toEqual(onEndpointRemoved === "keep" ? [] : [at(A)]);
    }
  });
});

test("the set, the chains and their rules exist only while a connection may be reset", async () => {
  const { sync, serve, chains, reconciler, fake } = start({ slices: [slice({ endpoints: [A, B] })] });
  await sync();
  const [without, text] = [chains(), () => JSON.stringify(fake.kernel.ruleset)];
  const before = text();
  for (let round = 0; round < 2; round++) {
    serve(ending(A), B);
    await sync();
    await sync(DRAIN);
    const added = chains().filter((name) => !without.includes(name) && !name.startsWith("balance-"));
    expect(added.sort()).toEqual([
      "filter-output-pre-dnat",
      "filter-prerouting-pre-dnat",
      "vanished-endpoints-check",
    ]);
    serve(A, B);
    expect(await sync(), "at once, before the chains go").toEqual([]);
    // In the first round they are needed again before they were deleted.
    if (round === 0) continue;
    await reconciler.deleteStaleChains();
    expect(text().length).toBe(before.length);
    expect(chains()).toEqual(without);
  }
});

test("UDP flows are drained when the time of their endpoint is over and it gets no new ones", async () => {
  const { sync, serve, vanished, reconciler } = start({
    slices: [slice({ endpoints: [ending(A), ending(B)] })],
  });
  const isDrained = (address: string, name = "web") =>
    vanished.draining.drainedBy(reconciler.state)(named(name), { address, target: at(address) });
  await sync();
  await sync(DRAIN - 1);
  serve(ending(A), C);
  await sync();
  expect(isDrained(A)).toBe(false);
  await sync(1);
  expect([isDrained(A), isDrained(B), isDrained(C), isDrained(A, "other")]).toEqual([
    true,
    false,
    false,
    false,
  ]);
  serve(ending(A));
  await sync();
  expect(isDrained(A)).toBe(false);
});

test("a namespace with many endpoints displaces none of another's", async () => {
  const address = (n: number) => `10.${n >> 16}.${(n >> 8) & 255}.${n & 255}`;
  const many = Array.from({ length: 2 * MOST_VANISHED + 10 }, (_, n) => address(n));
  const greedy = { name: "greedy/web", clusterIPs: ["10.96.0.12"] };
  const { sync, cache, serve } = start({
    services: [service({ onEndpointRemoved: "reset" }), service({ ...greedy, onEndpointRemoved: "reset" })],
    slices: [slice({ endpoints: [A, B] }), slice({ service: "greedy/web", endpoints: many })],
  });
  await sync();
  serve(B);
  await sync(1);
  cache.putSlice(slice({ service: "greedy/web", endpoints: [], family: "ip" }));
  await sync(1);
  const held = await sync(VANISHED_DELAY);
  expect(held).toContain(at(A));
  expect(held).toHaveLength(MOST_VANISHED);
});

/** A Service that drains many endpoints. */
function drainingMany(count: number, ports: number) {
  const addresses = Array.from({ length: count }, (_, i) => `10.0.${i >> 8}.${i & 255}`);
  const slicePorts = Array.from({ length: ports }, (_, i) => slicePort(8000 + i, { name: `p${i}` }));
  return {
    services: [service({ drainTimeoutMs: DRAIN })],
    slices: [slice({ endpoints: addresses.map(ending), ports: slicePorts, family: "ip" })],
  };
}

test("a neighbour's sync looks at a limited number of a tenant's draining endpoints", () => {
  const operations = (count: number) => {
    const { vanished, reconciler, cache, clock } = start(drainingMany(count, 16));
    vanished.update(cache.takeDirty());
    clock.now = DRAIN;
    return countOperations(() => {
      vanished.update([]);
      vanished.putInto(reconciler.state);
      vanished.nextChangeAt();
    });
  };
  expect(operations(5120) / operations(512)).toBeLessThan(2);
});

test("a neighbour's sync does not read all endpoints of a Service that drains one again", async () => {
  const { sync, vanished, reconciler } = start({ slices: [slice({ endpoints: [ending(A), B, C] })] });
  await sync();
  expect(await sync(DRAIN)).toEqual([at(A)]);
  const [rules] = reconciler.state.families.ip?.allServicePortRules() ?? [];
  const targets = rules?.lists.cluster?.targets ?? [];
  expect(targets).toEqual([at(B), at(C)]);
  const read = vi.spyOn(targets, Symbol.iterator);
  vanished.putInto(reconciler.state);
  expect(read).not.toHaveBeenCalled();
});

test("those that terminate for the longest time are drained if a namespace has too many", async () => {
  const { cache, clock, sync, vanished } = start({ slices: [] });
  const few = drainingMany(2 * MOST_VANISHED, 1);
  for (const one of few.services) cache.putService(one);
  for (const one of few.slices) cache.putSlice(one);
  await sync();
  clock.now += 1;
  const many = drainingMany(2 * MOST_VANISHED + 10, 1).slices.map((one) => ({
    ...one,
    endpoints: new SliceEndpoints([...one.endpoints].toReversed()),
  }));
  for (const one of many) cache.putSlice(one);
  await sync();
  const targets = many.flatMap(({ endpoints }) => [...endpoints].map(({ address }) => `${address} . 8000`));
  expect([...vanished.resettable(targets)].sort()).toEqual(targets.slice(10).sort());
});

test("the timer requests a sync when a drain timeout is over, also of UDP ports alone, and if the wall clock is set", async () => {
  const clock = new ManualClock();
  const cache = cacheOf({
    services: [service({ drainTimeoutMs: DRAIN })],
    slices: [slice({ endpoints: [ending(A)], ports: [{ name: "", protocol: "udp", port: 53 }] })],
  });
  const vanished = new VanishedEndpoints({
    cache,
    now: () => clock.monotonic(),
    delayMs: 0,
    byDefault: false,
  });
  vanished.update(cache.takeDirty());
  vanished.putInto({ families: {} });
  let requests = 0;
  changeTimer([vanished], clock, () => requests++).synced();
  clock.set(3_600_000);
  clock.advance(DRAIN - 1);
  expect(requests).toBe(0);
  expect(statePart(vanished, clock).shown()).toMatchObject({
    draining: [{ since: 3_600_000, dueAt: 3_600_000 + DRAIN }],
  });
  clock.advance(1);
  expect(requests).toBe(1);
});
