import { describe, expect, test } from "vitest";
import { FAMILIES } from "../../src/base/family.ts";
import type { ExplainInput, LiveRules } from "../../src/inspect/explain/explain-input.ts";
import { reportOf } from "../../src/inspect/explain/report.ts";
import type { Decoded } from "../../src/kube/decode/decode.ts";
import { decodeEndpointSlice } from "../../src/kube/decode/endpoint-slice.ts";
import { decodeService } from "../../src/kube/decode/service.ts";
import { ObjectCache } from "../../src/model/object-cache.ts";
import type { Ruleset } from "../../src/nft/ast/ruleset.ts";
import { toTransaction } from "../../src/nft/transaction.ts";
import { endpointIds } from "../../src/ruleset/endpoint-numbers.ts";
import { FIRST_ENDPOINT } from "../../src/ruleset/list-ids.ts";
import { Renderer } from "../../src/ruleset/renderer.ts";
import { viewService } from "../../src/ruleset/service-view.ts";
import { quarantineChanges } from "../../src/sync/quarantine-changes.ts";
import { apiService } from "../support/api-objects.ts";
import { cacheOf, port, service, slice, testNodeContext } from "../support/build.ts";
import { HOSTILE, HOSTILE_NAMES, type HostileObjects } from "../support/hostile-objects.ts";
import { countOperations } from "../support/operations.ts";

/** Four times as much of something may take a little more than four times the work: sorting takes n log n. */
const FOUR_TIMES = 4.6;
const SIZE = 250;

/** The steps from objects to a transaction, and what each of them costs. */
function operationsOf({ services, slices }: HostileObjects): Readonly<Record<string, number>> {
  const cache = new ObjectCache("node-1");
  const nodeContext = testNodeContext();
  const renderer = new Renderer(cache, nodeContext);
  const [decodedServices, decodedSlices] = [[] as unknown[], [] as unknown[]];
  const decode = countOperations(() => {
    decodedServices.push(...services.map((one) => usable(decodeService(one))));
    decodedSlices.push(...slices.map((one) => usable(decodeEndpointSlice(one))));
  });
  const put = () => {
    for (const service of decodedServices)
      cache.putService({ ...(service as Parameters<typeof cache.putService>[0]) });
    for (const slice of decodedSlices) cache.putSlice(slice as Parameters<typeof cache.putSlice>[0]);
  };
  put();
  return {
    decode,
    cache: countOperations(put),
    render: countOperations(() => renderer.update(cache.takeDirty())),
    write: countOperations(() => JSON.stringify(toTransaction(renderer.state.pending()))),
    view: countOperations(() => {
      for (const name of cache.serviceNames()) viewService(cache, name, nodeContext, renderer.state);
    }),
    again: countOperations(() => {
      renderer.state.markCommitted();
      put();
      renderer.update(cache.takeDirty());
      renderer.state.pending();
    }),
    remove: countOperations(() => {
      for (const name of cache.serviceNames()) cache.deleteService(name);
      renderer.update(cache.takeDirty());
      expect(
        FAMILIES.flatMap((family) => [...(renderer.state.families[family]?.allServicePortRules() ?? [])]),
      ).toEqual([]);
    }),
  };
}

function usable<T>(decoded: Decoded<T>): T {
  if (decoded.kind !== "valid") throw new Error(`the object is ${decoded.kind}`);
  return decoded.value;
}

describe("the work for objects with many", () => {
  test.each(HOSTILE_NAMES)("%s grows with their number, not with its square", (name) => {
    const make = HOSTILE[name] as (count: number) => HostileObjects;
    const [few, many] = [operationsOf(make(SIZE)), operationsOf(make(4 * SIZE))];
    for (const [step, operations] of Object.entries(many)) {
      const growth = operations / Math.max(few[step] ?? 0, 1);
      if (operations > 1000)
        expect(growth, `${step}: ${few[step]} to ${operations} operations`).toBeLessThan(FOUR_TIMES);
    }
  });
});

test("the work for invalid ports grows with their number", () => {
  const decoding = (count: number) => {
    const ports = Array.from({ length: count }, (_, i) => ({ name: "Not_A_Name", port: i + 1 }));
    const object = { metadata: { namespace: "a", name: "b" }, spec: { clusterIP: "10.96.0.10", ports } };
    return countOperations(() => expect(decodeService(object).kind).toBe("invalid"));
  };
  // The first call also prepares what later ones share.
  decoding(1);
  expect(decoding(16 * SIZE) / decoding(4 * SIZE)).toBeLessThan(6);
});

test("the work to number endpoints whose hashes a tenant chose grows with their number", () => {
  const NONE = new Map<string, number>();
  /** Alone, an endpoint gets the id of its hash. */
  const hasLowHash = (target: string) => (endpointIds([target], NONE).get(target) ?? 0) < FIRST_ENDPOINT + 40;
  const chosen: string[] = [];
  for (let i = 0; chosen.length < 2000; i++) {
    const target = `10.${(i >> 16) & 255}.${(i >> 8) & 255}.${i & 255} . 8080`;
    if (hasLowHash(target)) chosen.push(target);
  }
  const numbering = (count: number) => countOperations(() => endpointIds(chosen.slice(0, count), NONE));
  expect(numbering(2000) / numbering(500)).toBeLessThan(FOUR_TIMES);
});

