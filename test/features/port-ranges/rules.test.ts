import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { FRONTEND_KINDS } from "../../../src/features/frontends.ts";
import { RANGES } from "../../../src/features/port-ranges/rules.ts";
import { PORTS } from "../../../src/ruleset/frontend-kinds.ts";
import type { PortInterval } from "../../../src/ruleset/interval-frontends.ts";
import { refusalAt } from "../../../src/ruleset/programmed-frontend.ts";
import { Renderer } from "../../../src/ruleset/renderer.ts";
import { NO_ENDPOINTS } from "../../../src/ruleset/sets.ts";
import {
  cacheOf,
  elementsOf,
  localEndpoint,
  type Objects,
  port,
  renderAll,
  type ServiceOptions,
  service,
  slice,
  slicePort,
  testNodeContext,
} from "../../support/build.ts";

const range = (first: number, last: number): PortInterval => ({ first, last });
const ENDPOINTS = ["10.244.2.11", "10.244.2.12"];

const keysOf = (objects: Objects, set: string = RANGES.lists) =>
  [...(renderAll(objects).state.ruleset.ip?.sets.get(set)?.elements.keys() ?? [])].sort();

function ranged(name: string, number: number, ranges: readonly PortInterval[], options: ServiceOptions = {}) {
  return service({
    name,
    clusterIPs: [`10.96.1.${number}`],
    externalIPs: ["203.0.113.1"],
    createdAt: number,
    ports: [port(80, { ranges })],
    ...options,
  });
}

const slices = (...names: readonly string[]) =>
  names.map((name) => slice({ service: name, name, endpoints: ENDPOINTS }));

const own = (number: number, ports: string) => `10.96.1.${number} . tcp . ${ports}`;
const external = (ports: string) => `203.0.113.1 . tcp . ${ports}`;

