import { describe, expect, test } from "vitest";
import type { Family } from "../../../src/base/family.ts";
import type { Rule } from "../../../src/nft/ast/json.ts";
import { ruleText } from "../../../src/nft/text/rule-text.ts";
import { setSpecs } from "../../../src/ruleset/set-specs.ts";
import { staticChains } from "../../../src/ruleset/static-chains.ts";
import { evaluate } from "../../../src/trace/evaluate.ts";
import type { Packet } from "../../../src/trace/packet.ts";
import {
  type ContextOptions,
  familyContext,
  renderAll,
  type ServiceOptions,
  service,
  slice,
  testNodeContext,
} from "../../support/build.ts";

function rules(chain: string, options: ContextOptions = {}, family: Family = "ip") {
  const found = staticChains(familyContext(family, options)).find(({ name }) => name === chain);
  if (found === undefined) throw new Error(`no chain ${chain}`);
  return found.rules;
}

describe("the rules for vanished endpoints", () => {
  const names = (options: ContextOptions = {}) => [
    ...staticChains(familyContext("ip", options)).map(({ name }) => name),
    ...setSpecs(familyContext("ip", options)).map(({ name }) => name),
  ];

  test("are chains and a set with the option alone, and change reject-chain only", () => {
    const added = names({ resetVanished: true }).filter((name) => !names().includes(name as never));
    expect(added).toEqual([
      "filter-prerouting-pre-dnat",
      "filter-output-pre-dnat",
      "vanished-endpoints-check",
      "vanished",
    ]);
    const differing = staticChains(familyContext("ip")).flatMap(({ name, rules: without }) =>
      JSON.stringify(rules(name, { resetVanished: true })) === JSON.stringify(without) ? [] : [name],
    );
    expect(differing).toEqual(["reject-chain"]);
  });

  test("are not made by what Services say alone: the tables have the same bytes", () => {
    const tables = (options: ServiceOptions) =>
      renderAll({ services: [service(options)], slices: [slice({ endpoints: ["10.244.2.11"] })] }).state
        .ruleset;
    expect(tables({ drainTimeoutMs: 1000, onEndpointRemoved: "reset" })).toEqual(tables({}));
  });

  test.each(["ip", "ip6"] as const)(
    "find a connection by the source of its replies, before the translation (%s)",
    (family) => {
      const [rule] = rules("vanished-endpoints-check", { resetVanished: true }, family);
      expect(ruleText(rule as Rule)).toBe(
        `ct direction original meta l4proto tcp ct reply ${family} saddr . ct reply proto-src @vanished counter reject with tcp reset`,
      );
      expect(rules("filter-output-pre-dnat", { resetVanished: true }, family).map(ruleText)).toEqual([
        "ct state established ct status dnat jump vanished-endpoints-check",
      ]);
    },
  );

  test("reset packets amid a connection to a frontend without endpoints, and refuse others", () => {
    expect(rules("reject-chain", { resetVanished: true, refusalLogSize: 0 }).map(ruleText)).toEqual([
      "tcp flags ack counter reject with tcp reset",
      "reject with tcp reset",
      "reject",
    ]);
  });
});

describe.each([true, false])("a packet of a connection (--reset-vanished %s)", (resetVanished) => {
  const ENDPOINT = { address: "10.244.2.11", port: 8080 };
  const SIX = { address: "fd00:244:2::11", port: 8080 };
  const { state } = renderAll(
    {
      services: [service({ clusterIPs: ["10.96.0.10", "fd00:10:96::10"] })],
      slices: [slice({ endpoints: ["10.244.2.12"] }), slice({ endpoints: ["fd00:244:2::12"] })],
    },
    testNodeContext({ resetVanished }),
  );
  state.families.ip?.setKeys("connection-life", new Set([`${ENDPOINT.address} . ${ENDPOINT.port}`]));
  state.families.ip6?.setKeys("connection-life", new Set([`${SIX.address} . ${SIX.port}`]));
  const host = { localAddresses: new Set(["192.0.2.2"]) };
  const outcome = (options: Partial<Packet>) =>
    evaluate(Object.values(state.ruleset), host, {
      from: { address: "10.244.1.11", at: "pod" },
      to: "10.96.0.10",
      port: 80,
      protocol: "tcp",
      conntrack: "established",
      endpoint: ENDPOINT,
      ...options,
    }).map(({ kind, steps }) => [kind, JSON.stringify(steps).includes('"reset":true')]);

  test.each<[string, Partial<Packet>]>([
    ["to a vanished endpoint", {}],
    ["of the node itself", { from: { address: "192.0.2.2", at: "node" } }],
    ["from outside", { from: { address: "192.0.2.200", at: "outside" }, to: "192.0.2.2", port: 30080 }],
    ["by IPv6", { from: { address: "fd00:244:1::11", at: "pod" }, to: "fd00:10:96::10", endpoint: SIX }],
  ])("%s is reset", (_, options) => {
    expect(outcome(options)).toEqual([["refused", true]]);
  });

  test.each<[string, Partial<Packet>]>([
    ["to another endpoint", { endpoint: { address: "10.244.2.12", port: 8080 } }],
    ["to another port of the address", { endpoint: { ...ENDPOINT, port: 8081 } }],
    ["by UDP", { protocol: "udp" }],
  ])("%s passes", (_, options) => {
    expect(outcome(options)).toEqual([["delivered", false]]);
  });

  test("that is new goes to an endpoint that is there", () => {
    const [only] = evaluate(Object.values(state.ruleset), host, {
      from: { address: "10.244.1.11", at: "pod" },
      to: "10.96.0.10",
      port: 80,
      protocol: "tcp",
    });
    expect(only).toMatchObject({ kind: "delivered", to: { address: "10.244.2.12" } });
  });
});
