import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { affinityPoller, excessEntries } from "../../../../src/daemon/readings/affinity-poller.ts";
import type { ClientLimits } from "../../../../src/features/client-limits/limits.ts";
import { NftRefusedError } from "../../../../src/kernel/nft-errors.ts";
import type { Transaction } from "../../../../src/nft/ast/json.ts";
import { validateTransaction } from "../../../../src/nft/transaction-text.ts";
import { parseId } from "../../../../src/ruleset/list-ids.ts";
import { Renderer } from "../../../../src/ruleset/renderer.ts";
import { cacheOf, service, slice, testNodeContext } from "../../../support/build.ts";
import { ManualClock } from "../../../support/manual-clock.ts";
import { memoryLogger } from "../../../support/memory-logger.ts";
import { stubNft } from "../../../support/stub-nft.ts";

const SERVICES = ["shop/attacked", "shop/neighbour"];

interface Key {
  readonly concat: readonly [number, string];
}

/** A command of a transaction that deletes affinity entries. */
interface Sent {
  readonly add?: { readonly element: { readonly elem: readonly (readonly [Key, number])[] } };
  readonly delete?: { readonly element: { readonly elem: readonly Key[] } };
}

/** Makes the parts of a daemon with a map of 100 entries and two sticky Services. */
function watching(size = 100, clientLimits?: ClientLimits) {
  const cache = cacheOf({
    services: SERVICES.map((name, index) =>
      service({
        name,
        clusterIPs: [`10.96.0.1${index}`],
        affinitySeconds: 60,
        ...(clientLimits && { clientLimits }),
      }),
    ),
    slices: SERVICES.map((name) => slice({ service: name, endpoints: ["10.244.1.1"] })),
  });
  const renderer = new Renderer(cache, testNodeContext({ affinityMapSize: size }).slice(0, 1));
  const sync = () => {
    renderer.update(cache.takeDirty());
    renderer.state.markCommitted();
  };
  sync();
  const { state } = renderer;
  const idOf = (index: number) =>
    parseId(Number(state.ruleset.ip?.sets.get("lists")?.elements.get(`10.96.0.1${index} . tcp . 80`)))
      ?.servicePort ?? 0;
  /** The kernel's map from keys to endpoint ids. */
  const map = new Map<string, number>();
  const remember = (id: number, clients: number, from = 0) => {
    for (let client = from; client < from + clients; client++) map.set(`${id} . 10.9.0.${client}`, id + 5);
  };
  /** The keys of limited clients. */
  const limited: string[] = [];
  const logger = memoryLogger();
  const told: string[] = [];
  const faults: (() => Error | undefined)[] = [];
  let desired: typeof state.ruleset | undefined = state.ruleset;
  let betweenSyncs = () => {};
  let lists = 0;
  const apply = async (transaction: Transaction) => {
    validateTransaction(transaction);
    const fault = faults.shift()?.();
    if (fault !== undefined) throw fault;
    const [added, deleted] = transaction.nftables.map(
      (command) => JSON.parse(JSON.stringify(command)) as Sent,
    );
    const keys = deleted?.delete?.element.elem ?? [];
    expect(added?.add?.element.elem.map(([key]) => key)).toEqual(keys);
    for (const { concat } of keys) map.delete(concat.join(" . "));
    return { bytes: 0, durationMs: 0 };
  };
  const clock = new ManualClock();
  const watch = affinityPoller({
    clock,
    logger,
    state: () => state,
    tables: {
      async *elements(family, { name }) {
        expect(family).toBe("ip");
        if (name === "client-connections") yield limited.map((key) => ({ key, value: "" }));
        if (name !== "affinity-clients") return;
        lists++;
        const entries = [...map].map(([key, value]) => ({
          key,
          value: String(value),
          timeoutMs: 60_000,
          expiresMs: 59_000,
        }));
        for (let at = 0; at < entries.length; at += 7) yield entries.slice(at, at + 7);
      },
    },
    nft: stubNft({ apply }),
    loop: {
      get desiredUnlessRepairing() {
        return desired;
      },
      betweenSyncs: async (change) => {
        betweenSyncs();
        return await change();
      },
    },
    onCrowded: ({ name }) => told.push(name),
  });
  return {
    watch,
    clock,
    map,
    limited,
    remember,
    idOf,
    told,
    logger,
    cache,
    state,
    sync,
    faults,
    lists: () => lists,
    setDesired: (value: typeof desired) => {
      desired = value;
    },
    onBetween: (call: () => void) => {
      betweenSyncs = call;
    },
  };
}