describe("the pieces of port ranges", () => {
  test("are the range at each address of the Service, but for NodePorts", () => {
    const ports = [port(80, { nodePort: 30_080, ranges: [range(8000, 8099)] })];
    expect(keysOf({ services: [ranged("a", 1, [], { ports })], slices: slices("a") })).toEqual([
      own(1, "8000-8099"),
      external("8000-8099"),
    ]);
  });

  test("are whole around the explicit ports of every Service on the address, which packets find first", () => {
    const services = [
      ranged("a", 1, [range(8000, 8009)]),
      service({ name: "b", clusterIPs: ["10.96.1.2"], externalIPs: ["203.0.113.1"], ports: [port(8000)] }),
      service({ name: "c", clusterIPs: ["10.96.1.3"], externalIPs: ["203.0.113.1"], ports: [port(8005)] }),
    ];
    const objects = { services, slices: slices("a", "b") };
    expect(keysOf(objects)).toEqual([own(1, "8000-8009"), external("8000-8009")]);
    const explicit = [own(1, "80"), external("80"), external("8000"), external("8005")];
    expect(keysOf(objects, RANGES.explicitPorts)).toEqual(explicit);
    const withoutRange = [ranged("a", 1, []), ...services.slice(1)];
    expect(keysOf({ ...objects, services: withoutRange }, RANGES.explicitPorts)).toEqual([]);
  });

  test("have exactly the key of their own ports", () => {
    const { ip } = renderAll({ services: [ranged("a", 1, [range(8000, 8009)])], slices: slices("a") }).state
      .families;
    const owned = ["8000-8009", "8000-8004", "8005-8012", "7990-8012", "8005", "8010"].filter(
      (ports) => ip?.ownerOf(own(1, ports)) !== undefined,
    );
    expect(owned).toEqual(["8000-8009"]);
    const found = (ports: number) => ip?.frontendAt("10.96.1.1", "tcp", ports, false)?.key;
    expect([7999, 8000, 8009, 8010].map(found)).toEqual([
      undefined,
      own(1, "8000-8009"),
      own(1, "8000-8009"),
      undefined,
    ]);
  });

  test("leave out the API servers that the daemon connects to, also where these change or an explicit port comes and goes", () => {
    const apiServer = (number: number) => testNodeContext({ apiServers: [external(String(number))] });
    const cache = cacheOf({ services: [ranged("a", 1, [range(8000, 8009)])], slices: slices("a") });
    const renderer = new Renderer(cache, apiServer(8003));
    const explicit = () => {
      renderer.update(cache.takeDirty());
      return elementsOf(renderer, RANGES.explicitPorts)
        .flatMap((text) => /^203\.0\.113\.1 \. tcp \. (\d+)/.exec(text)?.[1] ?? [])
        .sort();
    };
    expect(explicit()).toEqual(["80", "8003"]);
    const other = service({
      name: "b",
      clusterIPs: ["10.96.1.2"],
      externalIPs: ["203.0.113.1"],
      ports: [port(8003)],
    });
    cache.putService(other);
    expect(explicit()).toEqual(["80", "8003"]);
    for (const _ of renderer.changingContext(apiServer(8005)));
    expect(explicit()).toEqual(["80", "8003", "8005"]);
    for (const _ of renderer.changingContext(apiServer(8003)));
    cache.deleteService(other.name);
    expect(explicit()).toEqual(["80", "8003"]);
    for (const _ of renderer.changingContext(testNodeContext()));
    expect(explicit()).toEqual(["80"]);
  });

  test("are those of the 2,000 oldest ranges at an address, whichever came first, and others are told", () => {
    const services = Array.from({ length: 21 }, (_, i) =>
      ranged(
        `s${String(i).padStart(2, "0")}`,
        i + 1,
        Array.from({ length: 100 }, (_, n) => range(1000 + 500 * n + i, 1000 + 500 * n + i)),
      ),
    );
    const objects = {
      services: services.reverse(),
      slices: slices(...services.map(({ name }) => name.slice(8))),
    };
    const keys = keysOf(objects).filter((key) => key.startsWith("203.0.113.1"));
    expect(keys).toHaveLength(2000);
    expect(keys).not.toContain(external("1020-1020"));
    const conflicts = renderAll(objects).state.conflicts();
    const losers = conflicts.flatMap((one) => (one.frontend === external("80") ? [] : one.losers));
    expect(losers.map((one) => one.service.name)).toEqual(Array(100).fill("default/s20"));
    const younger = { ...objects, services: objects.services.slice(1) };
    expect(keysOf(younger)).not.toContain(external("1020-1020"));
    const older = { ...objects, services: objects.services.slice(0, -1) };
    expect(keysOf(older)).toContain(external("1020-1020"));
  });

  test("go to the older Service, and the conflict is told", () => {
    const objects = {
      services: [
        ranged("b", 2, [range(8005, 8020)]),
        ranged("a", 1, [range(8000, 8009), range(8012, 8012)], {
          ports: [port(81, { ranges: [range(8000, 8009), range(8012, 8012)] })],
        }),
      ],
      slices: slices("a", "b"),
    };
    expect(keysOf(objects)).toEqual([
      own(1, "8000-8009"),
      own(1, "8012-8012"),
      own(2, "8005-8020"),
      external("8000-8009"),
      external("8010-8011"),
      external("8012-8012"),
      external("8013-8020"),
    ]);
    const conflicts = renderAll(objects).state.conflicts();
    expect(
      conflicts.map(({ frontend, winner, losers }) => [
        frontend,
        winner.name,
        losers.map(({ name }) => name),
      ]),
    ).toEqual([
      [external("8005-8009"), "default/a/tcp", ["default/b/tcp"]],
      [external("8012-8012"), "default/a/tcp", ["default/b/tcp"]],
    ]);
  });

  test("of a cluster IP belong to its Service, also when an older one names it as an external IP", () => {
    const services = [
      ranged("thief", 1, [range(8000, 8009)], { externalIPs: ["10.96.1.2"] }),
      ranged("b", 2, [range(8005, 8020)]),
    ];
    expect(keysOf({ services, slices: slices("thief", "b") })).toEqual([
      own(1, "8000-8009"),
      own(2, "8000-8004"),
      own(2, "8005-8020"),
      external("8005-8020"),
    ]);
  });

  test("without endpoints are refused, and guarded ones checked, with the whole range alike", () => {
    const services = [
      ranged("a", 1, [range(8000, 8009)], {
        loadBalancerIPs: ["203.0.113.2"],
        sourceRanges: ["192.0.2.0/24"],
      }),
    ];
    const keys = keysOf({ services });
    expect(keys).toEqual([own(1, "8000-8009"), external("8000-8009"), "203.0.113.2 . tcp . 8000-8009"]);
    const { ip } = renderAll({ services }).state.ruleset;
    expect(keys.map((key) => ip && refusalAt(ip, key, FRONTEND_KINDS))).toEqual(
      Array(3).fill("no-endpoints"),
    );
    expect(keysOf({ services }, RANGES.refusals)).toHaveLength(2);
    expect(keysOf({ services }, RANGES.sourceRangeLists)).toEqual(["203.0.113.2 . tcp . 8000-8009"]);
  });
});

