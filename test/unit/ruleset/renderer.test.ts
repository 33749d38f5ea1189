import { describe, expect, test, vi } from "vitest";
import { DEFAULT_PASSIVE_HEALTH_CHECK } from "../../../src/features/passive-health-checks/check.ts";
import { SlicesByPort } from "../../../src/model/endpoint.ts";
import type { EndpointSlice } from "../../../src/model/endpoint-slice.ts";
import { parseId } from "../../../src/ruleset/list-ids.ts";
import { Renderer } from "../../../src/ruleset/renderer.ts";
import {
  ENDPOINTS,
  HAIRPIN_CONNECTIONS,
  LISTS,
  NO_ENDPOINTS,
  SOURCE_RANGES,
} from "../../../src/ruleset/sets.ts";
import {
  cacheOf,
  elementCount,
  localEndpoint,
  named,
  port,
  service,
  slice,
  slicePort,
  testNodeContext,
} from "../../support/build.ts";
import { countOperations } from "../../support/operations.ts";
import { rulesetText } from "../../support/ruleset-text.ts";

const PORTS = Array.from({ length: 100 }, (_, i) => port(i + 1, { name: `p${i}` }));
const ADDRESSES = Array.from({ length: 500 }, (_, i) => `203.0.${113 + (i >> 8)}.${i & 255}`);
const HUGE = service({ name: "huge", ports: PORTS, externalIPs: ADDRESSES, scheduler: "source-hash" });
const HUGE_SLICE = slice({
  service: "huge",
  ports: PORTS.map(({ name, port: number }) => slicePort(number, { name })),
  endpoints: Array.from({ length: 1000 }, (_, i) => `10.1.${i >> 8}.${i & 255}`),
});
const NEIGHBOUR = service({ name: "neighbour", clusterIPs: ["10.96.0.11"] });
const OBJECTS = {
  services: [HUGE, NEIGHBOUR],
  slices: [HUGE_SLICE, slice({ service: "neighbour", endpoints: ["10.244.2.1"] })],
};
/** 100 ports, each with 501 frontends, 16,381 slots and a balancer; and the cluster IP. */
const COUNT = 100 * (501 + 16_381 + 1) + 1;

function rendered(maxServiceElements?: number) {
  const cache = cacheOf(OBJECTS);
  const renderer = new Renderer(
    cache,
    testNodeContext(maxServiceElements === undefined ? {} : { maxServiceElements }),
  );
  return { cache, renderer };
}

const served = ({ state }: Renderer) =>
  new Set(Array.from(state.families.ip?.allServicePortRules() ?? [], ({ port: { service: of } }) => of.name));

describe("a Service of more elements than its budget", () => {
  test("gets no rules, and its neighbour has its own", () => {
    const { cache, renderer } = rendered();
    expect(elementCount(HUGE, [HUGE_SLICE], testNodeContext())).toBe(COUNT);
    renderer.update(cache.takeDirty());
    expect(served(renderer)).toEqual(new Set(["default/neighbour"]));
    expect(new Set(renderer.excess.values())).toEqual(
      new Set([
        `a Service can have 150000 elements in the kernel (--max-service-elements), and this one has ${COUNT}`,
      ]),
    );
    expect(renderer.excess.size).toBe(100);
  });

  test("costs no more than a count", () => {
    const { cache, renderer } = rendered();
    expect(countOperations(() => renderer.update(cache.takeDirty()))).toBeLessThan(10_000);
  });

  test("loses its rules when it grows, and has them again when it shrinks", () => {
    const { cache, renderer } = rendered();
    renderer.update(cache.takeDirty());
    cache.putService({ ...HUGE, ports: PORTS.slice(0, 5) });
    renderer.update(cache.takeDirty());
    expect(served(renderer)).toEqual(new Set(["default/neighbour", "default/huge"]));
    expect(renderer.excess.size).toBe(0);
    cache.putService(HUGE);
    renderer.update(cache.takeDirty());
    expect(served(renderer)).toEqual(new Set(["default/neighbour"]));
    cache.deleteService(named("huge"));
    renderer.update(cache.takeDirty());
    expect(renderer.excess.size).toBe(0);
  });

  test("has them under a larger budget", () => {
    const { cache, renderer } = rendered(10);
    renderer.update(cache.takeDirty());
    cache.putService({ ...HUGE, ports: PORTS.slice(0, 2) });
    renderer.update(cache.takeDirty());
    expect(renderer.excess.size).toBe(2);
    for (const _ of renderer.changingContext(testNodeContext()));
    expect(renderer.excess.size).toBe(0);
  });
});

