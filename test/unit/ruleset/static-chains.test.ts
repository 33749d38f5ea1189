import { describe, expect, test } from "vitest";
import type { Family } from "../../../src/base/family.ts";
import type { Statement } from "../../../src/nft/ast/json.ts";
import type { SetSpec } from "../../../src/nft/ast/ruleset.ts";
import type { FamilyContext, LocalTraffic } from "../../../src/ruleset/node-context.ts";
import { setSpecs, sourceRangesSpecs } from "../../../src/ruleset/set-specs.ts";
import { staticChains } from "../../../src/ruleset/static-chains.ts";
import { type ContextOptions, elementsOf, familyContext, renderAll } from "../../support/build.ts";

const NO_PARTS: ReadonlySet<string> = new Set();

function rules(chain: string, options: ContextOptions = {}, family: Family = "ip", parts = NO_PARTS) {
  const found = staticChains(familyContext(family, options), parts).find(({ name }) => name === chain);
  if (found === undefined) throw new Error(`no chain ${chain}`);
  return found.rules;
}

const saddr = { payload: { protocol: "ip", field: "saddr" } };
const daddr = { payload: { protocol: "ip", field: "daddr" } };
const toClusterIP = { match: { op: "==", left: daddr, right: "@cluster-ips" } };
const mark = { meta: { key: "mark" } };
const setMark = { mangle: { key: mark, value: { "|": [mark, 0x4000] } } };
const podRange = { prefix: { addr: "10.244.0.0", len: 16 } };
const fromLocal = {
  match: { op: "==", left: { fib: { flags: ["saddr"], result: "type" } }, right: "local" },
};
const register = { meta: { key: "priority" } };
const toBalancer = { vmap: { key: register, data: "@balancers" } };
const toList = (mask: number) => ({ mangle: { key: register, value: { "&": [register, mask] } } });
const toClusterList = [toList(0xffff_fffc), toBalancer];
const toOwnList = [toList(0xffff_fffd), toBalancer];
const listOf = (address: object, data = "@lists") => ({
  mangle: {
    key: register,
    value: {
      map: {
        key: {
          concat: [address, { meta: { key: "l4proto" } }, { payload: { protocol: "th", field: "dport" } }],
        },
        data,
      },
    },
  },
});
const goto = (target: string) => ({ goto: { target } });
const hasBit = (bit: number) => ({ match: { op: "==", left: { "&": [register, bit] }, right: bit } });

test("the base chains have the hooks and priorities that other software knows of kube-proxy", () => {
  const hooks = staticChains(familyContext("ip6", { resetVanished: true })).flatMap(({ name, base }) =>
    base === undefined ? [] : [`${name}: ${base.type} ${base.hook} ${base.prio} ${base.policy}`],
  );
  expect(hooks).toEqual([
    "filter-prerouting-pre-dnat: filter prerouting -110 accept",
    "filter-output-pre-dnat: filter output -110 accept",
    "filter-input: filter input 0 accept",
    "filter-forward: filter forward 0 accept",
    "filter-output: filter output 0 accept",
    "nat-prerouting: nat prerouting -100 accept",
    "nat-output: nat output -100 accept",
    "nat-postrouting: nat postrouting 100 accept",
  ]);
});

test("chains before the translation, which every packet would pass, are there for resets alone", () => {
  const names = staticChains(familyContext("ip")).map(({ name }) => name);
  expect(names.filter((name) => name.endsWith("-pre-dnat"))).toEqual([]);
});

