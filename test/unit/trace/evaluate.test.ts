import { describe, expect, test } from "vitest";
import type { Command, Rule, Statement } from "../../../src/nft/ast/json.ts";
import type { Table } from "../../../src/nft/ast/ruleset.ts";
import { type DynamicEntry, evaluate } from "../../../src/trace/evaluate.ts";
import { summarize } from "../../../src/trace/outcome.ts";
import type { Host, Packet } from "../../../src/trace/packet.ts";
import { applyTransaction } from "../../support/apply-transaction.ts";

const at = { family: "ip", table: "nft-proxy" } as const;
const host: Host = { localAddresses: new Set(["192.0.2.2"]) };
const packet = (over: Partial<Packet> = {}): Packet => ({
  from: { address: "10.244.1.11", at: "pod", iifname: "veth1" },
  to: "10.96.0.1",
  port: 80,
  protocol: "tcp",
  ...over,
});

const daddr = { payload: { protocol: "ip", field: "daddr" } };
const saddr = { payload: { protocol: "ip", field: "saddr" } };
const priority = { meta: { key: "priority" } };
const mark = { meta: { key: "mark" } };
const goTo = (target: string): Statement => ({ goto: { target } });
const jump = (target: string): Statement => ({ jump: { target } });
const status = (...bits: string[]) => ({ "&": [{ ct: { key: "status" } }, { "|": bits }] });
const is = (left: object, right: unknown, op = "==") => ({ match: { op, left, right } }) as Statement;
const set = (key: object, value: unknown) => ({ mangle: { key, value } }) as Statement;
const to = (address: string): Statement => ({ dnat: { family: "ip", addr: address } });
const drop: Statement = { drop: null };
const accept: Statement = { accept: null };
const back: Statement = { return: null };

interface Parts {
  readonly hooks?: Readonly<Record<string, object>>;
  readonly sets?: readonly object[];
  readonly chains: Readonly<Record<string, readonly Rule[]>>;
}

/** A table of the family ip; chains named in `hooks` are base chains. */
function tables({ hooks = {}, sets = [], chains }: Parts): readonly Table[] {
  const declared = Object.keys(chains).map((name) => ({ add: { chain: { ...at, name, ...hooks[name] } } }));
  const filled = Object.entries(chains).flatMap(([chain, rules]) =>
    rules.map((expr) => ({ add: { rule: { ...at, chain, expr } } })),
  );
  const nftables = [{ add: { table: { family: "ip", name: "nft-proxy" } } }, ...sets, ...declared, ...filled];
  return Object.values(applyTransaction({}, { nftables: nftables as Command[] }));
}

const filter = (hook: string, prio = 0, policy = "accept") => ({ type: "filter", hook, prio, policy });
const nat = (hook: string, prio = -100) => ({ type: "nat", hook, prio, policy: "accept" });

/** Where a packet ends when `chains` are walked from `base`, a filter chain of the prerouting hook. */
function kind(chains: Parts["chains"], policy = "accept"): string | undefined {
  return evaluate(tables({ hooks: { base: filter("prerouting", 0, policy) }, chains }), host, packet())[0]
    ?.kind;
}

describe("chains", () => {
  test.each([
    ["a jump comes back", { base: [[jump("a")], [drop]], a: [] }, "dropped"],
    ["a goto does not come back", { base: [[goTo("a")], [drop]], a: [] }, "delivered"],
    [
      "a goto comes back to the chain that jumped",
      { base: [[jump("a")], [drop]], a: [[goTo("b")], [accept]], b: [] },
      "dropped",
    ],
    ["a return leaves the chain", { base: [[jump("a")], [accept]], a: [[back], [drop]] }, "delivered"],
    ["a return leaves a base chain", { base: [[back], [drop]] }, "delivered"],
    ["an accept ends the base chain", { base: [[jump("a")], [drop]], a: [[accept]] }, "delivered"],
    ["a reject refuses", { base: [[jump("a")]], a: [[{ reject: null } as Statement]] }, "refused"],
    ["a failed match ends its rule only", { base: [[is(daddr, "10.0.0.1"), accept], [drop]] }, "dropped"],
  ])("%s", (_, chains, outcome) => {
    expect(kind(chains as Parts["chains"])).toBe(outcome);
  });

  test("the policy decides at the end of a base chain", () => {
    expect(kind({ base: [[back]] }, "drop")).toBe("dropped");
    expect(kind({ base: [[accept]] }, "drop")).toBe("delivered");
  });

  test("an accept does not skip the hook's next base chain", () => {
    const hooks = { late: filter("prerouting", 5), early: filter("prerouting", -5) };
    const outcomes = evaluate(
      tables({ hooks, chains: { late: [[drop]], early: [[accept]] } }),
      host,
      packet(),
    );
    expect(outcomes.map((outcome) => outcome.kind)).toEqual(["dropped"]);
  });
});

