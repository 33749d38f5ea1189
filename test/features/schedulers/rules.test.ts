import { describe, expect, test } from "vitest";
import { DRAWS } from "../../../src/features/schedulers/rules.ts";
import type { Scheduler } from "../../../src/features/schedulers/scheduler.ts";
import { diffRuleset } from "../../../src/nft/delta.ts";
import { splitParts } from "../../../src/nft/elements.ts";
import type { DrawMethod } from "../../../src/ruleset/draws.ts";
import { Renderer } from "../../../src/ruleset/renderer.ts";
import {
  cacheOf,
  chainNames,
  elementsOf,
  type Objects,
  port,
  renderAll,
  service,
  slice,
  testNodeContext,
} from "../../support/build.ts";
import { objectWords } from "../../support/object-words.ts";

const addresses = (count: number) => Array.from({ length: count }, (_, i) => `10.244.2.${i + 1}`);

function objects(options: Parameters<typeof service>[0], endpoints: readonly string[], weight = 1): Objects {
  return { services: [service(options)], slices: [slice({ endpoints, weight })] };
}

/** The chains that draw endpoints. Besides that of the scheduler, all have the one for the first endpoint. */
const balancers = (given: Objects, scheduler: Scheduler = "random") =>
  chainNames(renderAll(given, testNodeContext({ settings: { scheduler } }))).filter((name) =>
    /\d$/.test(name),
  );

describe("the chains of schedulers", () => {
  test.each<[string, Scheduler | undefined, number, string]>([
    ["none is named", undefined, 3, "balance-3"],
    ["there is a single endpoint", "source-hash", 1, "balance-1"],
    ["there are 64 endpoints", "random", 64, "balance-64"],
    ["65 endpoints have the chain of the next number of the grid", "random", 65, "balance-72"],
    ["72 endpoints are exactly a number of the grid", "round-robin", 72, "round-robin-72"],
    ["73 endpoints have the chain of the next number of the grid", "round-robin", 73, "round-robin-81"],
    ["round-robin is named", "round-robin", 3, "round-robin-3"],
    ["source-hash is named", "source-hash", 3, "source-hash-251"],
    ["flow-hash is named for 26 endpoints", "flow-hash", 26, "flow-hash-1021"],
  ])("are one, with the shared one for the first endpoint, where %s", (_, scheduler, count, name) => {
    const given = objects(scheduler === undefined ? {} : { scheduler }, addresses(count));
    expect(new Set(balancers(given))).toEqual(new Set(["balance-1", name]));
    const verdicts = elementsOf(renderAll(given), "balancers").map((text) => text.split(": ")[1]);
    expect(verdicts).toEqual([`goto ${name}`]);
  });

  test.each<[Scheduler, number, string]>([
    ["random", 1, "choose-balance-1"],
    ["random", 73, "choose-balance-81"],
    ["round-robin", 3, "choose-round-robin-3"],
    ["source-hash", 3, "choose-source-hash-251"],
    ["flow-hash", 26, "choose-flow-hash-1021"],
  ])(
    "with session affinity are those that choose by %s for %d endpoints, and remember for the rounded timeout",
    (scheduler, count, chooser) => {
      const given = objects({ scheduler, affinitySeconds: 62 }, addresses(count));
      expect(new Set(balancers(given))).toEqual(new Set(["choose-balance-1", chooser, "remember-65"]));
      const renderer = renderAll(given);
      const [balancer, chosen, remembered] = ["balancers", "affinity-choosers", "affinity-timeouts"].map(
        (map) => elementsOf(renderer, map).map((text) => text.split(": ")[1]),
      );
      expect([balancer, chosen, remembered]).toEqual([
        ["goto affinity"],
        [`jump ${chooser}`],
        ["jump remember-65"],
      ]);
    },
  );

  test("follow the default of all Services, unless one names its own", () => {
    expect(balancers(objects({}, addresses(3)), "round-robin")).toEqual(["balance-1", "round-robin-3"]);
    expect(balancers(objects({ scheduler: "random" }, addresses(3)), "round-robin")).toEqual([
      "balance-1",
      "balance-3",
    ]);
  });

  test("follow an option that enables the feature while the daemon runs, and one that disables it", () => {
    const cache = cacheOf(objects({}, addresses(3)));
    const renderer = new Renderer(cache, testNodeContext({ features: [] }));
    renderer.update(cache.takeDirty());
    const verdicts = () => elementsOf(renderer, "balancers").map((text) => text.split(": ")[1]);
    expect(verdicts()).toEqual(["goto balance-3"]);
    for (const _ of renderer.changingContext(testNodeContext({ settings: { scheduler: "source-hash" } })));
    expect(verdicts()).toEqual(["goto source-hash-251"]);
    expect(chainNames(renderer)).toContain("source-hash-251");
    expect(elementsOf(renderer, "endpoints")).toHaveLength(251);
    for (const _ of renderer.changingContext(testNodeContext({ features: [] })));
    expect(verdicts()).toEqual(["goto balance-3"]);
    expect(elementsOf(renderer, "endpoints")).toHaveLength(3);
  });

  test("have slots only where weights differ", () => {
    const [first = "", ...rest] = addresses(3);
    const weighted = (weight: number): Objects => ({
      services: [service({})],
      slices: [
        slice({ name: "a", endpoints: [first], weight }),
        slice({ name: "b", endpoints: rest, weight: 2 }),
      ],
    });
    expect(balancers(weighted(2))).toEqual(["balance-1", "balance-3"]);
    expect(balancers(weighted(1))).toEqual(["balance-1", "slots-251"]);
    expect(balancers(weighted(1), "round-robin")).toEqual(["balance-1", "round-robin-slots-251"]);
    expect(balancers(weighted(0))).toEqual(["balance-1", "balance-2"]);
  });

  test("stay in the table when no list needs them any longer", () => {
    const cache = cacheOf(objects({ scheduler: "round-robin" }, addresses(3)));
    const renderer = new Renderer(cache, testNodeContext());
    renderer.update(cache.takeDirty());
    const before = chainNames(renderer);
    expect(before).toContain("round-robin-3");
    renderer.state.markCommitted();
    cache.deleteService(service({}).name);
    renderer.update(cache.takeDirty());
    expect(chainNames(renderer)).toEqual(before);
    expect(elementsOf(renderer, "balancers")).toEqual([]);
    expect(objectWords(renderer.state.pending())).toEqual([]);
  });
});