describe("the way to an endpoint", () => {
  test("begins with the list of the frontend, or of the NodePort", () => {
    expect(rules("services").slice(-2)).toEqual([
      [listOf(daddr), goto("balancing")],
      [
        { match: { op: "==", left: daddr, right: "@nodeport-ips" } },
        listOf({ "&": [daddr, "0.0.0.0"] }),
        goto("balancing"),
      ],
    ]);
  });

  test("is closed to packets that bear the key of a NodePort as their destination", () => {
    expect(rules("services")[0]).toEqual([
      { match: { op: "==", left: daddr, right: "0.0.0.0" } },
      { return: null },
    ]);
    const destination = { payload: { protocol: "ip6", field: "daddr" } };
    const closed = [{ match: { op: "==", left: destination, right: "::" } }, { return: null }];
    expect(rules("services", {}, "ip6")[0]).toEqual(closed);
  });

  test("leads by the bits of the list's id: external ways are masqueraded by a policy of Cluster", () => {
    expect(rules("balancing")).toEqual([[hasBit(2), goto("external")], [toBalancer]]);
    expect(rules("external")).toEqual([
      [hasBit(1), goto("external-local")],
      [setMark, ...toClusterList],
    ]);
  });

  test("leads external ways through the check of source ranges first, while any Service has source ranges", () => {
    const parts = new Set(["sourceRanges", "client-limits"]);
    const [check, limits, ...rest] = rules("external", {}, "ip", parts);
    expect(check).toEqual([
      listOf(daddr, "@source-range-lists"),
      { jump: { target: "source-ranges-check" } },
    ]);
    expect(JSON.stringify(limits)).toContain('"data":"@client-limits"');
    expect(rest).toEqual(rules("external"));
    expect(rules("balancing", {}, "ip", new Set(["sourceRanges"]))).toEqual(rules("balancing"));
    const ofRanges = rules("range-external", {}, "ip", new Set(["sourceRanges", "port-ranges"]));
    expect(ofRanges[0]).toEqual([
      listOf(daddr, "@range-source-range-lists"),
      { jump: { target: "range-source-ranges-check" } },
    ]);
  });
});

describe("pods are told from others", () => {
  test.each<[string, LocalTraffic, object, object]>([
    [
      "by their addresses",
      { kind: "sources", cidrs: ["10.244.0.0/16"] },
      { match: { op: "==", left: saddr, right: podRange } },
      { match: { op: "!=", left: saddr, right: podRange } },
    ],
    [
      "by their bridge",
      { kind: "interface", pattern: "cni0" },
      { match: { op: "==", left: { meta: { key: "iifname" } }, right: "cni0" } },
      { match: { op: "!=", left: { meta: { key: "iifname" } }, right: "cni0" } },
    ],
    [
      "by their interfaces' names",
      { kind: "interface", pattern: "veth*" },
      { match: { op: "==", left: { meta: { key: "iifname" } }, right: "veth*" } },
      { match: { op: "!=", left: { meta: { key: "iifname" } }, right: "veth*" } },
    ],
  ])("%s", (_, localTraffic, fromPods, notFromPods) => {
    expect(rules("services", { localTraffic })[1]).toEqual([notFromPods, toClusterIP, setMark]);
    expect(rules("external-local", { localTraffic })).toEqual([
      [fromPods, ...toClusterList],
      [fromLocal, setMark, ...toClusterList],
      toOwnList,
    ]);
  });

  test("not at all where nothing is known: nothing is masqueraded for its origin, and the node alone is short-cut", () => {
    const localTraffic: LocalTraffic = { kind: "unknown" };
    expect(JSON.stringify(rules("services", { localTraffic }))).not.toContain("cluster-ips");
    expect(rules("external-local", { localTraffic })).toEqual([
      [fromLocal, setMark, ...toClusterList],
      toOwnList,
    ]);
  });

  test.each<LocalTraffic>([{ kind: "unknown" }, { kind: "sources", cidrs: ["10.244.0.0/16"] }])(
    "in no way by masqueradeAll, which masquerades all cluster IP traffic (%o)",
    (localTraffic) => {
      expect(rules("services", { localTraffic, masqueradeAll: true })[1]).toEqual([toClusterIP, setMark]);
    },
  );
});

test("another masquerade bit is set, checked and cleared", () => {
  const chains = JSON.stringify(staticChains(familyContext("ip", { masqueradeMark: 2 })));
  expect(chains).not.toContain("16384");
  expect(chains).toContain('"|":[{"meta":{"key":"mark"}},2]');
  expect(chains).toContain('"&":[{"meta":{"key":"mark"}},2]');
  expect(JSON.stringify(rules("masquerading", { masqueradeMark: 2 }))).toContain(
    '"^":[{"meta":{"key":"mark"}},2]',
  );
});

