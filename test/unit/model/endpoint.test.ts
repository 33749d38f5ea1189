import { describe, expect, test } from "vitest";
import { resultOf } from "../../../src/base/pieces.ts";
import { portNameOf, SlicesByPort } from "../../../src/model/endpoint.ts";
import type { Protocol } from "../../../src/model/ids.ts";
import {
  DRAINING,
  endpoint,
  endpointsOf,
  GONE,
  HERE,
  localEndpoint,
  slice,
  slicePort,
} from "../../support/build.ts";

const portOf = (name: string, protocol: Protocol) => ({ family: "ip", spec: { name, protocol } }) as const;
const nameless = portOf("", "tcp");
/** The targets, which are the same from slices that were read for some ports. */
function targets(...[slices, port, nodeName]: Parameters<typeof endpointsOf>) {
  const found = endpointsOf(slices, port, nodeName);
  const byPort = resultOf(SlicesByPort.reading(slices, new Set([portNameOf(port.spec), "tcp other"])));
  expect(resultOf(byPort.endpointsOf(port, nodeName))).toEqual(found);
  return found.map(({ target }) => target);
}

describe("SlicesByPort", () => {
  test("gathers the endpoints of all slices of a Service, sorted", () => {
    const slices = [
      slice({ name: "b", endpoints: ["10.0.0.9", "10.0.0.1"] }),
      slice({ name: "a", endpoints: ["10.0.0.5"] }),
    ];
    const sorted = ["10.0.0.1 . 8080", "10.0.0.5 . 8080", "10.0.0.9 . 8080"];
    expect(targets(slices, nameless, HERE.name)).toEqual(sorted);
    expect(targets(slices.toReversed(), nameless, HERE.name)).toEqual(sorted);
  });

  test("takes from each slice the port that has the service port's name and protocol", () => {
    const slices = [
      slice({
        name: "a",
        ports: [
          slicePort(53, { name: "dns" }),
          slicePort(5353, { name: "dns", protocol: "udp" }),
          slicePort(9153),
        ],
        endpoints: ["10.0.0.1"],
      }),
      slice({ name: "b", ports: [slicePort(1053, { name: "dns" })], endpoints: ["10.0.0.1"] }),
      slice({ name: "c", ports: [slicePort(9, { name: "other" })], endpoints: ["10.0.0.3"] }),
    ];
    expect(targets(slices, portOf("dns", "tcp"), "")).toEqual(["10.0.0.1 . 1053", "10.0.0.1 . 53"]);
    expect(targets(slices, portOf("dns", "udp"), "")).toEqual(["10.0.0.1 . 5353"]);
    expect(targets(slices, nameless, "")).toEqual(["10.0.0.1 . 9153"]);
    expect(targets(slices, portOf("dns", "sctp"), "")).toEqual([]);
  });

  test.each([
    ["a ready entry before a draining one", endpoint("10.0.0.1"), endpoint("10.0.0.1", DRAINING)],
    ["a draining entry before one that is gone", endpoint("10.0.0.1", DRAINING), endpoint("10.0.0.1", GONE)],
    [
      "a ready entry before a local one that terminates",
      endpoint("10.0.0.1"),
      localEndpoint("10.0.0.1", DRAINING),
    ],
    [
      "an unready entry before one that terminates",
      endpoint("10.0.0.1", { ready: false }),
      endpoint("10.0.0.1", DRAINING),
    ],
    ["a local entry before one elsewhere", localEndpoint("10.0.0.1"), endpoint("10.0.0.1")],
    [
      "a ready entry before a local one that is not",
      endpoint("10.0.0.1"),
      localEndpoint("10.0.0.1", { ready: false }),
    ],
    [
      "of two that terminate the one that serves",
      endpoint("10.0.0.1", DRAINING),
      localEndpoint("10.0.0.1", GONE),
    ],
    [
      "of two that are ready the one that serves",
      endpoint("10.0.0.1", { zone: "b" }),
      localEndpoint("10.0.0.1", { zone: "a", serving: false }),
    ],
    [
      "the same one of two that differ in their zone alone",
      endpoint("10.0.0.1", { zone: "zone-a" }),
      endpoint("10.0.0.1", { zone: "zone-b" }),
    ],
  ])("keeps of an endpoint in two slices %s", (_, kept, dropped) => {
    const slices = [slice({ name: "a", endpoints: [dropped] }), slice({ name: "b", endpoints: [kept] })];
    for (const each of [slices, slices.toReversed(), [slice({ endpoints: [kept, dropped] })]]) {
      expect(endpointsOf(each, nameless, HERE.name).map(({ source }) => source)).toEqual([kept]);
    }
  });

  test("finds no local endpoint on a node without a name", () => {
    const slices = [slice({ endpoints: ["10.0.0.1", localEndpoint("10.0.0.2")] })];
    expect(endpointsOf(slices, nameless, HERE.name).map(({ local }) => local)).toEqual([false, true]);
    expect(endpointsOf(slices, nameless, "").map(({ local }) => local)).toEqual([false, false]);
  });
});
