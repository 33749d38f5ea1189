import { expect, test } from "vitest";
import { explain } from "../../../src/inspect/explain/explain.ts";
import { type ExplainInput, hostOf } from "../../../src/inspect/explain/explain-input.ts";
import { connectionOf, type Question } from "../../../src/inspect/explain/packet.ts";
import { familyOf } from "../../../src/model/ip.ts";
import { ECHO_PROTOCOLS } from "../../../src/nft/ast/expression.ts";
import {
  type ContextOptions,
  cacheOf,
  renderAll,
  service,
  slice,
  testNodeContext,
} from "../../support/build.ts";
import { schemaErrors } from "../../support/output-schema.ts";

const OBJECTS = {
  services: [
    service({
      name: "shop/cart",
      clusterIPs: ["10.96.0.7", "fd00:10:96::7"],
      loadBalancerIPs: ["203.0.113.7"],
    }),
    service({ name: "shop/empty", clusterIPs: ["10.96.0.8"] }),
    service({
      name: "shop/fenced",
      clusterIPs: ["10.96.0.9"],
      loadBalancerIPs: ["203.0.113.9"],
      sourceRanges: ["198.51.100.0/24"],
    }),
    service({
      name: "shop/local",
      clusterIPs: ["10.96.0.6"],
      externalIPs: ["203.0.113.6"],
      external: "Local",
    }),
  ],
  slices: ["cart", "fenced", "local"].map((name) =>
    slice({ service: `shop/${name}`, endpoints: ["10.244.2.11"] }),
  ),
};

function explained(to: string, context: ContextOptions = {}, from: Partial<Question> = {}) {
  const nodeContext = testNodeContext({ settings: { answerPing: true }, ...context });
  const input: ExplainInput = {
    cache: cacheOf(OBJECTS),
    nodeContext,
    state: renderAll(OBJECTS, nodeContext).state,
    ignored: [],
    objectsKnown: true,
    loadBalancers: [],
    host: hostOf(nodeContext, ["192.0.2.2"]),
  };
  const question = { ...from, to, port: 0, protocol: ECHO_PROTOCOLS[familyOf(to)] };
  const explanation = explain(connectionOf(question, input), input);
  expect(schemaErrors("explain", { explanations: [JSON.parse(JSON.stringify(explanation))] })).toEqual([]);
  expect([explanation.endpoints, explanation.notes]).toEqual([[], []]);
  return explanation.verdict;
}

function verdictOf(...asked: Parameters<typeof explained>) {
  const { result, cause, message } = explained(...asked);
  return `${result}, ${cause}: ${message}`;
}

const FROM_OUTSIDE = { source: "outside", fromAddress: "198.51.100.7" } as const;

test.each<[string, Parameters<typeof verdictOf>, string]>([
  [
    "an address of a Service with endpoints is answered",
    ["203.0.113.7"],
    "served, served: this node answers with the address 203.0.113.7, because Service shop/cart has endpoints",
  ],
  [
    "a Service without endpoints is refused",
    ["10.96.0.8"],
    "refused, no-endpoints: 10.96.0.8 answers only clients that one of its ports serves, and Service shop/empty has no endpoints: there is no IPv4 EndpointSlice for it",
  ],
  [
    "an IPv6 address of a Service with IPv4 endpoints is refused",
    ["fd00:10:96::7"],
    "refused, no-endpoints: fd00:10:96::7 answers only clients that one of its ports serves, and Service shop/cart has no endpoints: there is no IPv6 EndpointSlice for it",
  ],
  [
    "a client within source ranges is answered",
    ["203.0.113.9", {}, FROM_OUTSIDE],
    "served, served: this node answers with the address 203.0.113.9, because Service shop/fenced has endpoints",
  ],
  [
    "a client outside of source ranges is not handled",
    ["203.0.113.9"],
    "not-handled, source-ranges: 203.0.113.9 answers only clients that one of its ports serves, and 192.0.2.1 is in none of the loadBalancerSourceRanges of Service shop/fenced (198.51.100.0/24)",
  ],
  [
    "Local policy without a local endpoint is not handled from outside",
    ["203.0.113.6"],
    "not-handled, no-local-endpoints: 203.0.113.6 answers only clients that one of its ports serves, and externalTrafficPolicy of Service shop/local is Local, but no ready endpoint of its port 80/tcp runs on this node, node-1; they run on an unknown node",
  ],
  [
    "Local policy without a local endpoint answers pods",
    ["203.0.113.6", {}, { source: "pod" }],
    "served, served: this node answers with the address 203.0.113.6, because Service shop/local has endpoints",
  ],
  [
    "without the option, the cause is the option",
    ["10.96.0.7", { settings: { answerPing: false } }],
    "refused, no-pings: 10.96.0.7 belongs to Service shop/cart, but this node does not answer pings to Services (--answer-ping is off)",
  ],
  [
    "without an address of the node, the cause is the address",
    ["10.96.0.7", { nodeAddress: "" }],
    "refused, no-pings: 10.96.0.7 belongs to Service shop/cart, but this node has no IPv4 address of its own to answer with",
  ],
  [
    "the node's own address is not handled",
    ["192.0.2.2"],
    "not-handled, not-a-service: 192.0.2.2 is an address of this node, which answers pings without nft-proxy",
  ],
  [
    "an address without a Service is not handled",
    ["8.8.8.8"],
    "not-handled, not-a-service: 8.8.8.8 belongs to no Service",
  ],
  [
    "an address of a ServiceCIDR without a Service is dropped",
    ["10.96.9.9"],
    "dropped, unallocated-address: no Service has the address 10.96.9.9, which is in ServiceCIDR 10.96.0.0/16",
  ],
])("explain of a ping: %s", (_, asked, verdict) => {
  expect(verdictOf(...asked)).toBe(verdict);
});

test.each([
  ["8.8.8.8", "add its port: 8.8.8.8:PORT"],
  ["2001:db8::80", "add its port: [2001:db8::80]:PORT"],
  ["2001:db8::7:80", "add its port: [2001:db8::7:80]:PORT"],
  ["fd00:10:96::7:80", "port 80 of fd00:10:96::7 is written [fd00:10:96::7]:80"],
])("explain of a ping to %s, which no Service has, says how to name a port", (to, form) => {
  expect(explained(to).action).toBe(
    `the machine that has it answers pings, if any does; to explain a connection, ${form}`,
  );
});
