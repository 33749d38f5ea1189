import { describe, expect, test } from "vitest";
import { deltaSize } from "../../../src/nft/delta.ts";
import { Renderer } from "../../../src/ruleset/renderer.ts";
import {
  cacheOf,
  localEndpoint,
  port,
  type ServiceOptions,
  service,
  slice,
  testNodeContext,
} from "../../support/build.ts";

const ADDRESSES = Array.from({ length: 5000 }, (_, i) => `10.244.${Math.floor(i / 250)}.${i % 250}`);
const NEW_ADDRESS = "10.245.0.1";

const endpoints = (addresses: readonly string[]) =>
  slice({ endpoints: addresses.map((one) => localEndpoint(one)) });

/** What the kernel is sent when the endpoints of a Service become others. */
function cost(options: ServiceOptions, before: readonly string[], after: readonly string[]) {
  const cache = cacheOf({ services: [service(options)], slices: [endpoints(before)] });
  const renderer = new Renderer(cache, testNodeContext());
  renderer.update(cache.serviceNames());
  cache.takeDirty();
  renderer.state.markCommitted();
  cache.putSlice(endpoints(after));
  renderer.update(cache.takeDirty());
  return deltaSize(renderer.state.pending());
}

/**
 * A removed endpoint, the last one that takes its index, and the verdict with the new length: each old and
 * new.
 */
const ELEMENTS_OF_A_LIST = 6;

describe.each<[string, number, ServiceOptions]>([
  ["with one list", 1, {}],
  ["with a list and its affinity ids", 2, { affinitySeconds: 600 }],
  [
    "with three lists, two of them for a Local NodePort",
    3,
    { ports: [port(80, { nodePort: 30_080 })], external: "Local" },
  ],
])("a Service of 5,000 endpoints %s", (_, lists, options) => {
  test.each<[string, readonly string[]]>([
    ["replaced by another", [...ADDRESSES.slice(0, 2500), NEW_ADDRESS, ...ADDRESSES.slice(2501)]],
    ["more", [NEW_ADDRESS, ...ADDRESSES]],
    ["less", ADDRESSES.slice(1)],
  ])("sends the kernel at most six elements a list for one endpoint %s", (_how, after) => {
    const { elements, sets } = cost(options, ADDRESSES, after);
    expect(elements).toBeGreaterThan(0);
    expect(elements).toBeLessThanOrEqual(ELEMENTS_OF_A_LIST * lists);
    expect(sets).toBe(0);
  });
});