test("a Service that was decoded beyond its budget gets no rules", () => {
  const excess = { of: "sourceRanges", count: 80_000, budget: 20_000 } as const;
  const cache = cacheOf({ ...OBJECTS, services: [{ ...service({ name: "wide" }), excess }, NEIGHBOUR] });
  const renderer = new Renderer(cache, testNodeContext());
  renderer.update(cache.takeDirty());
  expect(served(renderer)).toEqual(new Set(["default/neighbour"]));
  expect([...renderer.excess.values()]).toEqual([
    "a Service can have 20000 source ranges, and this one has 80000",
  ]);
});

test("a chain that thousands of frontends share is not compared for each of them", () => {
  const guarded = service({
    ports: PORTS.slice(0, 10),
    loadBalancerIPs: ADDRESSES.slice(0, 100),
    sourceRanges: ["198.51.100.0/24"],
  });
  const cache = cacheOf({ services: [guarded], slices: [slice({ endpoints: ["10.244.2.1"] })] });
  const renderer = new Renderer(cache, testNodeContext());
  const texts = vi.spyOn(JSON, "stringify");
  renderer.update(cache.takeDirty());
  expect(texts.mock.calls.length).toBeLessThan(100);
  texts.mockRestore();
});

test("a Service is counted and rendered in pieces of a port each, and taken away in as many", () => {
  const cache = cacheOf({ services: [service({ ports: PORTS.slice(0, 10) })] });
  const renderer = new Renderer(cache, testNodeContext());
  expect([...renderer.updating(cache.takeDirty())]).toHaveLength(1 + 10);
  const { name } = service();
  cache.deleteService(name);
  expect([...renderer.updating(cache.takeDirty())]).toHaveLength(1 + 10);
  expect(served(renderer)).toEqual(new Set());
});

test("a Service is rendered with work in line with its ports", () => {
  const work = (count: number) => {
    const ports = Array.from({ length: count }, (_, i) => port(i + 1, { name: `p${i}` }));
    const cache = cacheOf({ services: [service({ ports })] });
    const renderer = new Renderer(cache, testNodeContext());
    return countOperations(() => renderer.update(cache.takeDirty()));
  };
  work(10);
  expect(work(800)).toBeLessThan(5 * work(200));
});

