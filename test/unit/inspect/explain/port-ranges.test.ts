import { expect, test } from "vitest";
import { explain } from "../../../../src/inspect/explain/explain.ts";
import { type ExplainInput, hostOf } from "../../../../src/inspect/explain/explain-input.ts";
import { connectionOf } from "../../../../src/inspect/explain/packet.ts";
import { PORT_RANGE_ADDRESSES } from "../../../../src/model/service.ts";
import { Renderer } from "../../../../src/ruleset/renderer.ts";
import { cacheOf, port, service, slice, testNodeContext } from "../../../support/build.ts";

test.each(PORT_RANGE_ADDRESSES)(
  "a range at the API server's address leaves it its port, with --port-ranges %s",
  (portRanges) => {
    const ports = [port(80, { ranges: [{ first: 1, last: 65_535 }] })];
    const services = [service({ externalIPs: ["198.51.100.9"], ports })];
    const cache = cacheOf({ services, slices: [slice({ endpoints: ["10.244.2.11"] })] });
    const nodeContext = testNodeContext({ portRanges, apiServers: ["198.51.100.9 . tcp . 6443"] });
    const renderer = new Renderer(cache, nodeContext);
    renderer.update(cache.takeDirty());
    const host = hostOf(nodeContext, []);
    const input: ExplainInput = {
      ...{ cache, nodeContext, state: renderer.state, host, objectsKnown: true },
      ...{ ignored: [], loadBalancers: [] },
    };
    const explained = (number: number) => {
      const question = { to: "198.51.100.9", port: number, protocol: "tcp", source: "node" } as const;
      const { verdict, frontend } = explain(connectionOf(question, input), input);
      return [verdict.result, verdict.cause, frontend?.service];
    };
    const unserved = ["not-handled", "port-ranges", undefined];
    expect(explained(6443)).toEqual(unserved);
    expect(explained(6444)).toEqual(portRanges === "off" ? unserved : ["served", "served", "default/web"]);
  },
);
