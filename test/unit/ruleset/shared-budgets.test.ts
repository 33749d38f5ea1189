import { describe, expect, test } from "vitest";
import { DEFAULT_PASSIVE_HEALTH_CHECK } from "../../../src/features/passive-health-checks/check.ts";
import { rules } from "../../../src/features/passive-health-checks/rules.ts";
import { RANGES } from "../../../src/features/port-ranges/rules.ts";
import type { Service } from "../../../src/model/service.ts";
import { servicePortsOf } from "../../../src/model/service-port.ts";
import { adoptNumbers } from "../../../src/ruleset/adopt-numbers.ts";
import { parseId } from "../../../src/ruleset/list-ids.ts";
import type { OwnBudget } from "../../../src/ruleset/node-context.ts";
import { Renderer } from "../../../src/ruleset/renderer.ts";
import { LISTS } from "../../../src/ruleset/sets.ts";
import {
  type ContextOptions,
  cacheOf,
  elementsOf,
  named,
  port,
  renderAll,
  service,
  slice,
  slicePort,
  testNodeContext,
} from "../../support/build.ts";
import { countOperations } from "../../support/operations.ts";

/** A Service of one port and one endpoint has four elements: cluster IP, frontend, balancer, endpoint. */
const SMALL = 4;

const one = (name: string, number: number, more: Parameters<typeof service>[0] = {}) =>
  service({ name, createdAt: number, clusterIPs: [`10.96.0.${number}`], ...more });
const sliceOf = (name: string, number: number) => slice({ service: name, endpoints: [`10.244.0.${number}`] });

/** A renderer of Services of these names, the oldest first. */
function rendered(
  names: readonly string[],
  options: ContextOptions,
  more: Parameters<typeof service>[0] = {},
) {
  const cache = cacheOf({
    services: names.map((name, i) => one(name, i + 1, more)),
    slices: names.map((name, i) => sliceOf(name, i + 1)),
  });
  const renderer = new Renderer(cache, testNodeContext(options));
  const update = () => {
    renderer.update(cache.takeDirty());
    return served(renderer);
  };
  return { cache, renderer, update };
}

const served = ({ state }: Renderer) =>
  Array.from(state.families.ip?.allServicePortRules() ?? [], ({ port: { service: of } }) => of.name).sort();

/** Whose frontends lead to lists with session affinity. */
const sticky = ({ state }: Renderer) => {
  const lists = state.families.ip?.table.sets.get(LISTS)?.elements ?? new Map<string, string>();
  return [...lists].flatMap(([key, id]) =>
    parseId(Number(id))?.isSticky ? [state.families.ip?.ownerOf(key)?.service.name] : [],
  );
};

describe("more elements than all Services may have", () => {
  const budget = { maxElements: 2 * SMALL };

  test("leave the newest without rules, with the budget and the difference as the reason", () => {
    const { renderer, update } = rendered(["b/old", "a/older", "c/new"], budget);
    expect(update()).toEqual(["a/older", "b/old"]);
    expect([...renderer.excess]).toEqual([
      [
        "ip c/new/tcp",
        "all Services together can have 8 elements in the kernel (--max-elements), and this one has 4, 4 more than older ones leave",
      ],
    ]);
  });

  test("are none any more in the sync in which an older one goes, and again when one comes", () => {
    const { cache, renderer, update } = rendered(["b/old", "a/older", "c/new"], budget);
    update();
    cache.deleteService(named("b/old"));
    expect(update()).toEqual(["a/older", "c/new"]);
    expect(renderer.excess.size).toBe(0);
    expect([...renderer.rendered]).toContain("c/new");
    cache.putService(one("b/old", 1));
    expect(update()).toEqual(["a/older", "b/old"]);
  });

  test("are not those of a Service beyond its own budget", () => {
    const { cache, update } = rendered(["a/huge", "b/one", "c/two"], { ...budget, maxServiceElements: 10 });
    cache.putService(
      one("a/huge", 1, { externalIPs: Array.from({ length: 20 }, (_, i) => `203.0.113.${i}`) }),
    );
    expect(update()).toEqual(["b/one", "c/two"]);
  });
});

test("more elements than a namespace may have leave its newest Service without rules, and no other namespace's", () => {
  const { renderer, update } = rendered(["a/one", "a/two", "b/new"], { maxNamespaceElements: SMALL });
  expect(update()).toEqual(["a/one", "b/new"]);
  expect([...renderer.excess.values()]).toEqual([
    "the Services of a namespace can have 4 elements in the kernel (--max-namespace-elements), and this one has 4, 4 more than older ones leave",
  ]);
});

test("beside a Service without enough elements, another one's change costs no look at all others", () => {
  const names = Array.from({ length: 200 }, (_, i) => `ns${i}/a`);
  const { cache, update } = rendered(names, { maxElements: 1000 * SMALL });
  update();
  cache.putSlice(sliceOf("ns7/a", 99));
  expect(countOperations(update)).toBeLessThan(1500);
});

