import { describe, expect, test } from "vitest";
import { explain } from "../../../../src/inspect/explain/explain.ts";
import { type ExplainInput, hostOf } from "../../../../src/inspect/explain/explain-input.ts";
import { connectionOf, packetOf, type Question } from "../../../../src/inspect/explain/packet.ts";
import { allConnections } from "../../../../src/inspect/explain/query.ts";
import type { Rule } from "../../../../src/nft/ast/json.ts";
import { anyTables } from "../../../../src/nft/canonical/any-tables.ts";
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
import { listingOf } from "../../../support/listing.ts";

function input(
  options: ContextOptions = {},
  hostAddresses: readonly string[] = ["127.0.0.1", "198.18.0.7"],
): ExplainInput {
  const cache = cacheOf({
    services: [
      service({ externalIPs: ["203.0.113.7"] }),
      service({
        name: "default/fenced",
        clusterIPs: ["10.96.0.11", "fd00:10:96::11"],
        loadBalancerIPs: ["203.0.113.8"],
        sourceRanges: ["198.51.100.64/26"],
      }),
    ],
    slices: [slice({ endpoints: [endpoint("172.31.0.5"), endpoint("10.244.2.5", { nodeName: "node-2" })] })],
  });
  cache.putNode(node({ podCIDRs: { ip: ["10.244.1.0/24"], ip6: [] } }));
  const nodeContext = testNodeContext(options);
  const renderer = new Renderer(cache, nodeContext);
  renderer.update(cache.takeDirty());
  return {
    cache,
    nodeContext,
    state: renderer.state,
    ignored: [],
    objectsKnown: true,
    loadBalancers: [],
    host: hostOf(nodeContext, hostAddresses),
  };
}

function from(question: Partial<Question>, of = input()) {
  return connectionOf({ to: "10.96.0.10", port: 80, protocol: "tcp", ...question }, of).from;
}

test.each([
  ["198.51.100.9", ["10.96.0.11", "203.0.113.8", "10.96.0.10", "203.0.113.7"]],
  ["2001:db8::9", ["fd00:10:96::11"]],
])("the client %s asks about the frontends of its family alone, of all Services", (fromAddress, all) => {
  const of = input();
  const ports = allConnections(of.cache.serviceNames(), false, { fromAddress }, of);
  expect(ports.flatMap(({ connections }) => connections.map(({ to }) => to))).toEqual(all);
});

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

  test("is assumed to be the first host of a frontend's source ranges, not their network", () => {
    expect(from({ to: "203.0.113.8" })).toEqual({
      address: "198.51.100.65",
      at: "outside",
      known: "assumed",
    });
  });

  test("is the given kind, whatever the address", () => {
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

  test("is the destination for connections of the node to itself", () => {
    expect(from({ to: "127.0.0.1" }).address).toBe("127.0.0.1");
  });
});

test("the host's addresses are included if the host is the node", () => {
  const here = input({}, ["192.0.2.2", "198.18.0.7"]);
  expect(from({ fromAddress: "198.18.0.7" }, here).at).toBe("node");
});

test("the host counts as the node if no address of the node is known", () => {
  const unknown = input({ nodeAddress: "", nodePorts: { kind: "all" } });
  expect(from({ source: "node" }, unknown).address).toBe("198.18.0.7");
});

test("a pod's packet has an interface that matches the pattern of pods", () => {
  const byInterface = input({ localTraffic: { kind: "interface", pattern: "cali*" } });
  const connection = connectionOf(
    { to: "10.96.0.10", port: 80, protocol: "tcp", source: "pod" },
    byInterface,
  );
  expect(packetOf(connection, byInterface).from.iifname).toBe("cali0");
});

describe("if pods are recognised by interface, a packet of", () => {
  const byInterface = input({ localTraffic: { kind: "interface", pattern: "cni0" } });
  const ROUTES = { ruleset: {}, affinityEntries: [], otherTables: { tables: [], older: { ip: 0, ip6: 0 } } };
  const live: ExplainInput = { ...byInterface, live: { ...ROUTES, interfaceTo: () => "eth0" } };

  test.each([
    ["a pod of this node", "10.244.1.5", byInterface, "cni0"],
    ["a pod of another node", "10.244.2.5", byInterface, ""],
    ["a pod that is routed elsewhere", "10.244.1.5", live, "eth0"],
    ["anybody outside", "198.51.100.9", live, ""],
  ])("%s (%s) comes in by it, by another or by none that is known", (_, fromAddress, of, iifname) => {
    const connection = connectionOf({ to: "10.96.0.10", port: 80, protocol: "tcp", fromAddress }, of);
    expect(packetOf(connection, of).from.iifname).toBe(iifname);
  });
});