describe("NodePorts answer", () => {
  const toNodePorts = (options: ContextOptions, family: Family = "ip") =>
    rules("services", options, family).at(-1);
  test("on chosen addresses", () => {
    expect(toNodePorts({})?.[0]).toEqual({ match: { op: "==", left: daddr, right: "@nodeport-ips" } });
  });

  test.each<[Family, object | string]>([
    ["ip", { prefix: { addr: "127.0.0.0", len: 8 } }],
    ["ip6", "::1"],
  ])("on all addresses of the node but loopback (%s)", (family, loopback) => {
    expect(toNodePorts({ nodePorts: { kind: "all" } }, family)?.slice(0, 2)).toEqual([
      { match: { op: "==", left: { fib: { flags: ["daddr"], result: "type" } }, right: "local" } },
      { match: { op: "!=", left: { payload: { protocol: family, field: "daddr" } }, right: loopback } },
    ]);
  });

  test("on the same addresses as their check for endpoints", () => {
    for (const nodePorts of [{ kind: "all" }, { kind: "addresses", addresses: ["192.0.2.2"] }] as const) {
      const check = rules("nodeport-endpoints-check", { nodePorts })[0] ?? [];
      expect(check.slice(0, -1)).toEqual((toNodePorts({ nodePorts }) ?? []).slice(0, -2));
    }
  });
});

test("addresses that no Service has are dropped within the ServiceCIDRs", () => {
  const refusals = [
    [toClusterIP, { reject: { type: "tcp reset" } }],
    [toClusterIP, { reject: null }],
  ];
  const off = { refusalLogSize: 0 };
  expect(rules("cluster-ips-check", { ...off, serviceCIDRs: [] })).toEqual(refusals);
  expect(rules("cluster-ips-check", { ...off, serviceCIDRs: ["10.96.0.0/16", "10.97.0.0/16"] })).toEqual([
    ...refusals,
    [{ match: { op: "==", left: daddr, right: { prefix: { addr: "10.96.0.0", len: 15 } } } }, { drop: null }],
  ]);
});

describe("refused packets", () => {
  const CHAINS = ["reject-chain", "drop-chain", "cluster-ips-check"];

  test.each(CHAINS)(
    "are recorded by a rule before each rule of %s that refuses, and by no other",
    (chain) => {
      const isReset = (statement: Statement) => "reject" in statement && statement.reject !== null;
      // What is not TCP continues with the next rule.
      const all = rules(chain, { serviceCIDRs: ["10.96.0.0/16"] }).filter((rule) => !rule.some(isReset));
      for (const [index, rule] of all.entries()) {
        const refuses = rule.some((statement) => "reject" in statement || "drop" in statement);
        expect(refuses).toBe(index % 2 === 1);
        expect(rule.some((statement) => "set" in statement)).toBe(index % 2 === 0);
        // A record for all that is refused, and for nothing else.
        if (refuses) expect(all[index - 1]?.slice(0, rule.length - 1)).toEqual(rule.slice(0, -1));
      }
    },
  );

  test("are not recorded with a log size of 0", () => {
    for (const chain of CHAINS)
      expect(JSON.stringify(rules(chain, { refusalLogSize: 0 }))).not.toContain("@refused");
    expect(setSpecs(familyContext("ip", { refusalLogSize: 0 })).map(({ name }) => name)).not.toContain(
      "refused",
    );
  });
});

test("input, forward and output look at new connections alone, reset our priorities and no others, and accept what was translated", () => {
  const notNew = [{ match: { op: "!=", left: { ct: { key: "state" } }, right: "new" } }, { accept: null }];
  const reset = [
    { match: { op: ">=", left: register, right: 0x8000_0000 } },
    { mangle: { key: register, value: 0 } },
  ];
  const translated = [
    { match: { op: "in", left: { ct: { key: "status" } }, right: "dnat" } },
    { accept: null },
  ];
  for (const family of ["ip", "ip6"] as const) {
    for (const chain of ["filter-input", "filter-forward", "filter-output"]) {
      expect(rules(chain, {}, family).slice(0, 3)).toEqual([notNew, reset, translated]);
    }
  }
});