describe("comparisons", () => {
  const prefix = (addr: string, len: number) => ({ prefix: { addr, len } });
  const rows: readonly (readonly [what: string, statement: Statement, holds: boolean])[] = [
    ["a prefix", is(daddr, prefix("10.96.0.0", 12)), true],
    ["another prefix", is(daddr, prefix("10.112.0.0", 12)), false],
    ["a denied prefix", is(daddr, prefix("10.96.0.0", 12), "!="), false],
    ["a range's first", is(daddr, { range: ["10.96.0.1", "10.96.0.2"] }), true],
    ["a range that ends before the address", is(daddr, { range: ["10.95.0.0", "10.96.0.0"] }), false],
    ["an anonymous set", is(daddr, { set: ["10.0.0.1", prefix("10.96.0.0", 24)] }), true],
    ["outside an anonymous set", is(saddr, { set: ["10.0.0.1", prefix("10.96.0.0", 24)] }, "!="), true],
    ["an interface", is({ meta: { key: "iifname" } }, "veth1"), true],
    ["an interface wildcard", is({ meta: { key: "iifname" } }, "veth*"), true],
    ["another wildcard", is({ meta: { key: "iifname" } }, "cali*"), false],
    ["a set of interfaces", is({ meta: { key: "iifname" } }, { set: ["cni0", "ve*"] }), true],
    ["a protocol", is({ meta: { key: "l4proto" } }, { set: ["tcp", "udp"] }), true],
    ["a port range", is({ payload: { protocol: "th", field: "dport" } }, { range: [80, 90] }), true],
    ["another protocol's port", is({ payload: { protocol: "udp", field: "dport" } }, 80), false],
    ["a new connection", is({ ct: { key: "state" } }, "new"), true],
    ["an established connection", is({ ct: { key: "state" } }, "established"), false],
    ["a translated connection", is({ ct: { key: "status" } }, "dnat"), false],
    ["no bit of the status", is(status("assured", "dnat"), 0), true],
    ["one of two bits of the status", is(status("assured", "dnat"), "dnat"), false],
    ["a mark's bit", is({ "&": [mark, 16384] }, 0, "!="), false],
    ["an address of the node", is({ fib: { flags: ["daddr"], result: "type" } }, "local"), false],
  ];
  test.each(rows.map(([what, ...row]) => [what, row[1] ? "matches" : "does not match", row] as const))(
    "%s: %s",
    (_what, _matches, [statement, holds]) => {
      expect(kind({ base: [[statement, drop]] })).toBe(holds ? "dropped" : "delivered");
    },
  );

  test("marks are unsigned, and set bit by bit", () => {
    const bit = 0x80000000;
    const on = set(mark, { "|": [mark, bit] });
    expect(kind({ base: [[on], [is({ "&": [mark, bit] }, bit), drop]] })).toBe("dropped");
    expect(kind({ base: [[on], [set(mark, { "^": [mark, bit] })], [is(mark, 0), drop]] })).toBe("dropped");
  });
});