test("the work to decode a Service with many invalid ports grows with their number", () => {
  const decoding = (count: number): number => {
    const ports = Array.from({ length: count }, (_, i) => [
      { name: `valid-${i}`, port: 1 + i },
      { name: `invalid-${i}`, port: 70_000 },
    ]).flat();
    const service = apiService("web", { clusterIP: "10.96.0.1", ports });
    return countOperations(() => expect(decodeService(service).kind).toBe("invalid"));
  };
  const few = decoding(250);
  expect(decoding(1000) / few).toBeLessThan(FOUR_TIMES);
});

/** Shared budgets that are too small for Services with 60 ports. */
const SCARCE = { maxElements: 40, maxStickyPorts: 4 };

test.each([
  ["without rules", {}, (renderer: Renderer) => renderer.excess],
  [
    "without session affinity",
    { affinitySeconds: 60 },
    (renderer: Renderer) => renderer.state.budgets.without("affinity"),
  ],
] as const)(
  "a change of a Service %s costs the same however many ports others like it have",
  (_, options, of) => {
    const changeOne = (ports: number): number => {
      const some = (count: number) => Array.from({ length: count }, (_, i) => port(1 + i, { name: `p${i}` }));
      const maxElements = "affinitySeconds" in options ? Number.POSITIVE_INFINITY : SCARCE.maxElements;
      const names = Array.from({ length: 20 }, (_, i) => `other-${i}`);
      const services = names.map((name, i) =>
        service({ name, clusterIPs: [`10.96.1.${i}`], ports: some(ports), ...options }),
      );
      const own = { name: "own", clusterIPs: ["10.96.0.1"], ports: some(60), ...options };
      const cache = cacheOf({ services: [...services, service(own)] });
      const renderer = new Renderer(cache, testNodeContext({ ...SCARCE, maxElements }));
      const changes = quarantineChanges();
      renderer.update(cache.takeDirty());
      expect(changes(of(renderer)).begun).toHaveLength(21);
      cache.putService(service(own));
      return countOperations(() => {
        renderer.update(cache.takeDirty());
        expect(changes(of(renderer)).begun).toEqual([]);
      });
    };
    expect(changeOne(400) / changeOne(100)).toBeLessThan(1.1);
  },
);

function explainInput(cache: ObjectCache): ExplainInput {
  const nodeContext = testNodeContext();
  const renderer = new Renderer(cache, nodeContext);
  renderer.update(cache.takeDirty());
  const host = { localAddresses: new Set(["192.0.2.2"]) };
  return {
    cache,
    nodeContext,
    objectsKnown: true,
    state: renderer.state,
    ignored: [],
    loadBalancers: [],
    host,
  };
}

const ALL = { kind: "all", problemsOnly: false, from: {} } as const;

test("the work to explain a Service with many addresses grows with their number, not with its square", () => {
  const explainAll = (count: number): number => {
    const externalIPs = Array.from({ length: count }, (_, i) => `203.0.${i >> 8}.${i & 255}`);
    const services = [service({ externalIPs })];
    const input = explainInput(cacheOf({ services, slices: [slice({ endpoints: ["10.244.2.1"] })] }));
    return countOperations(() => reportOf(ALL, input));
  };
  const few = explainAll(100);
  expect(explainAll(400) / few).toBeLessThan(FOUR_TIMES);
});

/** Tables in the kernel that are to be compared with the desired ones. */
const KERNELS: Readonly<Record<string, (desired: Ruleset) => Ruleset>> = {
  "as it should be": (desired) => desired,
  "without any element": (desired) =>
    Object.fromEntries(
      Object.values(desired).map((table) => [
        table.family,
        {
          ...table,
          sets: new Map([...table.sets].map(([name, { spec }]) => [name, { spec, elements: new Map() }])),
        },
      ]),
    ),
};

test.each(Object.keys(KERNELS))(
  "the work to explain many Services by a kernel %s grows with their number",
  (name) => {
    const explainAll = (count: number): number => {
      const numbers = Array.from({ length: count }, (_, i) => i);
      const services = numbers.map((i) =>
        service({ name: `web-${i}`, clusterIPs: [`10.96.${i >> 8}.${i & 255}`] }),
      );
      const slices = numbers.map((i) => slice({ service: `web-${i}`, endpoints: ["10.244.2.1"] }));
      const input = explainInput(cacheOf({ services, slices }));
      const live: LiveRules = {
        ruleset: (KERNELS[name] as (desired: Ruleset) => Ruleset)(input.state.ruleset),
        otherTables: { tables: [], older: { ip: 0, ip6: 0 } },
        interfaceTo: () => undefined,
        affinityEntries: [],
      };
      return countOperations(() => reportOf(ALL, { ...input, live }));
    };
    const few = explainAll(100);
    expect(explainAll(400) / few).toBeLessThan(FOUR_TIMES);
  },
);