describe("the rules of schedulers", () => {
  const jhash = (expr: object) => ({ jhash: { mod: 251, seed: 0x6e667470, offset: 0, expr } });
  const numgen = (mode: string, mod: number) => ({ numgen: { mode, mod, offset: 0 } });
  const { random, "round-robin": turns, "source-hash": sourceHash, "flow-hash": flowHash } = DRAWS;
  const payload = (fields: object) => jhash({ payload: fields });

  test.each<[string, DrawMethod | undefined, number, object]>([
    ["takes numbers in turn for round-robin", turns.endpoints, 3, numgen("inc", 3)],
    ["takes slots in turn for round-robin with weights", turns.slots, 251, numgen("inc", 251)],
    ["draws a slot at random for weights", random.slots, 251, numgen("random", 251)],
    [
      "hashes the client's address for source-hash",
      sourceHash.slots,
      251,
      payload({ protocol: "ip", field: "saddr" }),
    ],
    [
      "hashes addresses and ports, as bits of the packet, for flow-hash",
      flowHash.slots,
      251,
      payload({ base: "nh", offset: 96, len: 96 }),
    ],
  ])("%s", (_, method, count, number) => {
    expect(method?.numbers("ip", count)).toEqual([number]);
  });

  test("hash longer addresses for flow-hash in IPv6", () => {
    expect(flowHash.slots.numbers("ip6", 251)).toEqual([payload({ base: "nh", offset: 64, len: 288 })]);
  });

  test("take numbers in turn among more than 64 as they are drawn at random", () => {
    expect(turns.endpoints?.numbers("ip", 81)).toEqual([81, 81, 72].map((count) => numgen("inc", count)));
  });
});

describe("the elements of a slot table", () => {
  const hashed = (endpoints: readonly string[], affinitySeconds = 0) =>
    renderAll(objects({ scheduler: "source-hash", affinitySeconds }, endpoints));

  test("are as many as slots, numbered without gaps, and lead to all endpoints", () => {
    const elements = elementsOf(hashed(addresses(4)), "endpoints").map((text) => text.split(": "));
    expect(elements).toHaveLength(251);
    expect(new Set(elements.map(([, target]) => target)).size).toBe(4);
    const numbers = elements.map(([key = ""]) => Number(splitParts(key).at(-1)));
    expect(numbers.sort((a, b) => a - b)).toEqual(Array.from({ length: 251 }, (_, i) => i));
  });

  test("are keyed by list and slot with session affinity, and lead to endpoint ids", () => {
    const renderer = hashed(addresses(4), 600);
    expect(elementsOf(renderer, "endpoints")).toHaveLength(4);
    const elements = elementsOf(renderer, "affinity-ids").map((text) => text.split(": "));
    const [list = ""] = elementsOf(renderer, "lists").map((text) => text.split(": ")[1]);
    const keys = elements.map(([key = ""]) => key);
    expect(new Set(keys)).toEqual(new Set(Array.from({ length: 251 }, (_, slot) => `${list} . ${slot}`)));
    const ids = elements.map(([, id]) => id);
    const known = elementsOf(renderer, "endpoints").map((text) => splitParts(text)[0]);
    expect(new Set(ids)).toEqual(new Set(known));
  });

  test("change little when an endpoint goes", () => {
    const [before, after] = [hashed(addresses(10)), hashed(addresses(9))];
    const [delta] = diffRuleset(before.state.ruleset, after.state.ruleset);
    const changed = delta?.elements.find(({ spec }) => spec.name === "endpoints")?.added.length ?? 0;
    // A tenth of 251 slots are its own.
    expect(changed).toBeGreaterThanOrEqual(20);
    expect(changed).toBeLessThan(40);
  });

  test("are there once for all frontends of a Service", () => {
    const options = {
      scheduler: "flow-hash",
      ports: [port(80, { nodePort: 30080 })],
      externalIPs: ["203.0.113.1"],
    } as const;
    const renderer = renderAll(objects(options, addresses(3)));
    expect(elementsOf(renderer, "lists")).toHaveLength(3);
    expect(elementsOf(renderer, "endpoints")).toHaveLength(251);
  });
});
