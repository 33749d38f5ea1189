import { describe, expect, test } from "vitest";
import { balancerChain } from "../../../src/ruleset/balancers.ts";
import { type Balancer, balancerName } from "../../../src/ruleset/chain-names.ts";

const plain: Balancer = { scheduler: "random", slots: false, count: 3, affinitySeconds: 0, local: false };

test.each<[string, Partial<Balancer>]>([
  ["balance-3", {}],
  ["affinity-3-600", { affinitySeconds: 600 }],
  ["affinity-local-3-600", { affinitySeconds: 600, local: true }],
  ["affinity-both-3-600", { affinitySeconds: 600, both: true }],
  ["affinity-both-local-3-600", { affinitySeconds: 600, both: true, local: true }],
  ["slots-251", { slots: true, count: 251 }],
  ["round-robin-3", { scheduler: "round-robin" }],
  ["round-robin-slots-251", { scheduler: "round-robin", slots: true, count: 251 }],
  ["source-hash-251", { scheduler: "source-hash", slots: true, count: 251 }],
  ["flow-hash-251", { scheduler: "flow-hash", slots: true, count: 251 }],
  ["affinity-slots-251-60", { slots: true, count: 251, affinitySeconds: 60 }],
  ["affinity-source-hash-251-60", { scheduler: "source-hash", slots: true, count: 251, affinitySeconds: 60 }],
  ["affinity-local-round-robin-3-60", { scheduler: "round-robin", affinitySeconds: 60, local: true }],
])("the chain name %s tells all that the balancer depends on", (name, options) => {
  expect(balancerName({ ...plain, ...options })).toBe(name);
  expect(balancerChain("ip", { ...plain, ...options }).name).toBe(name);
});

const REGISTER = { meta: { key: "priority" } };
const SERVICE_PORT = { "&": [REGISTER, 0xffff_c000] };
const TRANSPORT = {
  match: { op: "==", left: { meta: { key: "l4proto" } }, right: { set: ["sctp", "tcp", "udp"] } },
};
const numgen = (mode: string, mod: number, offset = 0) => ({ numgen: { mode, mod, offset } });
const toEndpoint = (number: object) => ({
  dnat: { family: "ip", addr: { map: { key: { concat: [REGISTER, number] }, data: "@endpoints" } } },
});

describe("a balancer's chain", () => {
  test.each<[string, Partial<Balancer>, object]>([
    ["draws a number at random", {}, numgen("random", 3)],
    ["takes numbers in turn for round-robin", { scheduler: "round-robin" }, numgen("inc", 3)],
    [
      "hashes the client's address for source-hash",
      { scheduler: "source-hash", slots: true, count: 251 },
      {
        jhash: {
          mod: 251,
          seed: 0x6e667470,
          offset: 0,
          expr: { payload: { protocol: "ip", field: "saddr" } },
        },
      },
    ],
    [
      "hashes addresses and ports, as bits of the packet, for flow-hash",
      { scheduler: "flow-hash", slots: true, count: 251 },
      {
        jhash: {
          mod: 251,
          seed: 0x6e667470,
          offset: 0,
          expr: { payload: { base: "nh", offset: 96, len: 96 } },
        },
      },
    ],
  ])(
    "without affinity %s and goes to the endpoint that has it, or else to the first",
    (_, options, number) => {
      expect(balancerChain("ip", { ...plain, ...options }).rules).toEqual([
        [TRANSPORT, toEndpoint(number)],
        [TRANSPORT, toEndpoint(numgen("random", 1))],
      ]);
    },
  );

  test("for one endpoint is one rule", () => {
    expect(balancerChain("ip", { ...plain, count: 1 }).rules).toEqual([
      [TRANSPORT, toEndpoint(numgen("random", 1))],
    ]);
  });

  test("hashes longer addresses for flow-hash in IPv6", () => {
    const text = JSON.stringify(
      balancerChain("ip6", { ...plain, scheduler: "flow-hash", slots: true, count: 251 }),
    );
    expect(text).toContain('{"payload":{"base":"nh","offset":64,"len":288}}');
  });

  test("with affinity keeps a client, else forgets, draws and remembers, and needs no room in the map at last", () => {
    const client = { concat: [SERVICE_PORT, { payload: { protocol: "ip", field: "saddr" } }] };
    const remember = {
      map: {
        op: "update",
        elem: { elem: { val: client, timeout: 60 } },
        data: REGISTER,
        map: "@affinity-clients",
      },
    };
    const assign = (key: object, map: string) => ({
      mangle: { key: REGISTER, value: { map: { key, data: map } } },
    });
    const drawn = { concat: [SERVICE_PORT, numgen("random", 3)] };
    const endpoint = toEndpoint(numgen("random", 1));
    expect(balancerChain("ip", { ...plain, affinitySeconds: 60 }).rules).toEqual([
      [TRANSPORT, assign(client, "@affinity-clients"), remember, endpoint],
      [{ map: { op: "delete", elem: client, data: 0, map: "@affinity-clients" } }],
      [TRANSPORT, assign(drawn, "@affinity-ids"), remember, endpoint],
      [TRANSPORT, endpoint],
      [TRANSPORT, assign({ concat: [SERVICE_PORT, numgen("random", 1)] }, "@affinity-ids"), endpoint],
    ]);
  });

  test.each([
    ["of the cluster", false, "cluster", "local"],
    ["of the node", true, "local", "cluster"],
  ] as const)(
    "of a list %s, where there is another, begins with a client's endpoint there and writes its own entry",
    (_, local, own, other) => {
      const source = { payload: { protocol: "ip", field: "saddr" } };
      const clients = {
        cluster: { concat: [SERVICE_PORT, source] },
        local: { concat: [{ "|": [{ "&": [REGISTER, 0xffff_c001] }, 1] }, source] },
      };
      const { rules } = balancerChain("ip", { ...plain, affinitySeconds: 60, local, both: true });
      const uses = rules.map((rule) =>
        rule.flatMap((statement) => {
          if ("map" in statement) return [`${statement.map.op} ${nameOf(statement.map.elem)}`];
          const text = JSON.stringify(statement);
          return text.includes("@affinity-clients")
            ? [`find ${nameOf(statement)}`]
            : text.includes("dnat")
              ? ["go"]
              : [];
        }),
      );
      function nameOf(part: unknown): string {
        return JSON.stringify(part).includes(JSON.stringify(clients.local)) ? "local" : "cluster";
      }
      expect(uses).toEqual([
        [`find ${own}`, `update ${own}`, "go"],
        [`delete ${own}`],
        [`find ${other}`, `update ${own}`, "go"],
        ["go"],
        [`delete ${own}`],
        [`update ${own}`, "go"],
        ["go"],
        ["go"],
      ]);
    },
  );

  test("with affinity over the node's own endpoints has numbers and members apart from those of the cluster", () => {
    const text = JSON.stringify(balancerChain("ip", { ...plain, affinitySeconds: 60, local: true }));
    expect(new Set(text.match(/"mod":\d+,"offset":\d+/g))).toEqual(
      new Set(['"mod":3,"offset":65536', '"mod":1,"offset":65536', '"mod":1,"offset":1']),
    );
  });
});