describe("a Service of 100 ports, each in a slice of its own,", () => {
  const NAMES = PORTS.map(({ name }) => name);
  const sliceOf = (name: string, endpoint: string) =>
    slice({ service: "many", name: `many-${name}`, ports: [slicePort(80, { name })], endpoints: [endpoint] });
  const MANY = service({ name: "many", ports: PORTS });
  function setUp() {
    const slices = NAMES.map((name) => sliceOf(name, "10.1.0.1"));
    const cache = cacheOf({ services: [MANY, NEIGHBOUR], slices });
    const renderer = new Renderer(cache, testNodeContext());
    renderer.update(cache.takeDirty());
    renderer.state.markCommitted();
    const piecesOf = (most?: number) => [...renderer.updating(cache.takeDirty(), undefined, most)].length;
    return { cache, renderer, piecesOf };
  }
  const ready = ({ state }: Renderer) =>
    Array.from(state.families.ip?.allServicePortRules() ?? []).flatMap(({ lists }) => lists.cluster?.targets);

  test("is rendered at the ports of a changed slice alone", () => {
    const { cache, renderer, piecesOf } = setUp();
    cache.putSlice(sliceOf("p7", "10.1.0.2"));
    expect(piecesOf()).toBe(1 + 1);
    cache.putSlice({ ...sliceOf("p8", "10.1.0.2"), name: "many-p7" });
    cache.deleteSlice(sliceOf("p9", ""));
    expect(piecesOf()).toBe(1 + 3);
    expect(ready(renderer).filter((target) => target === "10.1.0.2 . 80")).toHaveLength(1);
    expect(renderer.state.work).toBeGreaterThan(0);
  });

  test("is not rendered for a slice that changes in nothing that rules depend on", () => {
    const { cache, renderer, piecesOf } = setUp();
    cache.putSlice({ ...sliceOf("p7", "10.1.0.1"), lastChangeTriggerTime: 1 });
    expect(piecesOf()).toBe(1);
    expect([...renderer.rendered]).toEqual([MANY.name]);
  });

  test("waits in portions for changes that alter no rule", () => {
    const { cache, renderer, piecesOf } = setUp();
    cache.putService({ ...MANY, deleting: true });
    cache.putService({ ...NEIGHBOUR, ports: [port(81)] });
    piecesOf(10);
    expect([...renderer.waiting]).toEqual([MANY.name]);
    expect([...renderer.rendered]).toEqual([NEIGHBOUR.name]);
  });

  test("is rendered at each port in turn while it changes faster than portions go", () => {
    const { cache, renderer, piecesOf } = setUp();
    for (let change = 0; change < 20; change++) {
      cache.putService({ ...MANY, deleting: change % 2 === 0, affinitySeconds: 60 });
      piecesOf(40);
      renderer.state.markCommitted();
    }
    const seconds = Array.from(renderer.state.families.ip?.allServicePortRules() ?? [], ({ port: of }) =>
      of.service.name === MANY.name ? of.service.affinitySeconds : 60,
    );
    expect(new Set(seconds)).toEqual(new Set([60]));
  });
});