describe("route through the hooks", () => {
  const visited = (rules: readonly Table[], sent: Packet): string[] =>
    (evaluate(rules, host, sent)[0]?.steps ?? []).flatMap((step) =>
      step.kind === "hook" ? [step.hook] : [],
    );
  const translating = tables({
    hooks: { pre: nat("prerouting"), out: nat("output") },
    chains: { pre: [[is(daddr, "10.96.0.1"), to("192.0.2.2")]], out: [[to("192.0.2.2")]] },
  });
  const node = { from: { address: "192.0.2.2", at: "node" } } as const;

  test("a packet to another address is forwarded", () => {
    expect(visited([], packet())).toEqual(["prerouting", "forward", "postrouting"]);
  });

  test("a packet translated to the node's address goes to input", () => {
    expect(visited(translating, packet())).toEqual(["prerouting", "input"]);
  });

  test("a packet of the node goes through output", () => {
    expect(visited([], packet(node))).toEqual(["output", "postrouting"]);
  });

  test("a packet of the node to itself returns over loopback, without nat chains", () => {
    expect(visited(translating, packet(node))).toEqual(["output", "postrouting", "prerouting", "input"]);
    expect(summarize(evaluate(translating, host, packet(node))).destinations).toEqual([
      { address: "192.0.2.2", port: 80, probability: 1, source: "kept", translated: true },
    ]);
  });

  test("a packet from outside to a loopback address is dropped", () => {
    expect(evaluate([], host, packet({ to: "127.0.0.1" })).map((outcome) => outcome.kind)).toEqual([
      "dropped",
    ]);
  });

  test("an established connection passes no nat chains", () => {
    const [outcome] = evaluate(translating, host, packet({ conntrack: "established" }));
    expect(outcome).toMatchObject({ kind: "delivered", to: { address: "10.96.0.1" }, translated: false });
  });

  test("an established connection with a known endpoint is translated at the place of the nat chains", () => {
    const endpoint = { address: "10.244.2.11", port: 8080 };
    const known = packet({ conntrack: "established", endpoint });
    expect(evaluate(translating, host, known)).toMatchObject([{ to: endpoint, translated: true }]);
    const toEndpoint = is({ payload: { protocol: "ip", field: "daddr" } }, endpoint.address);
    const replies = is({ ct: { key: "ip saddr", dir: "reply" } }, endpoint.address);
    const isAssured = is(status("assured", "dnat"), { "|": ["assured", "dnat"] });
    const at = (prio: number, match: Statement) =>
      evaluate(
        tables({ hooks: { pre: filter("prerouting", prio) }, chains: { pre: [[match, drop]] } }),
        host,
        known,
      )[0]?.kind;
    expect(at(-110, replies)).toBe("dropped");
    expect(at(-110, toEndpoint)).toBe("delivered");
    expect(at(0, isAssured)).toBe("dropped");
  });

  test("a dnat ends its chain, and the hook's later nat chains", () => {
    const hooks = { first: nat("prerouting", -100), second: nat("prerouting", -90) };
    const chains = { first: [[to("10.0.0.1")], [to("10.0.0.2")]], second: [[to("10.0.0.3")]] };
    expect(evaluate(tables({ hooks, chains }), host, packet())).toMatchObject([
      { to: { address: "10.0.0.1" } },
    ]);
  });

  test("a dnat to the original destination ends its chain, and does not count as a translation", () => {
    const hooks = { pre: nat("prerouting"), forward: filter("forward") };
    const isTranslated = { match: { op: "in", left: { ct: { key: "status" } }, right: "dnat" } } as const;
    const to96 = tables({
      hooks,
      chains: { pre: [[to("10.96.0.1")], [drop]], forward: [[isTranslated, drop]] },
    });
    expect(evaluate(to96, host, packet())).toMatchObject([{ kind: "delivered", translated: false }]);
    expect(evaluate(to96, host, packet({ to: "10.96.0.2" }))).toMatchObject([{ kind: "dropped" }]);
  });

  test("forwarding clears the priority of IPv4 packets, sending does not", () => {
    const hooks = { pre: filter("prerouting"), out: filter("output") };
    const rules = tables({ hooks, chains: { pre: [[set(priority, 7)]], out: [[set(priority, 7)]] } });
    expect(evaluate(rules, host, packet())).toMatchObject([{ priority: 0 }]);
    expect(evaluate(rules, host, packet(node))).toMatchObject([{ priority: 7 }]);
  });
});