test("a family has 13 sets and maps, whatever its Services are, one of them for the protocols with ports", () => {
  for (const family of ["ip", "ip6"] as const) expect(setSpecs(familyContext(family))).toHaveLength(13);
  const protocols = setSpecs(familyContext("ip")).find(({ name }) => name === "port-protocols");
  expect(protocols).toEqual({ name: "port-protocols", key: ["inet_proto"], dynamic: false, counter: false });
  expect(elementsOf(renderAll({}), "port-protocols", "ip6").sort()).toEqual(["sctp", "tcp", "udp"]);
});

test("no rule has a set of protocols of its own: each would be another set of the table", () => {
  const context = familyContext("ip", {
    resetVanished: true,
    settings: { answerPing: true, fastPath: true },
  });
  const text = JSON.stringify(staticChains(context, new Set(PARTS)));
  expect(text).toContain('"left":{"meta":{"key":"l4proto"}},"right":"@port-protocols"');
  expect(text).not.toMatch(/"sctp"/);
});

interface Part {
  readonly specs: (context: FamilyContext) => readonly SetSpec[];
}

/** The parts of the table, and those of features. */
const ALL_PARTS: Readonly<Record<string, Part>> = {
  sourceRanges: { specs: sourceRangesSpecs },
  ...Object.fromEntries(
    familyContext("ip", { refusalLogSize: 0 }).features.map(({ name, specs }) => [name, { specs }]),
  ),
};
const PARTS = Object.keys(ALL_PARTS);

describe("the parts that a table has only while Services need them", () => {
  /** All combinations of parts. */
  const combinations = Array.from(
    { length: 1 << PARTS.length },
    (_, bits) => new Set(PARTS.filter((_part, index) => bits & (1 << index))),
  );
  const context = familyContext("ip", { settings: { answerPing: true } });

  test("in any combination have all chains and sets that rules refer to", () => {
    for (const parts of combinations) {
      const chains = staticChains(context, parts);
      const known = new Set(chains.map(({ name }) => name as string));
      const sets = [
        ...setSpecs(context),
        ...[...parts].flatMap((part) => ALL_PARTS[part]?.specs?.(context) ?? []),
      ];
      const names = new Set(sets.map(({ name }) => name as string));
      expect(names.size).toBe(sets.length);
      const text = JSON.stringify(chains);
      const found = (pattern: RegExp) => Array.from(text.matchAll(pattern), ([, name = ""]) => name);
      const targets = found(/"target":"([^"]+)"/g).filter((name) => !known.has(name));
      const looked = found(/"@([^"]+)"/g).filter((name) => !names.has(name));
      expect([[...parts], targets, looked]).toEqual([[...parts], [], []]);
    }
  });

  test("for source ranges are a set of all lists without intervals, and a map from frontends to their numbers", () => {
    const describeSets = (answerPing: boolean) =>
      sourceRangesSpecs(familyContext("ip", { settings: { answerPing } })).map(
        ({ name, key, value, interval }) => [name, key.join(" . "), value, interval],
      );
    const always = [
      ["source-ranges", "ipv4_addr . classid . integer", undefined, undefined],
      ["source-range-lists", "ipv4_addr . inet_proto . inet_service", ["classid"], undefined],
    ];
    expect(describeSets(false)).toEqual(always);
    expect(describeSets(true)).toEqual([
      ...always,
      ["ping-source-range-lists", "ipv4_addr . integer", ["classid"], undefined],
    ]);
  });
});

test("only the affinity map and the refusals are filled by packets, and have the configured sizes", () => {
  const dynamic = setSpecs(familyContext("ip6", { affinityMapSize: 7, refusalLogSize: 8 })).filter(
    ({ dynamic }) => dynamic,
  );
  expect(dynamic.map(({ name, size, key }) => [name, size, key[0]])).toEqual([
    ["refused", 8, "ipv6_addr"],
    ["affinity-clients", 7, "classid"],
  ]);
});
