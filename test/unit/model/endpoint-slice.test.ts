import fc from "fast-check";
import { expect, test } from "vitest";
import type { SliceEndpoint } from "../../../src/model/endpoint-slice.ts";
import { SliceEndpoints } from "../../../src/model/endpoint-slice.ts";
import { collectGarbage } from "../../support/collect-garbage.ts";

const names = fc.constantFrom("", "a", "node-a", "node-a.example", "node");

/** Any endpoint that the decoder returns: its texts are printable and without blanks. */
const anyEndpoint: fc.Arbitrary<SliceEndpoint> = fc.record({
  address: fc.constantFrom("10.244.1.1", "10.244.1.11", "fd00:244::1"),
  nodeName: names,
  zone: names,
  ready: fc.boolean(),
  serving: fc.boolean(),
  terminating: fc.boolean(),
  zoneHints: fc.array(names, { maxLength: 3 }),
  nodeHints: fc.array(names, { maxLength: 3 }),
  pod: fc.constantFrom("", "shop/web-1", "shop/web-2"),
});

const anyEndpoints = fc.array(anyEndpoint, { maxLength: 6 });

test("endpoints kept as text are those that were given, in their order", () => {
  fc.assert(
    fc.property(anyEndpoints, (given) => {
      const kept = new SliceEndpoints(given);
      expect([...kept]).toEqual(given);
      expect(kept.length).toBe(given.length);
      expect(new Set(kept.nodes)).toEqual(new Set(given.map(({ nodeName }) => nodeName)));
    }),
  );
});

test("endpoints kept as text are counted by the whole name of their node", () => {
  fc.assert(
    fc.property(anyEndpoints, names, (given, name) => {
      const expected = name === "" ? 0 : given.filter(({ nodeName }) => nodeName === name).length;
      expect(new SliceEndpoints(given).countOn(name)).toBe(expected);
    }),
  );
});

test("endpoints kept as text have the same JSON as others with the same values alone", () => {
  fc.assert(
    fc.property(anyEndpoints, anyEndpoints, (one, other) => {
      const textOf = (endpoints: readonly SliceEndpoint[]) => JSON.stringify(new SliceEndpoints(endpoints));
      expect(textOf(one) === textOf(other)).toBe(JSON.stringify(one) === JSON.stringify(other));
    }),
  );
});

test("endpoints kept as text take no more characters than their JSON", () => {
  fc.assert(
    fc.property(fc.array(anyEndpoint, { minLength: 5, maxLength: 20 }), (given) => {
      expect(JSON.stringify(new SliceEndpoints(given)).length).toBeLessThan(JSON.stringify(given).length);
    }),
  );
});

test("many endpoints are the same objects when they are read again, until the heap is collected", async () => {
  const [sample] = fc.sample(anyEndpoint, { numRuns: 1, seed: 1 });
  const kept = new SliceEndpoints(Array.from({ length: 100 }, () => sample as SliceEndpoint));
  const read = () => [...kept][0] as SliceEndpoint;
  expect(read()).toBe(read());
  const first = new WeakRef(read());
  await collectGarbage();
  expect(first.deref()).toBeUndefined();
  expect(read()).toEqual(sample);
});
