import { expect, test } from "vitest";
import { PORT_RANGE_ADDRESSES } from "../../../../src/features/port-ranges/rules.ts";
import { explain } from "../../../../src/inspect/explain/explain.ts";
import { type ExplainInput, hostOf } from "../../../../src/inspect/explain/explain-input.ts";
import { connectionOf } from "../../../../src/inspect/explain/packet.ts";
import { serviceConnections } from "../../../../src/inspect/explain/query.ts";
import type { ObjectCache } from "../../../../src/model/object-cache.ts";
import type { FamilyContext } from "../../../../src/ruleset/node-context.ts";
import { Renderer } from "../../../../src/ruleset/renderer.ts";
import { cacheOf, named, port, service, slice, testNodeContext } from "../../../support/build.ts";

function inputOf(cache: ObjectCache, nodeContext: readonly FamilyContext[]): ExplainInput {
  const renderer = new Renderer(cache, nodeContext);
  renderer.update(cache.takeDirty());
  const host = hostOf(nodeContext, []);
  return {
    ...{ cache, nodeContext, state: renderer.state, host, objectsKnown: true },
    ...{ ignored: [], loadBalancers: [] },
  };
}

test.each(PORT_RANGE_ADDRESSES)(
  "a range at the API server's address leaves it its port, with --port-ranges %s",
  (portRanges) => {
    const ports = [port(80, { ranges: [{ first: 1, last: 65_535 }] })];
    const services = [service({ externalIPs: ["198.51.100.9"], ports })];
    const cache = cacheOf({ services, slices: [slice({ endpoints: ["10.244.2.11"] })] });
    const nodeContext = testNodeContext({
      settings: { portRanges },
      apiServers: ["198.51.100.9 . tcp . 6443"],
    });
    const input = inputOf(cache, nodeContext);
    const explained = (number: number) => {
      const question = { to: "198.51.100.9", port: number, protocol: "tcp", source: "node" } as const;
      const { verdict, frontend } = explain(connectionOf(question, input), input);
      return [verdict.result, verdict.cause, frontend?.service];
    };
    expect(explained(6443)).toEqual(["not-handled", "port-ranges", undefined]);
    expect(explained(6444)).toEqual(["served", "served", "default/web"]);
  },
);

test("a Service's range is explained at a port that no explicit port takes from it", () => {
  const range = { first: 10_000, last: 10_999 };
  const ports = [port(10_000, { name: "rtp", ranges: [range] }), port(10_001, { name: "rtcp" })];
  const cache = cacheOf({ services: [service({ ports })], slices: [slice({ endpoints: ["10.244.2.11"] })] });
  const input = inputOf(cache, testNodeContext());
  const [first] = serviceConnections({ service: named("default/web"), port: "rtp" }, {}, input);
  const keys = first?.connections.map((connection) => explain(connection, input).frontend?.key);
  expect(keys).toEqual([expect.stringMatching(/ 10000$/), expect.stringMatching(/ 10000-10999$/)]);
});

test("a Service and a port in its range are the connections to this port; others are told the ranges", () => {
  const range = { first: 10_000, last: 10_999 };
  const ports = [port(80, { name: "http" }), port(10_000, { name: "rtp", ranges: [range] })];
  const objects = { services: [service({ ports })], slices: [slice({ endpoints: ["10.244.2.11"] })] };
  const input = inputOf(cacheOf(objects), testNodeContext());
  const asked = (number: string) =>
    serviceConnections({ service: named("default/web"), port: number }, {}, input).flatMap(
      ({ port: { spec }, connections }) => connections.map((one) => `${spec.name} ${one.to}:${one.port}`),
    );
  expect(asked("10500")).toEqual(["rtp 10.96.0.10:10500"]);
  expect(() => asked("11000")).toThrow(
    expect.objectContaining({
      message: "Service default/web has no port 11000",
      hint: "its ports are: http (80/tcp), rtp (10000/tcp) and 10000-10999/tcp",
    }),
  );
});
