import { describe, expect, test } from "vitest";
import type { Service } from "../../../src/model/service.ts";
import { RANDOM } from "../../../src/ruleset/draws.ts";
import { PORTS_ALONE } from "../../../src/ruleset/frontend-kinds.ts";
import { programmedFrontend } from "../../../src/ruleset/programmed-frontend.ts";
import { Renderer } from "../../../src/ruleset/renderer.ts";
import {
  cacheOf,
  chainNames,
  elementsOf,
  named,
  port,
  renderAll,
  type ServiceOptions,
  service,
  slice,
  testNodeContext,
} from "../../support/build.ts";

const CONTESTED = "203.0.113.1";

function candidate(name: string, createdAt: number, options: ServiceOptions = {}): Service {
  return service({
    name,
    createdAt,
    clusterIPs: [`10.96.1.${createdAt}`],
    externalIPs: [CONTESTED],
    ...options,
  });
}

/**
 * One endpoint for the first, two for the second, and so on: the number of endpoints shows who has a
 * frontend.
 */
function slicesOf(...names: string[]) {
  return names.map((name, index) =>
    slice({
      service: name,
      endpoints: Array.from({ length: index + 1 }, (_, i) => `10.244.2.${10 * (index + 1) + i}`),
    }),
  );
}

/** The frontends at an address, each with the number of endpoints to which it leads. */
function frontendsAt(renderer: Renderer, address: string): string[] {
  const table = renderer.state.families.ip?.table;
  if (table === undefined) throw new Error("no table");
  const keys = elementsOf(renderer, "lists").map((text) => text.slice(0, text.indexOf(":")));
  return keys
    .filter((key) => key.startsWith(`${address} `))
    .map(
      (key) =>
        `${key}: ${programmedFrontend(table, key, PORTS_ALONE, [RANDOM])?.lists.cluster?.targets.size}`,
    );
}

const external = (renderer: Renderer) => frontendsAt(renderer, CONTESTED);

test("source ranges have one number for all who have the same, and sets and chains as long as one does", () => {
  const cache = cacheOf({ slices: slicesOf("web") });
  const renderer = new Renderer(cache, testNodeContext());
  const guarded = (name: string, addresses: readonly string[], sourceRanges = ["198.51.100.0/24"]) => {
    cache.putService(
      service({ name, clusterIPs: [`10.96.0.${name.length}`], loadBalancerIPs: addresses, sourceRanges }),
    );
    renderer.update(cache.takeDirty());
    const { chains, sets } = renderer.state.families.ip?.table ?? {};
    const parts = [...(chains?.keys() ?? []), ...(sets?.keys() ?? [])];
    const numbers = new Set(sets?.get("source-range-lists")?.elements.values());
    return [parts.filter((part) => part.startsWith("source-range")).length, numbers.size];
  };
  expect(guarded("web", ["203.0.113.1", "203.0.113.2"])).toEqual([4, 1]);
  expect(guarded("other", ["203.0.113.3"])).toEqual([4, 1]);
  expect(guarded("others", ["203.0.113.4"], ["192.168.0.0/16"])).toEqual([4, 2]);
  expect(guarded("web", [])).toEqual([4, 2]);
  expect(guarded("others", [])).toEqual([4, 1]);
  guarded("other", ["203.0.113.3"], []);
  // Their elements are deleted first.
  expect(guarded("other", ["203.0.113.3"], [])).toEqual([0, 0]);
});

test("a Service with source ranges gets a frontend that an older one without them gave up", () => {
  const one = (name: string, createdAt: number, sourceRanges: readonly string[]) =>
    service({
      name,
      createdAt,
      clusterIPs: [`10.96.0.${createdAt}`],
      loadBalancerIPs: ["203.0.113.1"],
      sourceRanges,
    });
  const [older, newer] = [one("old", 1, []), one("new", 2, ["10.0.0.0/8"])];
  const cache = cacheOf({ services: [older, newer], slices: slicesOf("old", "new") });
  const renderer = new Renderer(cache, testNodeContext());
  renderer.update(cache.takeDirty());
  expect(elementsOf(renderer, "source-range-lists")).toEqual([]);
  cache.deleteService(older.name);
  renderer.update(cache.takeDirty());
  expect(elementsOf(renderer, "source-ranges")).toEqual(["10.0.0.0 . 2164260866 . 8"]);
  expect(elementsOf(renderer, "source-range-lists")).toEqual(["203.0.113.1 . tcp . 80: 2164260866"]);
});