test("without room for all port ranges, the newest Services are served without theirs, with the reason", () => {
  const ranges = [1, 2].map((first) => ({ first: 1000 * first, last: 1000 * first + 9 }));
  const { renderer, update } = rendered(
    ["c/old", "b/mid", "a/new"],
    { settings: { maxPortRanges: 6 } },
    { ports: [port(80, { ranges })] },
  );
  update();
  expect(elementsOf(renderer, RANGES.lists)).toHaveLength(6);
  expect(renderer.excess.size).toBe(0);
  const reasons = () => [...renderer.state.budgets.without("port-ranges")];
  expect(reasons()).toEqual([]);
  for (const _ of renderer.changingContext(testNodeContext({ settings: { maxPortRanges: 4 } })));
  expect(elementsOf(renderer, RANGES.lists)).toHaveLength(4);
  expect(reasons()).toEqual([
    [
      "ip a/new/tcp",
      "all Services together can have 4 port ranges at addresses of a family (--max-port-ranges), and this one has 2, 2 more than older ones leave",
    ],
  ]);
});

test.each([
  ["session affinity", { maxStickyPorts: 1 }, { affinitySeconds: 60 }],
  [
    "passive health checks",
    { features: [{ ...rules, budget: { ...(rules.budget as OwnBudget), most: 1 } }] },
    { passiveHealthCheck: DEFAULT_PASSIVE_HEALTH_CHECK },
  ],
  [
    "port ranges",
    { settings: { maxPortRanges: 1 } },
    {
      ports: [80, 81].map((number) =>
        port(number, { name: `p${number}`, ranges: [{ first: 10 * number, last: 10 * number }] }),
      ),
    },
  ],
])("all ports of a Service served without its %s share one Service object", (_, options, more) => {
  const ports = [80, 81].map((number) => port(number, { name: `p${number}` }));
  const { cache, renderer, update } = rendered(["a/1"], options, { ports, ...more });
  const slicePorts = ports.map(({ name }) => slicePort(8080, { name }));
  cache.putSlice(slice({ service: "a/1", endpoints: ["10.244.0.1"], ports: slicePorts }));
  update();
  const served = renderer.state.budgets.asServed(cache.service(named("a/1")) as Service);
  expect(served).toHaveLength(2);
  expect(served).not.toEqual(servicePortsOf(cache.service(named("a/1")) as Service));
  expect(new Set(served.map((each) => each.service)).size).toBe(1);
});

describe("more service ports with session affinity than there are ids", () => {
  const affinity = { affinitySeconds: 60 };

  test("leave the newest Services served without it, with the reason", () => {
    const { renderer, update } = rendered(["c/old", "b/mid", "a/new"], { maxStickyPorts: 2 }, affinity);
    expect(update()).toEqual(["a/new", "b/mid", "c/old"]);
    expect(sticky(renderer).sort()).toEqual(["b/mid", "c/old"]);
    expect(renderer.excess.size).toBe(0);
    expect([...renderer.state.budgets.without("affinity")]).toEqual([
      [
        "ip a/new/tcp",
        "all Services together can have 2 ports with session affinity in a family, and this one has 1, 1 more than older ones leave",
      ],
    ]);
  });

  test("are no more than half of one namespace", () => {
    const { renderer, update } = rendered(["a/1", "a/2", "a/3", "b/4"], { maxStickyPorts: 4 }, affinity);
    update();
    expect(sticky(renderer).sort()).toEqual(["a/1", "a/2", "b/4"]);
    expect([...renderer.state.budgets.without("affinity").values()]).toEqual([
      "the Services of a namespace can have 2 ports with session affinity in a family, and this one has 1, 1 more than older ones leave",
    ]);
  });

  test("pass ids on in the sync in which an older one turns plain, has fewer ports or goes", () => {
    const names = ["z/old", "y/mid", "a/new"];
    const two = ["x", "y"].map((name, i) => port(80 + i, { name }));
    const old = (ports = two, more = affinity) => one("z/old", 1, { ...more, ports });
    const { cache, renderer, update } = rendered(names, { maxStickyPorts: 4 }, affinity);
    const step = () => {
      update();
      renderer.state.markCommitted();
      return sticky(renderer).toSorted();
    };
    cache.putSlice(
      slice({
        service: "z/old",
        ports: two.map(({ name }) => slicePort(8, { name })),
        endpoints: ["10.1.0.1"],
      }),
    );
    cache.putService(one("y/mid", 2, { ...affinity, ports: [port(80), port(81, { name: "more" })] }));
    cache.putService(old());
    expect(step()).toEqual(["y/mid", "z/old", "z/old"]);
    cache.putService(old(two, { affinitySeconds: 0 }));
    expect(step()).toEqual(["a/new", "y/mid"]);
    cache.putService(old());
    expect(step()).toEqual(["y/mid", "z/old", "z/old"]);
    cache.putService(old(two.slice(1)));
    expect(step()).toEqual(["a/new", "y/mid", "z/old"]);
    cache.putService(old());
    step();
    cache.deleteService(named("z/old"));
    expect(step()).toEqual(["a/new", "y/mid"]);
  });

  test("have the ids of the kernel after a restart, the same Services", () => {
    const objects = {
      services: ["c/old", "b/mid", "a/new"].map((name, i) => one(name, i + 1, affinity)),
      slices: ["c/old", "b/mid", "a/new"].map((name, i) => sliceOf(name, i + 1)),
    };
    const context = testNodeContext({ maxStickyPorts: 2 });
    const { cache, renderer, update } = rendered(["c/old", "b/mid"], { maxStickyPorts: 2 }, affinity);
    update();
    for (const each of objects.services) cache.putService(each);
    for (const each of objects.slices) cache.putSlice(each);
    update();
    expect(adoptNumbers(renderAll(objects, context).state, renderer.state.ruleset)).toEqual([]);
  });
});
