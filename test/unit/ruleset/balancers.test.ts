import { describe, expect, test } from "vitest";
import { balancerChain } from "../../../src/ruleset/balancers.ts";
import { type Balancer, balancerName } from "../../../src/ruleset/chain-names.ts";

const plain: Balancer = {
  ...{ kind: "service", shortcut: false, count: 3, affinitySeconds: 0 },
  ...{ scheduler: "random", slots: false },
};

test.each<[string, Partial<Balancer>]>([
  ["balance-3", {}],
  ["balance-cluster-3", { shortcut: true }],
  ["affinity-3-600", { affinitySeconds: 600 }],
  ["affinity-cluster-3-600", { affinitySeconds: 600, shortcut: true }],
  ["slots-251", { slots: true, count: 251 }],
  ["round-robin-3", { scheduler: "round-robin" }],
  ["round-robin-slots-cluster-251", { scheduler: "round-robin", slots: true, shortcut: true, count: 251 }],
  ["source-hash-251", { scheduler: "source-hash", slots: true, count: 251 }],
  ["nodeport-flow-hash-251", { scheduler: "flow-hash", slots: true, count: 251, kind: "nodeport" }],
  ["affinity-slots-251-60", { slots: true, count: 251, affinitySeconds: 60 }],
  ["affinity-source-hash-251-60", { scheduler: "source-hash", slots: true, count: 251, affinitySeconds: 60 }],
  ["nodeport-balance-3", { kind: "nodeport" }],
  ["nodeport-balance-cluster-3", { kind: "nodeport", shortcut: true }],
  ["nodeport-affinity-3-600", { kind: "nodeport", affinitySeconds: 600 }],
  ["nodeport-affinity-cluster-3-600", { kind: "nodeport", affinitySeconds: 600, shortcut: true }],
])("the chain name %s tells all that the balancer depends on", (name, options) => {
  expect(balancerName({ ...plain, ...options })).toBe(name);
  expect(balancerChain("ip", { ...plain, ...options }).name).toBe(name);
});

describe("a balancer's chain", () => {
  test("without affinity is one rule: draw a number, and go to the endpoint that has it", () => {
    const frontend = [
      { payload: { protocol: "ip", field: "daddr" } },
      { meta: { key: "l4proto" } },
      { payload: { protocol: "th", field: "dport" } },
    ];
    const register = { meta: { key: "priority" } };
    expect(balancerChain("ip", plain).rules).toEqual([
      [
        { mangle: { key: register, value: { numgen: { mode: "random", mod: 3, offset: 0x8000_0000 } } } },
        { dnat: { family: "ip", addr: { map: { key: { concat: [...frontend, register] }, data: "@endpoints" } } } },
      ],
    ]);
  });

  test.each<[string, Partial<Balancer>, object]>([
    [
      "takes numbers in turn for round-robin",
      { scheduler: "round-robin" },
      { numgen: { mode: "inc", mod: 3, offset: 0x8000_0000 } },
    ],
    [
      "hashes the client's address for source-hash",
      { scheduler: "source-hash", slots: true, count: 251, shortcut: true },
      {
        jhash: {
          mod: 251,
          seed: 0x6e667470,
          offset: 0x8001_0000,
          expr: { payload: { protocol: "ip", field: "saddr" } },
        },
      },
    ],
  ])("%s", (_, options, value) => {
    const [rule] = balancerChain("ip", { ...plain, ...options }).rules;
    expect(rule?.[0]).toEqual({ mangle: { key: { meta: { key: "priority" } }, value } });
  });

  test("hashes a flow's addresses and ports for flow-hash", () => {
    const text = JSON.stringify(balancerChain("ip6", { ...plain, scheduler: "flow-hash", slots: true, count: 251 }));
    expect(text.match(/"(?:saddr|daddr|sport)"/g)).toEqual(['"saddr"', '"daddr"', '"sport"', '"daddr"']);
  });

  test("of NodePorts looks up the port alone, in the maps of NodePorts", () => {
    const text = JSON.stringify(balancerChain("ip6", { ...plain, kind: "nodeport", affinitySeconds: 60 }));
    expect(text).not.toContain("daddr");
    expect(new Set(text.match(/@[a-z-]+/g))).toEqual(
      new Set(["@nodeport-endpoints", "@nodeport-affinity", "@nodeport-affinity-ids"]),
    );
  });

  test("of the cluster-wide list draws its numbers above those of the local list", () => {
    expect(JSON.stringify(balancerChain("ip", { ...plain, shortcut: true }))).toContain('"mod":3,"offset":2147549184');
  });

  test("with affinity stores a client for as long as the Service says", () => {
    const chain = balancerChain("ip", { ...plain, affinitySeconds: 10800 });
    const timeouts = JSON.stringify(chain).match(/"timeout":\d+/g);
    expect(timeouts).toEqual(['"timeout":10800', '"timeout":10800']);
  });

  test("with affinity ends in a rule that needs no room in the map", () => {
    const last = balancerChain("ip", { ...plain, affinitySeconds: 60 }).rules.at(-1);
    expect(JSON.stringify(last)).not.toContain('@affinity"');
    expect(last?.at(-1)).toHaveProperty("dnat");
  });
});
