import { describe, expect, test } from "vitest";
import type { EndpointSlice } from "../../../src/model/endpoint-slice.ts";
import { MOST_VANISHED, VANISHED_SECONDS } from "../../../src/ruleset/sets.ts";
import { allSlicesOf, VANISHED_DELAY, VanishedEndpoints } from "../../../src/sync/vanished-endpoints.ts";
import { cacheOf, DRAINING, endpoint, GONE, STARTING, slice, slicePort } from "../../support/build.ts";

const [A, B] = ["10.244.2.11", "10.244.2.12"];
const DELAY = VANISHED_DELAY;
const PERIOD = VANISHED_SECONDS * 1000;

/** A tracker of a cluster with these slices, on a clock that tests move. */
function tracking(...slices: readonly EndpointSlice[]) {
  const cache = cacheOf({ slices });
  const clock = { now: 1_000_000 };
  const vanished = new VanishedEndpoints({ cache, now: () => clock.now, delayMs: DELAY });
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
  const held = () => vanished.held().map(({ target }) => target);
  const wait = (milliseconds: number) => {
    clock.now += milliseconds;
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
    expect(vanished.held()).toMatchObject([{ family: "ip", services: ["default/web"] }]);
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

  test("has its full time again when it leaves a second time", () => {
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
    expect(vanished.held()).toMatchObject([{ services: ["default/web", "default/other"] }]);
  });

  test("is not one that moves to another EndpointSlice or Service at once, whichever is seen first", () => {
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
    expect(vanished.nextChangeAt()).toBeUndefined();
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
    expect(vanished.nextChangeAt(), "the time of both is over").toBeUndefined();
  });

  test("change next at a time that passed while a sync was under way", () => {
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
    vanished.adopt("ip", `${A} . 8080`, 5000);
    vanished.adopt("ip", `${B} . 8080`, 5000);
    vanished.adopt("ip", "10.244.2.13 . 8080", 0);
    expect(held()).toEqual([`${B} . 8080`]);
    expect(wait(4999)).toEqual([`${B} . 8080`]);
    expect(wait(1)).toEqual([]);
  });
});

test("allSlicesOf knows the endpoints of a whole cache at once, also of Services that do not exist", () => {
  const all = allSlicesOf(cacheOf({ slices: [slice({ service: "nobody", endpoints: [A] })] }), () => 0);
  expect([all.isNamed("ip", `${A} . 8080`), all.isNamed("ip", `${B} . 8080`)]).toEqual([true, false]);
});