test("source ranges that go and others that come before a commit leave nothing of the earlier ones", () => {
  const one = (name: string, address: string, range: string) =>
    service({
      name,
      clusterIPs: [`10.96.0.${name.length}`],
      loadBalancerIPs: [address],
      sourceRanges: [range],
    });
  const before = one("old", "203.0.113.1", "10.0.0.0/8");
  const cache = cacheOf({ services: [before], slices: slicesOf("old", "newer") });
  const renderer = new Renderer(cache, testNodeContext());
  renderer.update(cache.takeDirty());
  renderer.state.markCommitted();
  cache.deleteService(before.name);
  renderer.update(cache.takeDirty());
  cache.putService(one("newer", "203.0.113.2", "172.16.0.0/16"));
  renderer.update(cache.takeDirty());
  const [ranges] = renderer.state
    .pending()
    .flatMap(({ elements }) => elements.filter(({ spec }) => spec.name === "source-ranges"));
  expect([ranges?.deleted, ranges?.added].map((changed) => changed?.map(({ key }) => key))).toEqual([
    ["10.0.0.0 . 2164260865 . 8"],
    ["172.16.0.0 . 2164260866 . 16"],
  ]);
});

describe("two Services that want one frontend", () => {
  const objects = { services: [candidate("old", 1), candidate("new", 2)], slices: slicesOf("old", "new") };

  test.each([
    ["the older first", objects],
    ["the newer first", { ...objects, services: objects.services.toReversed() }],
  ])("give it to the older one, and the newer one is reported (%s)", (_, given) => {
    const renderer = renderAll(given);
    expect(external(renderer)).toEqual(["203.0.113.1 . tcp . 80: 1"]);
    expect(
      renderer.state.conflicts().map(({ family, frontend, winner, losers }) => ({
        family,
        frontend,
        winner: winner.name,
        losers: losers.map(({ name }) => name),
      })),
    ).toEqual([
      {
        family: "ip",
        frontend: "203.0.113.1 . tcp . 80",
        winner: "default/old/tcp",
        losers: ["default/new/tcp"],
      },
    ]);
  });

  test.each([
    ["the older first", ["thief", "own"]],
    ["the newer first", ["own", "thief"]],
  ])(
    "give a cluster IP to its own Service, also when an older one names it as an external IP (%s)",
    (_, names) => {
      const cache = cacheOf({ slices: slicesOf("own", "thief") });
      const renderer = new Renderer(cache, testNodeContext());
      for (const name of names) {
        cache.putService(
          name === "own"
            ? service({ name, createdAt: 2, clusterIPs: ["10.96.1.9"] })
            : service({ name, createdAt: 1, clusterIPs: ["10.96.1.8"], externalIPs: ["10.96.1.9"] }),
        );
        renderer.update(cache.takeDirty());
      }
      expect(frontendsAt(renderer, "10.96.1.9")).toEqual(["10.96.1.9 . tcp . 80: 1"]);
      expect(renderer.state.conflicts()).toMatchObject([
        { winner: { name: "default/own/tcp" }, losers: [{ name: "default/thief/tcp" }] },
      ]);
    },
  );

  test("leave nothing of the loser, except for its own cluster IP", () => {
    const renderer = renderAll(objects);
    expect(frontendsAt(renderer, "10.96.1.2")).toEqual(["10.96.1.2 . tcp . 80: 2"]);
    expect(external(renderer)).toEqual(["203.0.113.1 . tcp . 80: 1"]);
    expect(elementsOf(renderer, "endpoints")).toHaveLength(3);
  });

  test("hand it to the loser when the winner goes, and back when it returns", () => {
    const cache = cacheOf(objects);
    const renderer = new Renderer(cache, testNodeContext());
    renderer.update(cache.takeDirty());
    cache.deleteService(named("old"));
    renderer.update(cache.takeDirty());
    expect(external(renderer)).toEqual(["203.0.113.1 . tcp . 80: 2"]);
    expect(renderer.state.conflicts()).toEqual([]);
    cache.putService(candidate("old", 1));
    renderer.update(cache.takeDirty());
    expect(external(renderer)).toEqual(["203.0.113.1 . tcp . 80: 1"]);
  });

  test("hand it to the loser when the winner no longer wants it", () => {
    const cache = cacheOf(objects);
    const renderer = new Renderer(cache, testNodeContext());
    renderer.update(cache.takeDirty());
    cache.putService(candidate("old", 1, { externalIPs: [] }));
    renderer.update(cache.takeDirty());
    expect(external(renderer)).toEqual(["203.0.113.1 . tcp . 80: 2"]);
  });

  test("are in no conflict over other ports and protocols of one address", () => {
    const services = [
      candidate("a", 1),
      candidate("b", 2, { ports: [port(81)] }),
      candidate("c", 3, { ports: [port(80, { protocol: "udp" })] }),
    ];
    expect(renderAll({ services }).state.conflicts()).toEqual([]);
  });

  test("can be in conflict over a NodePort like over an address", () => {
    const services = ["a", "b"].map((name, index) =>
      service({
        name,
        createdAt: index,
        clusterIPs: [`10.96.1.${index}`],
        ports: [port(80, { nodePort: 30080 })],
      }),
    );
    const renderer = renderAll({ services, slices: slicesOf("a", "b") });
    expect(frontendsAt(renderer, "0.0.0.0")).toEqual(["0.0.0.0 . tcp . 30080: 1"]);
    expect(renderer.state.conflicts().map(({ frontend }) => frontend)).toEqual(["0.0.0.0 . tcp . 30080"]);
  });
});

