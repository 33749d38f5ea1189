import { describe, expect, test } from "vitest";
import type { Scheduler } from "../../../src/model/scheduler.ts";
import { diffRuleset } from "../../../src/nft/delta.ts";
import { splitParts } from "../../../src/nft/elements.ts";
import {
  chainNames,
  elementsOf,
  type Objects,
  port,
  renderAll,
  service,
  slice,
  testNodeContext,
} from "../../support/build.ts";

const addresses = (count: number) => Array.from({ length: count }, (_, i) => `10.244.2.${i + 1}`);

function objects(options: Parameters<typeof service>[0], endpoints: readonly string[], weight = 1): Objects {
  return { services: [service(options)], slices: [slice({ endpoints, weight })] };
}

const balancers = (given: Objects, scheduler: Scheduler = "random") =>
  chainNames(renderAll(given, testNodeContext({ scheduler }))).filter((name) => /\d$/.test(name));

describe("the chains of schedulers", () => {
  test.each<[string, Scheduler | undefined, number, string]>([
    ["none is named", undefined, 3, "balance-3"],
    ["there is a single endpoint", "source-hash", 1, "balance-1"],
    ["round-robin is named", "round-robin", 3, "round-robin-3"],
    ["source-hash is named", "source-hash", 3, "source-hash-251"],
    ["flow-hash is named for 26 endpoints", "flow-hash", 26, "flow-hash-1021"],
  ])("are a single one where %s", (_, scheduler, count, name) => {
    expect(balancers(objects(scheduler === undefined ? {} : { scheduler }, addresses(count)))).toEqual([
      name,
    ]);
  });

  test("follow the default of all Services, unless one names its own", () => {
    expect(balancers(objects({}, addresses(3)), "round-robin")).toEqual(["round-robin-3"]);
    expect(balancers(objects({ scheduler: "random" }, addresses(3)), "round-robin")).toEqual(["balance-3"]);
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
    expect(balancers(weighted(2))).toEqual(["balance-3"]);
    expect(balancers(weighted(1))).toEqual(["slots-251"]);
    expect(balancers(weighted(1), "round-robin")).toEqual(["round-robin-slots-251"]);
    expect(balancers(weighted(0))).toEqual(["balance-2"]);
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

  test("lead to endpoint ids with session affinity", () => {
    const renderer = hashed(addresses(4), 600);
    expect(elementsOf(renderer, "endpoints")).toHaveLength(4);
    const ids = elementsOf(renderer, "affinity-ids").map((text) => text.split(": ")[1]);
    expect(ids).toHaveLength(251);
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