const balance = set(priority, { numgen: { mode: "random", mod: 4, offset: 8 } });
const endpoints = (count: number): object[] => [
  {
    add: {
      map: { ...at, name: "endpoints", type: ["ipv4_addr", "classid"], map: ["ipv4_addr", "inet_service"] },
    },
  },
  {
    add: {
      element: {
        ...at,
        name: "endpoints",
        elem: Array.from({ length: count }, (_, i) => [
          { concat: ["10.96.0.1", 8 + i] },
          { concat: [`10.244.${i >> 8}.${i & 255}`, 8080] },
        ]),
      },
    },
  },
];
const toEndpoint = {
  dnat: { family: "ip", addr: { map: { key: { concat: [daddr, priority] }, data: "@endpoints" } } },
} as Statement;

describe("random numbers", () => {
  const rules = (mod: number, count: number) =>
    tables({
      hooks: { pre: nat("prerouting") },
      sets: endpoints(count),
      chains: { pre: [[set(priority, { numgen: { mode: "random", mod, offset: 8 } }), toEndpoint], [drop]] },
    });

  test("every value is followed, with its probability", () => {
    const summary = summarize(evaluate(rules(4, 3), host, packet()));
    expect(summary.destinations.map(({ address, probability }) => [address, probability])).toEqual([
      ["10.244.0.0", 0.25],
      ["10.244.0.1", 0.25],
      ["10.244.0.2", 0.25],
    ]);
    expect(summary).toMatchObject({ dropped: 0.25, refused: 0, sticky: false });
  });

  test("thousands of values are followed", () => {
    const summary = summarize(evaluate(rules(5000, 5000), host, packet()));
    expect(summary.destinations).toHaveLength(5000);
    expect(summary.destinations.reduce((sum, { probability }) => sum + probability, 0)).toBeCloseTo(1);
  });

  test("each step is recorded", () => {
    const [first] = evaluate(rules(4, 4), host, packet());
    expect(first?.steps).toEqual([
      { kind: "hook", hook: "prerouting" },
      {
        kind: "rule",
        hook: "prerouting",
        table: { family: "ip", name: "nft-proxy" },
        chain: "pre",
        index: 0,
        rule: [balance, toEndpoint],
        completed: true,
        effects: [
          { kind: "random", value: 8, choices: 4 },
          { kind: "found", set: "endpoints", key: "10.96.0.1 . 8", value: "10.244.0.0 . 8080" },
          { kind: "dnat", to: { address: "10.244.0.0", port: 8080 } },
        ],
      },
      { kind: "hook", hook: "forward" },
      { kind: "hook", hook: "postrouting" },
    ]);
  });
});