describe("an update that may write so many elements", () => {
  const large = (endpoints: readonly string[]) =>
    slice({
      service: "large",
      name: "large-ip",
      ports: PORTS.map(({ name, port: number }) => slicePort(number, { name })),
      endpoints,
    });
  const LARGE = service({ name: "large", ports: PORTS });
  /**
   * A renderer whose rules the kernel has, of a Service of 100 ports beside one of one port; and the
   * endpoints of both.
   */
  function setUp() {
    const cache = cacheOf({
      services: [LARGE, NEIGHBOUR],
      slices: [large(["10.1.0.1"]), slice({ service: "neighbour", endpoints: ["10.244.2.1"] })],
    });
    const renderer = new Renderer(cache, testNodeContext());
    renderer.update(cache.takeDirty());
    renderer.state.markCommitted();
    const update = (most: number) => {
      for (const _ of renderer.updating(cache.takeDirty(), undefined, most));
      const written = renderer.state.work;
      renderer.state.markCommitted();
      return written;
    };
    const text = () => rulesetText(renderer.state.ruleset);
    return { cache, renderer, update, text };
  }

  test("begins with the smallest Service, and the next ones go on with the rest", () => {
    const { cache, renderer, update, text } = setUp();
    // Each of these elements belongs to a port with an endpoint: two looks, which count as a quarter.
    const update20 = () => update(25);
    cache.putSlice(large(["10.1.0.2"]));
    expect(update20()).toBe(20);
    expect([[...renderer.waiting], [...renderer.rendered]]).toEqual([["default/large"], []]);
    cache.putSlice(slice({ service: "neighbour", endpoints: ["10.244.2.2"] }));
    expect(update20()).toBe(20);
    expect([[...renderer.waiting], [...renderer.rendered]]).toEqual([
      ["default/large"],
      ["default/neighbour"],
    ]);
    expect(text()).toContain("10.244.2.2");
    for (let left = 61; left > 0; left -= 20) expect(update20()).toBe(Math.min(20, left));
    expect([[...renderer.waiting], [...renderer.rendered]]).toEqual([[], ["default/large"]]);
    expect(text()).not.toContain("10.1.0.1");
  });

  test("takes a deleted Service for as large as it was", () => {
    const { cache, renderer, update, text } = setUp();
    cache.deleteService(LARGE.name);
    cache.putSlice(slice({ service: "neighbour", endpoints: ["10.244.2.2"] }));
    update(20);
    expect([[...renderer.waiting], [...renderer.rendered]]).toEqual([
      ["default/large"],
      ["default/neighbour"],
    ]);
    expect(text()).toContain("10.244.2.2");
    for (let left = 1000; renderer.waiting.size > 0 && left > 0; left--) update(20);
    expect(served(renderer)).toEqual(new Set(["default/neighbour"]));
  });

  test("goes on with the Service that has waited for longest while small ones change all the time", () => {
    const { cache, renderer, update } = setUp();
    cache.putSlice(large(["10.1.0.2"]));
    let updates = 0;
    for (; updates < 100 && (updates === 0 || renderer.waiting.size > 0); updates++) {
      cache.putSlice(slice({ service: "neighbour", endpoints: [`10.244.2.${updates % 2}`] }));
      update(2);
    }
    expect(updates).toBe(100);
    expect(renderer.waiting.size).toBe(0);
  });

  test("changes no port ranges right after others, and neighbours meanwhile", () => {
    const { cache, renderer, update, text } = setUp();
    const ranged = (name: string, first: number, clusterIP: string) =>
      service({
        name,
        clusterIPs: [clusterIP],
        ports: [port(80, { ranges: [{ first, last: first + 9 }] })],
      });
    cache.putService(ranged("media", 1000, "10.96.0.21"));
    update(20);
    cache.putService(ranged("voice", 2000, "10.96.0.22"));
    cache.putSlice(slice({ service: "neighbour", endpoints: ["10.244.2.2"] }));
    update(20);
    expect([...renderer.waiting]).toEqual(["default/voice"]);
    expect(text()).toContain("10.244.2.2");
    expect(text()).not.toContain("2000-2009");
    update(20);
    expect([...renderer.waiting]).toEqual([]);
    expect(text()).toContain("2000-2009");
  });

  /** Services with port ranges, all at the same external address. */
  const rangedServices = (count: number, rangeCount: number) =>
    Array.from({ length: count }, (_, i) => {
      const ranges = Array.from({ length: rangeCount }, (_, n) => ({
        first: 1000 + 20 * n,
        last: 1009 + 20 * n,
      }));
      const ports = [port(80, { ranges })];
      return service({
        name: `ranged-${i}`,
        clusterIPs: [`10.96.1.${i}`],
        externalIPs: ["203.0.113.1"],
        ports,
      });
    });

  test("divides the ports of an address once for many Services", () => {
    const work = (count: number) => {
      const cache = cacheOf({ services: rangedServices(count, 20) });
      const renderer = new Renderer(cache, testNodeContext());
      return countOperations(() => {
        for (const _ of renderer.updating(cache.takeDirty(), undefined, 4000));
      });
    };
    work(10);
    expect(work(40)).toBeLessThan(6 * work(10));
  });

  test("counts ranges before they are divided, also those that others win", () => {
    const { cache, renderer, update } = setUp();
    for (const one of rangedServices(4, 10)) cache.putService(one);
    update(50);
    expect([...renderer.waiting]).toEqual(["default/ranged-3"]);
  });

  test("gives the list id of a deleted Service with port ranges to another one", () => {
    const ranged = (name: string, createdAt: number) =>
      service({
        name,
        createdAt,
        affinitySeconds: 60,
        clusterIPs: [`10.96.1.${9 - createdAt}`],
        ports: [port(80, { ranges: [{ first: 1000, last: 1009 }] })],
      });
    const cache = cacheOf({ services: [ranged("a/old", 1), ranged("b/mid", 2)] });
    const renderer = new Renderer(cache, testNodeContext({ maxStickyPorts: 2 }));
    renderer.update(cache.takeDirty());
    renderer.state.markCommitted();
    cache.deleteService(named("a/old"));
    cache.putService(ranged("c/new", 3));
    // The next update after a change of ranges has none.
    for (let left = 2; left > 0; left--)
      for (const _ of renderer.updating(cache.takeDirty(), undefined, 4000));
    expect(served(renderer)).toEqual(new Set(["b/mid", "c/new"]));
  });

  test("gives the list id of a Service that loses session affinity to an older one that gets it", () => {
    const one = (name: string, createdAt: number, affinitySeconds: number) =>
      service({ name, createdAt, affinitySeconds, clusterIPs: [`10.96.1.${createdAt}`] });
    const names = ["a/old", "b/mid", "c/new"];
    const cache = cacheOf({
      services: names.map((name, i) => one(name, i + 1, i === 0 ? 0 : 60)),
      slices: names.map((name) => slice({ service: name, endpoints: ["10.244.2.1"] })),
    });
    const renderer = new Renderer(cache, testNodeContext({ maxStickyPorts: 2 }));
    renderer.update(cache.takeDirty());
    renderer.state.markCommitted();
    cache.putService(one("a/old", 1, 60));
    for (const _ of renderer.updating(cache.takeDirty(), undefined, 4000));
    expect([...renderer.waiting]).toEqual([]);
    const ids = [...(renderer.state.ruleset.ip?.sets.get(LISTS)?.elements.values() ?? [])];
    expect(ids.map((id) => parseId(Number(id))?.isSticky)).toEqual([true, true, false]);
  });

  test("writes a long list of source ranges over several updates, and only then gives it to its Service", () => {
    const fenced = (name: string, n: number, version: number) =>
      service({
        ...{ name, clusterIPs: [`10.96.2.${n}`], loadBalancerIPs: [`203.0.113.${n}`] },
        sourceRanges: Array.from({ length: 5000 }, (_, k) => `${20 + version}.${k >> 8}.${k & 255}.0/30`),
      });
    const small = (version: number) => service({ name: "z", clusterIPs: [`10.96.3.${version}`] });
    const cache = cacheOf({ services: [fenced("a", 1, 0), fenced("b", 2, 0), small(1)] });
    const renderer = new Renderer(cache, testNodeContext());
    renderer.update(cache.takeDirty());
    renderer.state.markCommitted();
    cache.putService(fenced("a", 1, 1));
    cache.putService(fenced("b", 2, 2));
    const rendered: string[][] = [];
    const works: number[] = [];
    for (let version = 2; version < 10; version++) {
      cache.putService(small(version));
      for (const _ of renderer.updating(cache.takeDirty(), undefined, 4000));
      works.push(renderer.state.work);
      renderer.state.markCommitted();
      rendered.push([...renderer.rendered].map((name) => name.replace("default/", "")).sort());
    }
    expect(rendered).toEqual([["z"], ["z"], ["a", "z"], ["z"], ["z"], ["b", "z"], ["z"], ["z"]]);
    expect(Math.max(...works)).toBeLessThan(4010);
    expect(renderer.state.hasStale).toBe(false);
  });

  test("deletes the written part of a long list whose Service changes meanwhile", () => {
    const fenced = (version: number) =>
      service({
        ...{ name: "a", clusterIPs: ["10.96.2.1"], loadBalancerIPs: ["203.0.113.1"] },
        sourceRanges: Array.from({ length: 3000 }, (_, k) => `${20 + version}.${k >> 8}.${k & 255}.0/30`),
      });
    const cache = cacheOf({ services: [fenced(0)] });
    const renderer = new Renderer(cache, testNodeContext());
    renderer.update(cache.takeDirty());
    const sizes: (number | undefined)[] = [];
    for (let version = 1; version < 8; version++) {
      renderer.state.markCommitted();
      if (version < 4) cache.putService(fenced(version));
      for (const _ of renderer.updating(cache.takeDirty(), undefined, 4000));
      sizes.push(renderer.state.ruleset.ip?.sets.get(SOURCE_RANGES)?.elements.size);
    }
    // Two thousand of each are written. The third is completed, and then the first is deleted.
    expect(sizes).toEqual([5000, 7000, 7000, 6000, 3000, 3000, 3000]);
    expect(renderer.state.hasStale).toBe(false);
  });

  test("changes endpoints of a Service with port ranges right after other ranges", () => {
    const { cache, renderer, update } = setUp();
    const ranges = [{ first: 1000, last: 1009 }];
    const media = service({ name: "media", clusterIPs: ["10.96.0.21"], ports: [port(80, { ranges })] });
    cache.putService(media);
    update(20);
    cache.putSlice(slice({ service: "media", endpoints: ["10.244.2.3"] }));
    update(20);
    expect([...renderer.waiting]).toEqual([]);
  });

  test("leaves a Service waiting for the list id of a larger one that goes", () => {
    const sticky = (name: string, clusterIP: string) =>
      service({ name, clusterIPs: [clusterIP], affinitySeconds: 60, ports: [port(80)] });
    const endpoints = ["10.244.2.1", "10.244.2.2", "10.244.2.3"];
    const cache = cacheOf({
      services: [sticky("one/old", "10.96.0.21"), sticky("two/other", "10.96.0.22")],
      slices: [slice({ service: "one/old", endpoints }), slice({ service: "two/other", endpoints })],
    });
    const renderer = new Renderer(cache, testNodeContext({ maxStickyPorts: 2 }));
    renderer.update(cache.takeDirty());
    renderer.state.markCommitted();
    cache.deleteService(sticky("one/old", "10.96.0.21").name);
    cache.putService(sticky("three/new", "10.96.0.23"));
    cache.putSlice(slice({ service: "three/new", endpoints: ["10.244.2.4"] }));
    for (const _ of renderer.updating(cache.takeDirty(), undefined, 8));
    expect(renderer.waiting).toEqual(new Set(["three/new"]));
    renderer.state.markCommitted();
    for (const _ of renderer.updating(cache.takeDirty(), undefined, 8));
    expect(renderer.waiting).toEqual(new Set());
    expect(served(renderer)).toEqual(new Set(["two/other", "three/new"]));
  });

  test("completes a Service with passive health checks, whose service ports are due after any change", () => {
    const ports = [80, 443, 8080].map((number) => port(number, { name: `p${number}` }));
    const cache = cacheOf({});
    const renderer = new Renderer(cache, testNodeContext());
    renderer.update([]);
    renderer.state.markCommitted();
    cache.putService(service({ name: "web", ports, passiveHealthCheck: DEFAULT_PASSIVE_HEALTH_CHECK }));
    const endpoints = ["10.244.2.1", "10.244.2.2", "10.244.2.3"];
    cache.putSlice(
      slice({ service: "web", ports: ports.map(({ name, port: to }) => slicePort(to, { name })), endpoints }),
    );
    for (let left = ports.length; left > 0; left--) {
      for (const _ of renderer.updating(cache.takeDirty(), undefined, 3));
      renderer.state.markCommitted();
    }
    expect([...renderer.waiting]).toEqual([]);
  });

  test("renders a Service from the beginning that changes while it waits", () => {
    const { cache, renderer, update, text } = setUp();
    cache.putSlice(large(["10.1.0.2"]));
    update(20);
    cache.putSlice(large(["10.1.0.3"]));
    for (let left = 100; (left === 100 || renderer.waiting.size > 0) && left > 0; left--) update(20);
    expect(text()).not.toContain("10.1.0.2");
  });
});

