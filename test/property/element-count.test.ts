import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { EndpointSlice } from "../../src/model/endpoint-slice.ts";
import type { Service } from "../../src/model/service.ts";
import { NODEPORT_IPS, PORT_PROTOCOLS } from "../../src/ruleset/sets.ts";
import { anyContexts, anyObjects } from "../support/arbitraries.ts";
import {
  elementCount,
  localEndpoint,
  port,
  renderAll,
  service,
  slice,
  slicePort,
  testNodeContext,
} from "../support/build.ts";
import { countOperations } from "../support/operations.ts";

const upTo = <T>(count: number, make: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, i) => make(i + 1));

const PORTS = upTo(20, (i) => port(i, { name: `p${i}` }));

/** The sets whose elements do not come from Services. */
const OF_NODE: readonly string[] = [NODEPORT_IPS, PORT_PROTOCOLS];

/** The elements that are made for Services without others. */
function elementsMade(
  services: readonly Service[],
  slices: readonly EndpointSlice[],
  nodeContext = testNodeContext(),
): number {
  const { ruleset } = renderAll({ services, slices }, nodeContext).state;
  const sets = Object.values(ruleset).flatMap((table) => [...table.sets.values()]);
  return sets.reduce((sum, { spec, elements }) => sum + (OF_NODE.includes(spec.name) ? 0 : elements.size), 0);
}

describe("the elements of a Service", () => {
  test("are never more than are counted from its objects", () => {
    fc.assert(
      fc.property(anyObjects, anyContexts, ({ services, slices }, nodeContext) => {
        for (const one of services) {
          const own = slices.filter((each) => each.service === one.name);
          expect(elementCount(one, own, nodeContext)).toBeGreaterThanOrEqual(
            elementsMade([one], own, nodeContext),
          );
        }
      }),
    );
  });

  test.each([
    ["with 10 addresses", service({ externalIPs: upTo(10, (i) => `203.0.113.${i}`) })],
    ["with many ports", service({ ports: PORTS })],
    ["with a NodePort", service({ ports: [port(80, { nodePort: 30080 })] })],
    ["of both families", service({ clusterIPs: ["10.96.0.1", "fd00:10:96::1"] })],
    ["with a slot table", service({ scheduler: "source-hash", ports: PORTS, externalIPs: ["203.0.113.1"] })],
    ["with session affinity", service({ affinitySeconds: 60, ports: PORTS })],
  ])("of one %s are counted exactly while all endpoints are ready", (_, one) => {
    const ports = PORTS.map(({ name, port: number }) => slicePort(number, { name }));
    const endpoints = [...upTo(30, (i) => `10.244.2.${i}`), localEndpoint("10.244.1.1")];
    const slices = [slice({ ports: [...ports, slicePort(8080)], endpoints })];
    expect(elementCount(one, slices, testNodeContext())).toBe(elementsMade([one], slices));
  });

  const RANGES = upTo(3, (i) => ({ first: 1000 * i, last: 1000 * i + 99 }));
  const RANGED = [port(80, { ranges: RANGES })];
  test.each([
    ["at one address", service({ ports: RANGED }), 1],
    ["at 11 addresses", service({ ports: RANGED, externalIPs: upTo(10, (i) => `203.0.113.${i}`) }), 11],
    ["with a NodePort", service({ ports: [port(80, { ranges: RANGES, nodePort: 30080 })] }), 1],
    ["with session affinity", service({ ports: RANGED, affinitySeconds: 60 }), 1],
    ["with the policy Local", service({ ports: RANGED, internal: "Local" }), 1],
  ])("of one with port ranges %s are counted with twice its ranges and two empty lists", (_, one, places) => {
    const endpoints = [...upTo(30, (i) => `10.244.2.${i}`), localEndpoint("10.244.1.1")];
    const slices = [slice({ endpoints })];
    const spare = RANGES.length * places + 2;
    expect(elementCount(one, slices, testNodeContext())).toBe(elementsMade([one], slices) + spare);
  });

  test("of one with port ranges are enough if older Services divide each of them", () => {
    const slices = [
      slice({ endpoints: ["10.244.2.1"] }),
      slice({ service: "older", endpoints: ["10.244.2.2"] }),
    ];
    const older = service({
      name: "older",
      createdAt: 1,
      clusterIPs: ["10.96.0.11"],
      externalIPs: ["203.0.113.1"],
      ports: [port(90, { ranges: RANGES.map(({ first }) => ({ first: first + 40, last: first + 49 })) })],
    });
    const one = service({ ports: RANGED, externalIPs: ["203.0.113.1"] });
    const alone = elementsMade([one], slices);
    const beside = elementsMade([older, one], slices) - elementsMade([older], slices);
    // At the address that both have.
    expect(beside - alone).toBe(RANGES.length);
    expect(elementCount(one, slices.slice(0, 1), testNodeContext())).toBeGreaterThanOrEqual(beside);
  });

  test("of one with 20,000 ports and 100,000 endpoints are counted without visiting each pair", () => {
    const ports = upTo(20_000, (i) => port(i, { name: `p${i}` }));
    const slicePorts = ports.map(({ name, port: number }) => slicePort(number, { name }));
    const endpoints = upTo(1000, (i) => `10.1.${i >> 8}.${i & 255}`);
    const one = slice({ ports: slicePorts, endpoints });
    const slices = upTo(100, (i) => ({ ...one, name: `web-${i}` }));
    const work = countOperations(() => elementCount(service({ ports }), slices, testNodeContext()));
    expect(work).toBeLessThan(100 * 20_000 * 20);
    expect(elementCount(service({ ports }), slices, testNodeContext())).toBeGreaterThan(2_000_000_000);
  });
});
