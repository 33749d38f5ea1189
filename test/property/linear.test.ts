import { describe, expect, test } from "vitest";
import { FAMILIES } from "../../src/base/family.ts";
import type { ExplainInput } from "../../src/inspect/explain/explain-input.ts";
import { reportOf } from "../../src/inspect/explain/report.ts";
import type { Decoded } from "../../src/kube/decode/decode.ts";
import { decodeEndpointSlice } from "../../src/kube/decode/endpoint-slice.ts";
import { decodeService } from "../../src/kube/decode/service.ts";
import { ObjectCache } from "../../src/model/object-cache.ts";
import { toTransaction } from "../../src/nft/transaction.ts";
import { Renderer } from "../../src/ruleset/renderer.ts";
import { viewService } from "../../src/ruleset/service-view.ts";
import { cacheOf, service, slice, testNodeContext } from "../support/build.ts";
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
    for (const service of decodedServices) cache.putService({ ...(service as Parameters<typeof cache.putService>[0]) });
    for (const slice of decodedSlices) cache.putSlice(slice as Parameters<typeof cache.putSlice>[0]);
  };
  put();
  return {
    decode,
    cache: countOperations(put),
    render: countOperations(() => renderer.update(cache.takeDirty())),
    write: countOperations(() => JSON.stringify(toTransaction(renderer.state.pending()))),
    view: countOperations(() => {
      for (const name of cache.serviceNames()) viewService(cache, name, nodeContext, renderer.state.families);
    }),
    again: countOperations(() => {
      renderer.state.committed();
      put();
      renderer.update(cache.takeDirty());
      renderer.state.pending();
    }),
    remove: countOperations(() => {
      for (const name of cache.serviceNames()) cache.deleteService(name);
      renderer.update(cache.takeDirty());
      expect(FAMILIES.flatMap((family) => [...(renderer.state.families[family]?.allServicePortRules() ?? [])])).toEqual(
        [],
      );
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

test("the work to explain a Service with many addresses grows with their number, not with its square", () => {
  const explainAll = (count: number): number => {
    const externalIPs = Array.from({ length: count }, (_, i) => `203.0.${i >> 8}.${i & 255}`);
    const cache = cacheOf({ services: [service({ externalIPs })], slices: [slice({ endpoints: ["10.244.2.1"] })] });
    const nodeContext = testNodeContext();
    const renderer = new Renderer(cache, nodeContext);
    renderer.update(cache.takeDirty());
    const input: ExplainInput = {
      cache,
      nodeContext,
      objectsKnown: true,
      state: renderer.state,
      ignored: [],
      loadBalancers: [],
      host: { localAddresses: new Set(["192.0.2.2"]) },
    };
    const query = { kind: "all", problemsOnly: false, from: {} } as const;
    return countOperations(() => reportOf(query, input));
  };
  const few = explainAll(100);
  expect(explainAll(400) / few).toBeLessThan(FOUR_TIMES);
});