describe("a list of more endpoints than an update may write", () => {
  const addresses = (count: number, first = 0) =>
    Array.from(
      { length: count },
      (_, i) => `10.${1 + ((first + i) >> 16)}.${((first + i) >> 8) & 255}.${(first + i) & 255}`,
    );

  /** A renderer whose rules the kernel has, of two small Services. */
  function setUp() {
    const cache = cacheOf({
      services: [service({ name: "long" }), NEIGHBOUR],
      slices: [OBJECTS.slices[1] as EndpointSlice],
    });
    const renderer = new Renderer(cache, testNodeContext());
    renderer.update(cache.takeDirty());
    renderer.state.markCommitted();
    const elements = (set: string) => renderer.state.ruleset.ip?.sets.get(set)?.elements ?? new Map();
    return {
      cache,
      renderer,
      elements,
      put: (endpoints: readonly string[]) => cache.putSlice(slice({ service: "long", endpoints })),
      /** @returns the elements that the update writes */
      update: () => {
        for (const _ of renderer.updating(cache.takeDirty(), undefined, 4000));
        const written = renderer.state.pending().flatMap(({ elements: all }) => all);
        renderer.state.markCommitted();
        return written.reduce((sum, { added, deleted }) => sum + added.length + deleted.length, 0);
      },
      targets: () => new Set(elements(ENDPOINTS).values()),
    };
  }

  test.each([0, 60])(
    "grows by some in each, and serves from the first (affinity: %s s)",
    (affinitySeconds) => {
      const { cache, renderer, put, update, elements, targets } = setUp();
      cache.putService(service({ name: "long", affinitySeconds }));
      put(addresses(12_000));
      const works = [update()];
      expect([...elements(LISTS).keys()]).toContain("10.96.0.10 . tcp . 80");
      while (renderer.waiting.size > 0) works.push(update());
      expect(works.length).toBeGreaterThan(3);
      expect(Math.max(...works)).toBeLessThan(4010);
      expect(targets()).toEqual(new Set([...addresses(12_000), "10.244.2.1"].map((one) => `${one} . 8080`)));
    },
  );

  test("is not rendered again for the next ones", () => {
    const { renderer, put, update } = setUp();
    put(addresses(12_000));
    const reading = vi.spyOn(SlicesByPort.prototype, "endpointsOf");
    do update();
    while (renderer.waiting.size > 0);
    expect(reading).toHaveBeenCalledOnce();
    reading.mockRestore();
  });

  test("loses the endpoints that go at once, also while it grows", () => {
    const { renderer, put, update, targets } = setUp();
    put(addresses(12_000));
    update();
    const first = targets();
    put(addresses(12_000, 3000));
    update();
    const gone = addresses(3000).map((address) => `${address} . 8080`);
    expect(gone.filter((target) => first.has(target)).length).toBeGreaterThan(1000);
    expect(gone.filter((target) => targets().has(target))).toEqual([]);
    while (renderer.waiting.size > 0) update();
    expect(targets().size).toBe(12_001);
  });

  test("leaves later, when nothing leads to it, and its id is not used before", () => {
    const { cache, renderer, put, update, elements } = setUp();
    put(addresses(12_000));
    renderer.update(cache.takeDirty());
    renderer.state.markCommitted();
    const id = elements(LISTS).get("10.96.0.10 . tcp . 80");
    put([]);
    expect(update()).toBeLessThan(10);
    expect(elements(NO_ENDPOINTS).get("10.96.0.10 . tcp . 80")).toBe("goto reject-chain");
    expect([elements(ENDPOINTS).size, renderer.state.hasStale]).toEqual([12_001, true]);
    put(addresses(3));
    const works: number[] = [];
    while (renderer.state.hasStale) {
      works.push(update());
      expect(elements(LISTS).get("10.96.0.10 . tcp . 80")).not.toBe(id);
    }
    expect(Math.max(...works)).toBeLessThan(4010);
    expect(elements(ENDPOINTS).size).toBe(4);
    cache.putService(service({ name: "third", clusterIPs: ["10.96.0.12"] }));
    cache.putSlice(slice({ service: "third", endpoints: ["10.244.2.3"] }));
    update();
    expect(elements(LISTS).get("10.96.0.12 . tcp . 80")).toBe(id);
  });

  test("adds and deletes what other sets have for its endpoints in portions, too", () => {
    const { cache, renderer, update, elements } = setUp();
    const endpoints = addresses(12_000).map((address) => localEndpoint(address));
    const local = slice({ service: "long", endpoints });
    cache.putSlice(local);
    const works: number[] = [];
    do works.push(update());
    while (renderer.waiting.size > 0);
    expect(elements(HAIRPIN_CONNECTIONS).size).toBe(12_000);
    cache.deleteSlice(local);
    do works.push(update());
    while (renderer.state.hasStale);
    expect(elements(HAIRPIN_CONNECTIONS).size).toBe(0);
    expect(Math.max(...works)).toBeLessThan(8010);
  });

  test("leaves no more behind than it had, however often it comes and goes", () => {
    const { cache, renderer, update } = setUp();
    const sizes: number[] = [];
    for (let round = 0; round < 12; round++) {
      cache.putService(
        service({
          name: "long",
          affinitySeconds: 60,
          internal: "Local",
          external: "Local",
          ports: [port(80, { nodePort: 30080 })],
        }),
      );
      const endpoints = addresses(12_000, 20_000 * round).map((address) => localEndpoint(address));
      cache.putSlice(slice({ service: "long", endpoints }));
      for (let left = 11; left > 0; left--) update();
      cache.deleteService(named("long"));
      update();
      const sets = renderer.state.ruleset.ip?.sets.values() ?? [];
      sizes.push([...sets].reduce((sum, { elements: { size } }) => sum + size, 0));
    }
    expect(Math.max(...sizes)).toBe(sizes[0]);
  });

  test("waits for source ranges no longer than for its own elements", () => {
    const { cache, renderer, put, update } = setUp();
    const guard = { loadBalancerIPs: ["203.0.113.1"], sourceRanges: ["198.51.100.0/24"] };
    cache.putService(service({ name: "long", ...guard }));
    put(addresses(40_000));
    for (let left = 12; left > 0; left--) update();
    expect([...renderer.waiting]).toEqual([]);
  });
});

