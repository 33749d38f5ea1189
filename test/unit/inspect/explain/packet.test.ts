import { describe, expect, test } from "vitest";
import { type ExplainInput, explainInputOf } from "../../../../src/inspect/explain/explain-input.ts";
import { connectionOf, packetOf, type Question } from "../../../../src/inspect/explain/packet.ts";
import { Renderer } from "../../../../src/ruleset/renderer.ts";
import {
  type ContextOptions,
  cacheOf,
  endpoint,
  node,
  service,
  slice,
  testNodeContext,
} from "../../../support/build.ts";

function input(
  options: ContextOptions = {},
  hostAddresses: readonly string[] = ["127.0.0.1", "198.18.0.7"],
): ExplainInput {
  const cache = cacheOf({
    services: [service({ externalIPs: ["203.0.113.7"] })],
    slices: [slice({ endpoints: [endpoint("172.31.0.5")] })],
  });
  cache.putNode(node({ podCIDRs: { ip: ["10.244.1.0/24"], ip6: [] } }));
  const nodeContext = testNodeContext(options);
  const renderer = new Renderer(cache, nodeContext);
  renderer.update(cache.takeDirty());
  return explainInputOf({
    cache,
    nodeContext,
    state: renderer.state,
    ignored: [],
    objectsKnown: true,
    loadBalancers: [],
    hostAddresses,
  });
}

function from(question: Partial<Question>, of = input()) {
  return connectionOf({ to: "10.96.0.10", port: 80, protocol: "tcp", ...question }, of).from;
}

describe("the source of a connection", () => {
  test.each([
    ["a pod's CIDR", "10.244.3.4", "pod"],
    ["an endpoint outside of all CIDRs", "172.31.0.5", "pod"],
    ["the node's own address", "192.0.2.2", "node"],
    ["loopback", "127.0.0.1", "node"],
    ["anywhere else", "198.51.100.9", "outside"],
    ["an address of this host, which is not the node", "198.18.0.7", "outside"],
  ])("at %s (%s) is taken for %s", (_what, fromAddress, at) => {
    expect(from({ fromAddress })).toEqual({ address: fromAddress, at, known: "given" });
  });

  test("is as told, whatever its address", () => {
    expect(from({ fromAddress: "198.51.100.9", source: "pod" }).at).toBe("pod");
  });

  test.each([
    ["pod", "10.244.1.254"],
    ["node", "192.0.2.2"],
    ["outside", "192.0.2.1"],
  ] as const)("that is told as %s has the address %s", (source, address) => {
    expect(from({ source })).toEqual({ address, at: source, known: "assumed" });
  });

  test.each([
    ["a cluster IP", "10.96.0.10", "pod"],
    ["an external IP", "203.0.113.7", "outside"],
    ["the node's address", "192.0.2.2", "outside"],
    ["loopback", "127.0.0.1", "node"],
  ])("towards %s (%s) is guessed as %s", (_what, to, at) => {
    expect(from({ to }).at).toBe(at);
  });

  test("of the node towards its own address is that address", () => {
    expect(from({ to: "127.0.0.1" }).address).toBe("127.0.0.1");
  });
});

test("the host's addresses are the node's where the host is the node", () => {
  const here = input({}, ["192.0.2.2", "198.18.0.7"]);
  expect(from({ fromAddress: "198.18.0.7" }, here).at).toBe("node");
});

test("the host is taken for the node where no address of the node is known", () => {
  const unknown = input({ nodeAddress: "", nodePorts: { kind: "all" } });
  expect(from({ source: "node" }, unknown).address).toBe("198.18.0.7");
});

test("a pod's packet comes by an interface that matches the pods' pattern", () => {
  const byInterface = input({ localTraffic: { kind: "interface", pattern: "cali*" } });
  const connection = connectionOf({ to: "10.96.0.10", port: 80, protocol: "tcp", source: "pod" }, byInterface);
  expect(packetOf(connection, byInterface).from.iifname).toBe("cali0");
});