const countOf = (map: ReadonlyMap<string, number>, id: number) =>
  [...map.keys()].filter((key) => key.startsWith(`${id} `)).length;

describe("affinityPoller", () => {
  test("reads 5 s after the first sync, then every minute, and not once it is stopped", async () => {
    const { watch, clock, remember, idOf, lists } = watching();
    remember(idOf(0), 3);
    for (const passed of [3000, 1999]) {
      watch.synced();
      clock.advance(passed);
    }
    expect(lists()).toBe(0);
    clock.advance(1);
    await expect.poll(() => watch.entries.ip).toBe(3);
    expect(lists()).toBe(1);
    watch.synced();
    clock.advance(60_000);
    await expect.poll(lists).toBe(2);
    watch.stop();
    watch.synced();
    clock.advance(600_000);
    expect(clock.timers).toBe(0);
  });

  test("counts the entries of each family", async () => {
    const { watch, remember, idOf, told, map } = watching();
    expect(watch.entries).toEqual({});
    remember(idOf(0), 3);
    remember(idOf(1) + 1, 2);
    await watch.poll();
    expect([watch.entries, told, map.size]).toEqual([{ ip: 5 }, [], 5]);
  });

  test("counts the clients with limits, and frees the id of a deleted Service when it has none", async () => {
    const { watch, idOf, cache, sync, state, limited } = watching(100, { connections: 5 });
    const gone = idOf(0);
    limited.push(`${gone} . 5 . 10.9.0.1`, `${idOf(1)} . 5 . 10.9.0.1`);
    cache.deleteService(service({ name: "shop/attacked" }).name);
    sync();
    await watch.poll();
    const what = (set: string) => `Clients with limited ${set}`;
    expect(watch.countedClients).toEqual([
      { family: "ip", set: "client-connections", what: what("connections"), size: 65_536, entries: 2 },
      { family: "ip", set: "client-rates", what: what("new connections"), size: 65_536, entries: 0 },
    ]);
    expect([...(state.families.ip?.ids.held ?? [])]).toEqual([gone]);
    limited.shift();
    await watch.poll();
    expect(state.families.ip?.ids.held.size).toBe(0);
  });

  test("deletes the entries of both lists of a deleted Service before another Service gets its id", async () => {
    const { watch, remember, idOf, map, cache, sync, state } = watching();
    const [gone, neighbour] = [idOf(0), idOf(1)];
    remember(gone, 3);
    remember(gone + 1, 2);
    remember(neighbour, 4);
    cache.deleteService(service({ name: "shop/attacked" }).name);
    sync();
    cache.putService(service({ name: "shop/new", clusterIPs: ["10.96.0.12"], affinitySeconds: 60 }));
    cache.putSlice(slice({ service: "shop/new", endpoints: ["10.244.1.2"] }));
    sync();
    expect([...(state.families.ip?.ids.held ?? [])]).toEqual([gone]);
    expect(idOf(2)).not.toBe(gone);
    await watch.poll();
    expect([watch.deleted, countOf(map, neighbour), map.size]).toEqual([{ gone: 5, crowded: 0 }, 4, 4]);
    expect(state.families.ip?.ids.held.size).toBe(0);
    cache.putService(service({ name: "shop/newer", clusterIPs: ["10.96.0.13"], affinitySeconds: 60 }));
    cache.putSlice(slice({ service: "shop/newer", endpoints: ["10.244.1.2"] }));
    sync();
    expect(idOf(3)).toBe(gone);
  });

  test("keeps the entries of an id that has got an owner since the map was listed", async () => {
    const { watch, remember, map, cache, sync, idOf, onBetween } = watching();
    const next = idOf(1) + 0x4000;
    remember(next, 3);
    onBetween(() => {
      cache.putService(service({ name: "shop/new", clusterIPs: ["10.96.0.12"], affinitySeconds: 60 }));
      cache.putSlice(slice({ service: "shop/new", endpoints: ["10.244.1.2"] }));
      sync();
      expect(idOf(2)).toBe(next);
    });
    await watch.poll();
    expect([countOf(map, next), watch.deleted.gone]).toEqual([3, 0]);
  });

  test("deletes entries of the service port with the most in a nearly full map, and reports it", async () => {
    const { watch, remember, idOf, told, map, logger } = watching();
    remember(idOf(0), 85);
    remember(idOf(1), 8);
    await watch.poll();
    expect([countOf(map, idOf(0)), countOf(map, idOf(1))]).toEqual([72, 8]);
    expect([watch.deleted, told]).toEqual([{ gone: 0, crowded: 13 }, ["shop/attacked/tcp"]]);
    expect(watch.entries).toEqual({ ip: 93 });
    expect(logger.lines.at(-1)).toMatchObject({
      level: "warn",
      fields: { family: "ip", size: 100, deleted: 13, servicePorts: 1, most: ["shop/attacked/tcp: 85"] },
    });
  });

  test("reads nothing while a repair is due, because the owners of ids are unknown then", async () => {
    const { watch, remember, idOf, map, setDesired, lists } = watching();
    remember(idOf(1) + 0x4000, 3);
    setDesired(undefined);
    await watch.poll();
    expect([map.size, lists()]).toEqual([3, 0]);
  });

  test("lists nothing if no Service is sticky and no entry is left", async () => {
    const { watch, cache, sync, lists } = watching();
    for (const name of SERVICES) cache.deleteService(service({ name }).name);
    sync();
    await watch.poll();
    expect(lists()).toBe(1);
    await watch.poll();
    expect(lists()).toBe(1);
  });

  test("continues after a refusal by the kernel, and reserves the ids until it is done", async () => {
    const { watch, remember, idOf, map, cache, sync, state, faults } = watching();
    remember(idOf(0), 3);
    cache.deleteService(service({ name: "shop/attacked" }).name);
    sync();
    faults.push(() => new NftRefusedError({ nftables: [] }, "Error: Could not process rule: File exists"));
    await watch.poll();
    expect(watch.entries.ip).toBe(3);
    expect([watch.deleted.gone, map.size, state.families.ip?.ids.held.size]).toEqual([0, 3, 1]);
    await watch.poll();
    expect([watch.deleted.gone, map.size, state.families.ip?.ids.held.size]).toEqual([3, 0, 0]);
  });

  test("warns once of a map that cannot be listed, and keeps the last count", async () => {
    const { watch, remember, idOf, logger, cache, sync, faults } = watching();
    remember(idOf(0), 3);
    await watch.poll();
    cache.deleteService(service({ name: "shop/attacked" }).name);
    sync();
    faults.push(() => new Error("no memory"));
    await watch.poll();
    expect(logger.lines.at(-1)).toMatchObject({ level: "warn", fields: { error: "no memory" } });
    expect(watch.entries).toEqual({ ip: 3 });
  });
});