describe("dynamic maps", () => {
  const key = { concat: [saddr, daddr] };
  const lookup = set(priority, { map: { key, data: "@affinity" } });
  const update = {
    map: { op: "update", elem: { elem: { val: key, timeout: 600 } }, data: priority, map: "@affinity" },
  } as Statement;
  const forget = { map: { op: "delete", elem: key, data: 0, map: "@affinity" } } as Statement;
  const affinity = (size: number) => ({
    add: {
      map: {
        ...at,
        name: "affinity",
        type: ["ipv4_addr", "ipv4_addr"],
        map: "classid",
        flags: ["dynamic", "timeout"],
        size,
      },
    },
  });
  const sticky = (size: number, last: readonly Rule[] = [[balance, toEndpoint]]) =>
    tables({
      hooks: { pre: nat("prerouting") },
      sets: [...endpoints(4), affinity(size)],
      chains: {
        pre: [[lookup, update, toEndpoint], [forget], [balance, update, toEndpoint], ...last, [drop]],
      },
    });
  const entry = (value: string, client = "10.244.1.11"): DynamicEntry => ({
    family: "ip",
    map: "affinity",
    key: `${client} . 10.96.0.1`,
    value,
  });
  const addresses = (rules: readonly Table[], entries: readonly DynamicEntry[]) =>
    summarize(evaluate(rules, host, packet(), entries)).destinations.map(({ address }) => address);

  test("a new client gets a random endpoint, which is stored", () => {
    const outcomes = evaluate(sticky(2), host, packet());
    expect(outcomes).toHaveLength(4);
    for (const outcome of outcomes) {
      const { key: updatedKey, value = "" } = outcome.updates[0] ?? {};
      expect(updatedKey).toBe("10.244.1.11 . 10.96.0.1");
      expect(addresses(sticky(2), [entry(value)])).toEqual(
        outcome.kind === "delivered" ? [outcome.to.address] : [],
      );
    }
  });

  test("a known client keeps its endpoint, and its timeout restarts", () => {
    expect(summarize(evaluate(sticky(2), host, packet(), [entry("10")]))).toMatchObject({
      destinations: [{ address: "10.244.0.2", probability: 1 }],
      sticky: true,
    });
  });

  test("an update keeps the value of an element, and restarts its timeout", () => {
    const [outcome] = evaluate(
      tables({
        hooks: { pre: filter("prerouting") },
        sets: [affinity(2)],
        chains: { pre: [[set(priority, 5), update]] },
      }),
      host,
      packet(),
      [entry("10")],
    );
    expect(outcome?.updates).toMatchObject([{ value: "10", timeout: 600 }]);
  });

  test("a client whose endpoint was removed gets another, and its entry is replaced", () => {
    const outcomes = evaluate(sticky(1), host, packet(), [entry("99")]);
    expect(outcomes.map(({ updates }) => updates.at(-1)?.value).sort()).toEqual(["10", "11", "8", "9"]);
  });

  test("a client loses stickiness, not the connection, when the map is full", () => {
    const outcomes = evaluate(sticky(1), host, packet(), [entry("8", "10.244.1.99")]);
    expect(summarize(outcomes)).toMatchObject({ sticky: false, dropped: 0 });
    expect(summarize(outcomes).destinations).toHaveLength(4);
    expect(evaluate(sticky(1, []), host, packet(), [entry("8", "10.244.1.99")])).toMatchObject(
      Array.from({ length: 4 }, () => ({ kind: "dropped" })),
    );
  });

  test("entries of another family are ignored", () => {
    expect(addresses(sticky(2), [{ ...entry("10"), family: "ip6" }])).toHaveLength(4);
  });
});

describe("unknown parts of rules", () => {
  test.each([
    ["a field", [is({ payload: { protocol: "ip", field: "ttl" } }, 1), drop]],
    ["a meta key", [is({ meta: { key: "length" } }, 60), drop]],
    ["a fib", [is({ fib: { flags: ["iif", "saddr"], result: "oif" } }, "x"), drop]],
    ["a conntrack key", [is({ ct: { key: "label" } }, 1), drop]],
    ["a chain", [jump("nowhere")]],
    ["a set", [is(daddr, "@nowhere"), drop]],
    ["an assignment", [set({ ct: { key: "zone" } }, 1)]],
  ])("%s makes the outcome not understood, with the rule", (_, rule) => {
    const rules = tables({ hooks: { base: filter("prerouting") }, chains: { base: [rule as Rule] } });
    expect(evaluate(rules, host, packet())).toMatchObject([
      {
        kind: "not-understood",
        rules: [{ table: { family: "ip", name: "nft-proxy" }, chain: "base", index: 0, rule }],
        otherwise: { kind: "delivered" },
      },
    ]);
  });

  const unknown = is({ payload: { protocol: "ip", field: "ttl" } }, 1);
  test.each([
    ["a rule that fails another comparison", "delivered", { base: [[unknown, is(daddr, "10.0.0.1"), drop]] }],
    ["a rule without an effect", "delivered", { base: [[unknown]] }],
    ["a rule that accepts what is accepted anyway", "delivered", { base: [[unknown, accept]] }],
    ["a rule that accepts what is dropped later", "not-understood", { base: [[unknown, accept], [drop]] }],
    ["a rule that drops what is dropped later", "dropped", { base: [[unknown, drop], [drop]] }],
    [
      "a rule that rejects what is dropped later",
      "not-understood",
      { base: [[unknown, { reject: null }], [drop]] },
    ],
  ])("%s gives the outcome %s where one of its comparisons is unknown", (_, outcome, chains) => {
    expect(kind(chains as Parts["chains"])).toBe(outcome);
  });
});