describe("a rule in nft-proxy's table that nft-proxy does not understand", () => {
  const foreign = [
    { match: { op: "==", left: { payload: { protocol: "ip", field: "ttl" } }, right: 1 } },
    { drop: null },
  ];

  /** Explains a connection whose kernel has the rule in the chain of each of two endpoints, or in one's. */
  function explainedWith(objectsKnown: boolean) {
    const { state, ...others } = input();
    const { ip: own, ...families } = state.ruleset;
    if (own === undefined) throw new Error("no IPv4 table");
    const balancing = own.chains.get("balance-2");
    if (balancing === undefined) throw new Error("no chain for two endpoints");
    const chains = new Map(own.chains);
    chains.set("balance-2", { ...balancing, rules: [foreign as unknown as Rule, ...balancing.rules] });
    const live = {
      ruleset: { ...families, ip: { ...own, chains } },
      affinityEntries: [],
      otherTables: { tables: [], older: { ip: 0, ip6: 0 } },
      interfaceTo: () => "eth0",
    };
    const followed = { ...others, state, objectsKnown, live };
    const question = { to: "10.96.0.10", port: 80, protocol: "tcp", source: "pod" } as const;
    return explain(connectionOf(question, followed), followed);
  }

  test("makes the outcome not understood, not refused, and no endpoint unreachable", () => {
    const { verdict, endpoints } = explainedWith(true);
    expect(verdict).toMatchObject({ result: "not-understood", cause: "not-programmed" });
    expect(endpoints.map(({ excluded }) => excluded?.reason)).toEqual(["not-understood", "not-understood"]);
  });

  test("is named as the cause where the objects are not known", () => {
    expect(explainedWith(false).verdict).toMatchObject({
      result: "not-understood",
      cause: "not-understood",
      message:
        "the chain balance-2 of nft-proxy's table has a rule that nft-proxy does not make: ip ttl 1 drop",
    });
  });
});

test("an assumed pod does not get the interface of the default route, neither for packets nor for replies", () => {
  const chain = {
    family: "inet",
    table: "fw",
    name: "f",
    type: "filter",
    hook: "forward",
    prio: 0,
    policy: "accept",
  };
  const isNew = { match: { op: "in", left: { ct: { key: "state" } }, right: "new" } };
  const match = { match: { op: "==", left: { meta: { key: "iifname" } }, right: "eth0" } };
  const rule = { family: "inet", table: "fw", chain: "f", handle: 1, expr: [isNew, match, { drop: null }] };
  const established = { match: { op: "in", left: { ct: { key: "state" } }, right: "established" } };
  const answers = { match: { op: "==", left: { meta: { key: "oifname" } }, right: "eth0" } };
  const back = {
    family: "inet",
    table: "fw",
    chain: "f",
    handle: 2,
    expr: [established, answers, { drop: null }],
  };
  const tablesOf = (expr: object) => anyTables(listingOf([{ chain }, { rule: expr }]));
  const results = (podRoute: string, tables = tablesOf(rule)) => {
    const interfaceTo = (address: string) => (address.startsWith("10.244.1.") ? podRoute : "eth0");
    const { state } = input();
    const live = {
      ruleset: state.ruleset,
      affinityEntries: [],
      otherTables: { tables, older: { ip: 0, ip6: 0 } },
      interfaceTo,
    };
    const followed = { ...input(), live };
    const question = { to: "10.96.0.10", port: 80, protocol: "tcp", source: "pod" } as const;
    return [question, { ...question, fromAddress: "10.244.1.5" }].map(
      (one) => explain(connectionOf(one, followed), followed).verdict.result,
    );
  };
  expect(results("eth0")).toEqual(["not-understood", "dropped"]);
  expect(results("eth0", tablesOf(back))).toEqual(["served", "dropped"]);
  expect(results("cni0")).toEqual(["served", "served"]);
});