test("three Services that want one frontend are listed in the order in which they take over", () => {
  const cache = cacheOf({
    services: [candidate("c", 3), candidate("a", 1), candidate("b", 2)],
    slices: slicesOf("a", "b", "c"),
  });
  const renderer = new Renderer(cache, testNodeContext());
  renderer.update(cache.takeDirty());
  const [conflict] = renderer.state.conflicts();
  expect(conflict?.losers.map(({ name }) => name)).toEqual(["default/b/tcp", "default/c/tcp"]);
  cache.deleteService(named("b"));
  renderer.update(cache.takeDirty());
  expect(external(renderer)).toEqual(["203.0.113.1 . tcp . 80: 1"]);
  cache.deleteService(named("a"));
  renderer.update(cache.takeDirty());
  expect(external(renderer)).toEqual(["203.0.113.1 . tcp . 80: 3"]);
  cache.deleteService(named("c"));
  renderer.update(cache.takeDirty());
  expect(external(renderer)).toEqual([]);
});

test("the loser of a conflict has neither lists nor source ranges", () => {
  const guarded = candidate("new", 2, {
    clusterIPs: [CONTESTED],
    externalIPs: [],
    loadBalancerIPs: [CONTESTED],
    sourceRanges: ["198.51.100.0/24"],
    affinitySeconds: 600,
  });
  const slices = slicesOf("old", "new");
  const added = /^source-ranges-(?:check|allowed)$/;
  const free = { ...guarded, clusterIPs: { ip: "10.96.1.2", ip6: "" } };
  const alone = renderAll({ services: [free], slices });
  expect(chainNames(alone).filter((name) => added.test(name))).toHaveLength(2);
  expect(elementsOf(alone, "source-range-lists")).toHaveLength(1);
  const beside = renderAll({
    services: [candidate("old", 1, { clusterIPs: [CONTESTED], externalIPs: [] }), guarded],
    slices,
  });
  expect(chainNames(beside).filter((name) => added.test(name))).toEqual([]);
  expect(elementsOf(beside, "endpoints")).toHaveLength(1);
});

test("the loser of a conflict has its source ranges as soon as the winner goes", () => {
  const guarded = candidate("new", 2, {
    externalIPs: [],
    loadBalancerIPs: ["203.0.113.1"],
    sourceRanges: ["198.51.100.0/24"],
  });
  const cache = cacheOf({ services: [candidate("old", 1), guarded], slices: slicesOf("old", "new") });
  const renderer = new Renderer(cache, testNodeContext());
  renderer.update(cache.takeDirty());
  cache.deleteService(named("old"));
  renderer.update(cache.takeDirty());
  expect(elementsOf(renderer, "source-ranges")).toHaveLength(1);
  expect(elementsOf(renderer, "source-range-lists")).toHaveLength(1);
});

test("an excluded service port is no candidate for a frontend", () => {
  const objects = { services: [candidate("old", 1), candidate("new", 2)], slices: slicesOf("old", "new") };
  const all = renderAll(objects);
  const winner = all.state.conflicts()[0]?.winner.key;
  const renderer = renderAll(objects, testNodeContext(), new Set(winner === undefined ? [] : [winner]));
  expect(external(renderer)).toEqual(["203.0.113.1 . tcp . 80: 2"]);
});