describe("the tables", () => {
  const plain = { services: [service({ name: "web" })], slices: slices("web") };
  const withRange = { services: [ranged("web", 1, [range(8000, 8009)])], slices: slices("web") };

  test("have the maps and chains of ranges only while a Service has ranges", () => {
    const cache = cacheOf(plain);
    const renderer = new Renderer(cache, testNodeContext());
    renderer.update(cache.takeDirty());
    renderer.state.markCommitted();
    const before = JSON.stringify(renderer.state.pending());
    const names = () =>
      [...(renderer.state.ruleset.ip?.sets.keys() ?? [])].filter((name) => name.startsWith("range-"));
    expect(names()).toEqual([]);
    cache.putService(withRange.services[0] as (typeof withRange.services)[0]);
    renderer.update(cache.takeDirty());
    expect(names()).toHaveLength(7);
    cache.putService(plain.services[0] as (typeof plain.services)[0]);
    renderer.update(cache.takeDirty());
    expect(names()).toEqual([]);
    expect(JSON.stringify(renderer.state.pending())).toBe(before);
  });

  test("change one element more for an endpoint, and no range", () => {
    const cache = cacheOf(withRange);
    const renderer = new Renderer(cache, testNodeContext());
    renderer.update(cache.takeDirty());
    renderer.state.markCommitted();
    cache.putSlice(slice({ service: "web", name: "web", endpoints: ["10.244.2.11", "10.244.2.13"] }));
    renderer.update(cache.takeDirty());
    const sets = renderer.state.pending().flatMap(({ elements }) => elements.map(({ spec }) => spec.name));
    expect(sets).toEqual(["endpoints", RANGES.endpoints]);
  });

  test("keep every range when the last endpoint goes and the first one comes", () => {
    const externalIPs = Array.from({ length: 20 }, (_, i) => `203.0.113.${i + 1}`);
    const cache = cacheOf({
      ...withRange,
      services: [ranged("web", 1, [range(8000, 8009)], { externalIPs })],
    });
    const renderer = new Renderer(cache, testNodeContext());
    const changed = () => {
      renderer.update(cache.takeDirty());
      const elements = renderer.state.pending().flatMap((delta) => delta.elements);
      renderer.state.markCommitted();
      return elements
        .filter(({ spec }) => spec.name.startsWith("range-"))
        .map(({ spec, deleted, added }) => {
          return [spec.name, deleted.length, added.length];
        });
    };
    changed();
    cache.putSlice(slice({ service: "web", name: "web", endpoints: [] }));
    expect(changed().sort()).toEqual([
      [RANGES.balancers, 1, 0],
      [RANGES.refusals, 0, 2],
      [RANGES.endpoints, 2, 0],
    ]);
    cache.putSlice(slice({ service: "web", name: "web", endpoints: ENDPOINTS }));
    expect(changed().sort()).toEqual([
      [RANGES.balancers, 0, 1],
      [RANGES.refusals, 2, 0],
      [RANGES.endpoints, 0, 2],
    ]);
  });

  test.each([0, 600])(
    "give ranges the ids of their Service port when its affinity becomes %d s",
    (affinitySeconds) => {
      const options = (seconds: number) => ({ affinitySeconds: seconds, externalIPs: [] });
      const cache = cacheOf({
        services: [ranged("web", 1, [range(8000, 8009)], options(600 - affinitySeconds))],
        slices: slices("web"),
      });
      const renderer = new Renderer(cache, testNodeContext());
      renderer.update(cache.takeDirty());
      cache.putService(ranged("web", 1, [range(8000, 8009)], options(affinitySeconds)));
      renderer.update(cache.takeDirty());
      const values = (set: string) => [
        ...(renderer.state.ruleset.ip?.sets.get(set)?.elements.values() ?? []),
      ];
      expect(values(RANGES.lists)).toEqual(values("lists"));
    },
  );
});

test("a range of one port leads where the port leads, to endpoints without ports", () => {
  const seconds = fc.constantFrom(0, 600);
  const policy = fc.constantFrom("Cluster" as const, "Local" as const);
  const scheduler = fc.constantFrom("random" as const, "source-hash" as const);
  const options = fc.record({ affinitySeconds: seconds, internal: policy, external: policy, scheduler });
  const endpoints = fc.subarray(["10.244.2.11", "10.244.2.12", localEndpoint("10.244.1.11")]);
  fc.assert(
    fc.property(options, endpoints, (given, targets) => {
      const objects = {
        services: [
          ranged("web", 1, [range(8080, 8080)], {
            ...given,
            loadBalancerIPs: ["203.0.113.2"],
            sourceRanges: ["192.0.2.0/24"],
          }),
        ],
        slices: [slice({ service: "web", endpoints: targets, ports: [slicePort(8080)] })],
      };
      const sets = renderAll(objects).state.ruleset.ip?.sets;
      const elements = (set: string) => [...(sets?.get(set)?.elements ?? [])];
      const atRange = (key: string) => key.replace(/ tcp \. 80$/, " tcp . 8080-8080");
      const served = elements(PORTS.lists).filter(([key]) => !sets?.get(NO_ENDPOINTS)?.elements.has(key));
      expect(elements(RANGES.lists)).toEqual(
        expect.arrayContaining(served.map(([key, id]) => [atRange(key), id])),
      );
      for (const key of elements(RANGES.lists).map(([range]) => range)) {
        const [ofRange, ofPort] = [key, key.replace(" 8080-8080", " 80")].map((one) =>
          refusalAt({ sets: sets ?? new Map() }, one, FRONTEND_KINDS),
        );
        expect(ofRange).toBe(ofPort);
      }
      for (const map of ["sourceRangeLists", "balancers", "endpoints"] as const) {
        const ofPort = elements(PORTS[map]).map(([key, value]) => [
          atRange(key),
          value.replace(/ \. 8080$/, "").replace("goto balance", "goto range-balance"),
        ]);
        const expected = ofPort.map(([key, value]) => [
          key,
          value?.replace(/^goto (affinity|source-hash|slots)/, "goto range-$1"),
        ]);
        expect(elements(RANGES[map]).sort()).toEqual(expected.sort());
      }
    }),
    { numRuns: 50 },
  );
});