test("a Service that is deleted while it waits gets no rules with another node context", () => {
  const services = ["a", "b"].map((name, n) => service({ name, clusterIPs: [`10.96.0.${n + 1}`] }));
  const slices = ["a", "b"].map((name) =>
    slice({ service: name, endpoints: ["10.244.1.1", "10.244.1.2", "10.244.1.3"] }),
  );
  const cache = cacheOf({});
  const renderer = new Renderer(cache, testNodeContext());
  renderer.update([]);
  renderer.state.markCommitted();
  for (const one of services) cache.putService(one);
  for (const one of slices) cache.putSlice(one);
  for (const _ of renderer.updating(cache.takeDirty(), undefined, 3));
  expect([...renderer.waiting]).toEqual(["default/b"]);
  renderer.state.markCommitted();
  cache.deleteService(named("b"));
  cache.takeDirty();
  for (const _ of renderer.changingContext(testNodeContext({ masqueradeAll: true })));
  expect([...(renderer.state.ruleset.ip?.sets.get("lists")?.elements.keys() ?? [])]).toEqual([
    "10.96.0.1 . tcp . 80",
  ]);
});

describe("a step of an update is short", () => {
  const names = Array.from({ length: 200 }, (_, index) => ({ name: `p${index}` }));
  const slicePorts = names.map((each) => slicePort(8080, each));
  const many = Array.from({ length: 200 }, (_, index) =>
    slice({ name: `web-${index}`, ports: slicePorts, endpoints: [`10.1.0.${index}`] }),
  );

  test.each<[string, number, Parameters<typeof testNodeContext>[0]]>([
    ["counts a Service of many ports in many slices", 200, { maxServiceElements: 1000 }],
    ["renders one port of many in many slices", 1, {}],
  ])("when it %s", (_, ports, options) => {
    const cache = cacheOf({
      services: [service({ ports: names.slice(0, ports).map((each, index) => port(index + 1, each)) })],
      slices: many,
    });
    const renderer = new Renderer(cache, testNodeContext(options));
    const update = () => {
      const pieces = renderer.updating(cache.takeDirty());
      const operations: number[] = [];
      for (let isDone = false; !isDone; )
        operations.push(
          countOperations(() => {
            isDone = pieces.next().done === true;
          }),
        );
      return Math.max(...operations);
    };
    expect(update()).toBeLessThan(30_000);
    renderer.state.markCommitted();
    cache.putSlice(slice({ name: "web-0", ports: slicePorts, endpoints: ["10.1.1.1"] }));
    expect(update()).toBeLessThan(30_000);
  });
});