describe("excessEntries", () => {
  test.each<[string, Record<string, number>, Record<string, number>]>([
    ["of a map that is 90 % full are none", { a: 80, b: 10 }, {}],
    ["of a fuller one are those of the service port with the most", { a: 81, b: 10 }, { a: 11 }],
    [
      "are those of several that have as many as each other then",
      { a: 50, b: 40, c: 5, d: 1 },
      { a: 13, b: 3 },
    ],
    ["leave all as many where all have as many", { a: 50, b: 50 }, { a: 10, b: 10 }],
  ])("%s", (_, counts, excess) => {
    expect(Object.fromEntries(excessEntries(new Map(Object.entries(counts)), 100))).toEqual(excess);
  });

  test("make room, and none of them are of a service port with fewer than another one is left", () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 1, max: 1000 }), { maxLength: 30 }),
        fc.integer({ min: 1, max: 5000 }),
        (given, size) => {
          const counts = new Map(given.map((count, port) => [port, count]));
          const excess = excessEntries(counts, size);
          const left = given.map((count, port) => count - (excess.get(port) ?? 0));
          const total = left.reduce((sum, count) => sum + count, 0);
          if (excess.size === 0) expect(total).toBeLessThanOrEqual(0.9 * size);
          else expect(total).toBeLessThanOrEqual(0.8 * size);
          const least = Math.min(...[...excess.keys()].map((port) => left[port] ?? 0));
          for (const [port, count] of left.entries())
            if (!excess.has(port)) expect(count).toBeLessThanOrEqual(least + 1);
          for (const count of left) expect(count).toBeGreaterThanOrEqual(0);
        },
      ),
    );
  });
});
