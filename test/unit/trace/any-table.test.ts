import { describe, expect, test } from "vitest";
import { anyTables } from "../../../src/nft/canonical/any-tables.ts";
import { evaluate, evaluateAnswer, evaluatePrepared, prepareTables } from "../../../src/trace/evaluate.ts";
import { summarize } from "../../../src/trace/outcome.ts";
import type { Packet } from "../../../src/trace/packet.ts";
import { listingOf } from "../../support/listing.ts";

const host = { localAddresses: new Set(["192.0.2.2"]) };
const tcp: Packet = {
  from: { address: "10.244.1.11", at: "pod", iifname: "cali1" },
  to: "10.96.0.1",
  port: 80,
  protocol: "tcp",
};
const tcp6: Packet = { ...tcp, from: { ...tcp.from, address: "fd00:244::11" }, to: "fd00:10:96::1" };

const at = { family: "inet", table: "other" };
const field = (protocol: string, name: string) => ({ payload: { protocol, field: name } });
const meta = (key: string) => ({ meta: { key } });
const ct = (key: string) => ({ ct: { key } });
const is = (left: unknown, right: unknown, op = "==") => ({ match: { op, left, right } });
const drop = { drop: null };

const RATE = { limit: { rate: 1, burst: 5, per: "second", inv: true } };

const SETS = [
  {
    set: {
      ...at,
      name: "blocked",
      type: "ipv4_addr",
      flags: ["interval"],
      elem: [{ prefix: { addr: "10.96.0.0", len: 24 } }, { range: ["10.97.0.1", "10.97.0.9"] }],
    },
  },
  {
    set: {
      ...at,
      name: "pairs",
      type: ["ipv4_addr", "inet_service"],
      flags: ["interval"],
      elem: [{ concat: [{ prefix: { addr: "10.96.0.0", len: 16 } }, { range: [80, 90] }] }],
    },
  },
  {
    map: {
      ...at,
      name: "zones",
      type: "ifname",
      map: "verdict",
      elem: [
        ["cali*", drop],
        ["*", { accept: null }],
      ],
    },
  },
  { set: { ...at, name: "flags", type: "tcp_flag", elem: ["syn"] } },
  { set: { ...at, name: "strange", type: "ipv4_addr", elem: [{ unheard: "of" }] } },
  // nft 1.1.3 lists `limit rate over 1/second` of a set's elements so.
  {
    set: {
      ...at,
      name: "limited",
      type: "ipv4_addr",
      stmt: [RATE],
      elem: [{ elem: { val: "10.96.0.1", ...RATE } }],
    },
  },
  { set: { ...at, name: "slow", type: "ipv4_addr", elem: [{ elem: { val: "10.96.0.1", ...RATE } }] } },
  { set: { ...at, name: "counted", type: "ipv4_addr", stmt: [{ counter: null }], elem: ["10.96.0.1"] } },
];

/** The tables of a listing: a base chain with one rule. */
function tablesWith(expr: readonly unknown[], chain: object = {}) {
  const base = { ...at, name: "base", type: "filter", hook: "forward", prio: 0, policy: "accept", ...chain };
  const rule = { rule: { ...at, chain: "base", handle: 7, expr } };
  return anyTables(listingOf([{ table: { family: "inet", name: "other" } }, { chain: base }, ...SETS, rule]));
}

function kindOf(expr: readonly unknown[], packet = tcp, chain: object = {}): string | undefined {
  return evaluate(tablesWith(expr, chain), host, packet)[0]?.kind;
}

describe("comparisons of other software's rules", () => {
  const rows: readonly (readonly [what: string, statements: readonly object[], holds: boolean])[] = [
    ["an established connection", [is(ct("state"), { set: ["established", "related"] })], false],
    ["a new or untracked connection", [is(ct("state"), ["new", "untracked"], "in")], true],
    ["a set whose elements count", [is(field("ip", "daddr"), "@counted")], true],
    ["a set with prefixes", [is(field("ip", "daddr"), "@blocked")], true],
    [
      "a concatenation with prefixes and ranges",
      [is({ concat: [field("ip", "daddr"), field("tcp", "dport")] }, "@pairs")],
      true,
    ],
    ["a name with a wildcard in a map", [{ vmap: { key: meta("iifname"), data: "@zones" } }], true],
    ["a port beyond a number", [is(field("tcp", "dport"), 1024, ">")], false],
    ["ports in a set", [is(field("tcp", "dport"), { set: [22, { range: [80, 90] }] })], true],
    // nft 1.1.3 lists `{ 10.96.0.1 comment "x", 10.96.0.9 counter }` so.
    [
      "an address with a comment in a set",
      [
        is(field("ip", "daddr"), {
          set: ["10.96.0.9", { elem: { val: "10.96.0.1", comment: "x", counter: { packets: 0, bytes: 0 } } }],
        }),
      ],
      true,
    ],
    ["an empty set", [is(field("ip", "daddr"), { set: [] })], false],
    ["a protocol by number", [is(meta("l4proto"), 6)], true],
    [
      "TCP flags of a first packet",
      [is({ "&": [field("tcp", "flags"), { "|": ["fin", "syn", "rst", "ack"] }] }, "syn")],
      true,
    ],
    ["some TCP flags", [is(field("tcp", "flags"), ["ack", "rst"], "in")], false],
    ["the protocol of another header", [is(field("icmp", "type"), "echo-request")], false],
    ["the family", [is(meta("nfproto"), "ipv6")], false],
    ["an IPv6 address", [is(field("ip6", "daddr"), "::1", "!=")], false],
    [
      "the address of the other family before translation",
      [is({ ct: { key: "ip6 daddr", dir: "original" } }, "::1", "!=")],
      false,
    ],
    ["the address before translation", [is({ ct: { key: "ip daddr", dir: "original" } }, "10.96.0.1")], true],
    ["a mark that nobody set", [is({ "&": [meta("mark"), 255] }, 0, "!=")], false],
    ["a flow table, which later packets take", [{ flow: { op: "add", flowtable: "@f" } }], true],
    ["counters and logs", [{ counter: { packets: 0, bytes: 0 } }, { log: { prefix: "x" } }], true],
    [
      "a concatenation with a protocol by number, written into the rule",
      [
        is(
          { concat: [meta("l4proto"), field("th", "dport")] },
          { set: [{ concat: [6, 80] }, { concat: ["udp", 53] }] },
        ),
      ],
      true,
    ],
    [
      "a concatenation with a prefix and a range, written into the rule",
      [
        is(
          { concat: [field("ip", "daddr"), field("tcp", "dport")] },
          { set: [{ concat: [{ prefix: { addr: "10.96.0.0", len: 16 } }, { range: [80, 90] }] }] },
          "!=",
        ),
      ],
      false,
    ],
    ["TCP flags in a named set", [is(field("tcp", "flags"), "@flags")], true],
    ["a comment of iptables", [{ xt: { type: "match", name: "comment" } }], true],
  ];
  test.each(rows.map(([what, ...row]) => [what, row[1] ? "matches" : "does not match", row] as const))(
    "%s: %s",
    (_what, _matches, [statements, holds]) => {
      const isVerdictMap = statements.some((one) => "vmap" in one);
      expect(kindOf(isVerdictMap ? statements : [...statements, drop])).toBe(holds ? "dropped" : "delivered");
    },
  );

  test("a set of IPv4 addresses ends the rule for IPv6", () => {
    expect(kindOf([is(field("ip", "daddr"), "@blocked", "!="), drop], tcp6)).toBe("delivered");
  });
});

describe("comparisons of other software's rules with an echo request", () => {
  const ping: Packet = { ...tcp, port: 7, protocol: "icmp" };
  const ping6: Packet = { ...tcp6, port: 7, protocol: "icmpv6" };
  const rows: readonly (readonly [what: string, packet: Packet, statement: object, holds: boolean])[] = [
    ["its protocol", ping, is(meta("l4proto"), "icmp"), true],
    [
      "its protocol by the name of /etc/protocols",
      ping6,
      is(meta("l4proto"), { set: ["icmp", "ipv6-icmp"] }),
      true,
    ],
    ["its protocol by number", ping6, is(meta("l4proto"), 58), true],
    ["its protocol in the IP header", ping, is(field("ip", "protocol"), "icmp"), true],
    ["another protocol", ping, is(meta("l4proto"), "tcp"), false],
    ["its type", ping, is(field("icmp", "type"), { set: ["echo-request", "time-exceeded"] }), true],
    ["neighbour discovery", ping6, is(field("icmpv6", "type"), "nd-neighbor-solicit"), false],
    ["the type of the other family", ping6, is(field("icmp", "type"), "echo-request"), false],
    ["its id", ping, is(field("icmp", "id"), 7), true],
    ["a port", ping, is(field("th", "dport"), 22), false],
    ["every port but one", ping, is(field("th", "dport"), 22, "!="), true],
    ["a port of TCP", ping, is(field("tcp", "dport"), 22, "!="), false],
    ["a new connection", ping, is(ct("state"), "new"), true],
  ];
  test.each(rows)("%s", (_what, packet, statement, holds) => {
    expect(kindOf([statement, drop], packet)).toBe(holds ? "dropped" : "delivered");
  });

  test.each([
    ["its sequence number", field("icmp", "sequence")],
    ["the port by connection tracking", { ct: { key: "proto-dst", dir: "original" } }],
  ])("%s is not known", (_what, left) => {
    expect(kindOf([is(left, 1), drop], ping)).toBe("not-understood");
  });

  test("the answer is an echo reply", () => {
    const rule = (right: string) => prepareTables(tablesWith([is(field("icmp", "type"), right), drop]));
    const delivered = evaluatePrepared(rule("redirect"), host, ping)[0];
    if (delivered?.kind !== "delivered") throw new Error("not delivered");
    expect(evaluateAnswer(rule("echo-reply"), host, ping, delivered)[0]?.kind).toBe("dropped");
    expect(evaluateAnswer(rule("echo-request"), host, ping, delivered)[0]?.kind).toBe("delivered");
  });
});

describe("a reverse path filter", () => {
  const fib = { fib: { result: "oif", flags: ["saddr", "mark", "iif"] } };
  /** nft 1.1.3 and 1.1.7 list `fib saddr . mark . iif oif missing` so. */
  const listed = [is(fib, false), is({ concat: [fib] }, { concat: [false] })];

  test.each([
    ["the incoming interface", "cali1", "delivered"],
    ["another interface", "eth0", "dropped"],
    ["an unknown interface", undefined, "not-understood"],
  ])("by %s (%s) as the route to the source gives the outcome %s", (_what, interfaceName, kind) => {
    for (const missing of listed) {
      const routed = { ...host, interfaceTo: () => interfaceName };
      expect(evaluate(tablesWith([missing, drop]), routed, tcp)[0]?.kind).toBe(kind);
    }
  });

  test("is not understood for other lookups than that of the source", () => {
    const other = { fib: { result: "oif", flags: ["daddr", "iif"] } };
    expect(kindOf([is(other, false), drop])).toBe("not-understood");
  });
});

describe("the hooks of the node's own packets and of those to the node", () => {
  const routed = {
    ...host,
    interfaceTo: (address: string) => (address.startsWith("10.244.") ? "cali1" : "eth0"),
  };
  const own: Packet = { ...tcp, from: { address: "192.0.2.2", at: "node" } };
  const translation = [{ dnat: { family: "ip", addr: "10.244.1.11" } }];

  function kindAfterDnat(hook: string, interfaceName: string): string | undefined {
    const [first] = tablesWith(translation, { type: "nat", hook: "output", prio: -100 });
    const [second] = tablesWith([is(meta("oifname"), interfaceName), drop], { hook, prio: 0 });
    if (first === undefined || second === undefined) throw new Error("no tables");
    return evaluate([first, { ...second, name: "second" }], routed, own)[0]?.kind;
  }

  test.each([
    ["output", "eth0", "dropped"],
    ["output", "cali1", "delivered"],
    ["postrouting", "eth0", "delivered"],
    ["postrouting", "cali1", "dropped"],
  ])("after a dnat in output, a rule in %s for the interface %s: %s", (hook, interfaceName, kind) => {
    expect(kindAfterDnat(hook, interfaceName)).toBe(kind);
  });

  test.each<[string, Packet["from"], string]>([
    ["from outside", { address: "192.0.2.1", at: "outside", iifname: "eth0" }, "dropped"],
    ["of the node itself, which passed postrouting", { address: "192.0.2.2", at: "node" }, "delivered"],
  ])("a nat chain of input sees connections %s: %s", (_, from, kind) => {
    expect(kindOf([drop], { ...tcp, from, to: "192.0.2.2" }, { type: "nat", hook: "input", prio: 100 })).toBe(
      kind,
    );
  });
});

test("the empty interface of the node's own packets is a part of a concatenation like any other", () => {
  const data = {
    set: [[{ concat: ["*", { prefix: { addr: "10.96.0.0", len: 16 } }, { range: [80, 90] }] }, drop]],
  };
  const key = { concat: [meta("iifname"), field("ip", "daddr"), field("tcp", "dport")] };
  const own: Packet = { ...tcp, from: { address: "192.0.2.2", at: "node" } };
  expect(kindOf([{ vmap: { key, data } }], own, { hook: "output" })).toBe("dropped");
});

describe("the answer to a first packet", () => {
  const at = { family: "inet", table: "other" };
  const routed = {
    ...host,
    interfaceTo: (address: string) => (address.startsWith("10.244.1.") ? "cali1" : "eth0"),
  };
  const outside: Packet = { ...tcp, from: { address: "203.0.113.9", at: "outside", iifname: "eth0" } };

  /**
   * The end of the answer by tables that translate to 10.244.1.12:8080, and masquerade what comes from
   * outside.
   */
  function answerTo(packet: Packet, hook: string, expr: readonly unknown[], prio = 0): string | undefined {
    const chains: Readonly<Record<string, { base: object; expr: readonly unknown[] }>> = {
      to: {
        base: { type: "nat", hook: "prerouting", prio: -100 },
        expr: [{ dnat: { family: "ip", addr: "10.244.1.12", port: 8080 } }],
      },
      from: {
        base: { type: "nat", hook: "postrouting", prio: 100 },
        expr: [is(meta("iifname"), "eth0"), { masquerade: null }],
      },
      checked: {
        base: { type: "filter", hook, prio },
        expr: [is(ct("state"), "established", "in"), ...expr, drop],
      },
    };
    const objects = Object.entries(chains).flatMap(([name, { base, expr }]) => [
      { chain: { ...at, name, policy: "accept", ...base } },
      { rule: { ...at, chain: name, expr } },
    ]);
    const tables = prepareTables(anyTables(listingOf(objects)));
    const [first] = evaluatePrepared(tables, routed, packet);
    if (first?.kind !== "delivered") throw new Error("not delivered");
    return evaluateAnswer(tables, routed, packet, first)[0]?.kind;
  }

  const rows: readonly (readonly [
    what: string,
    packet: Packet,
    hook: string,
    expr: readonly unknown[],
    prio: number,
    kind: string,
  ])[] = [
    ["is established", tcp, "forward", [], 0, "dropped"],
    ["goes in the direction of answers", tcp, "forward", [is(ct("direction"), "original")], 0, "delivered"],
    [
      "belongs to the Service's address",
      tcp,
      "forward",
      [is({ ct: { key: "ip daddr", dir: "original" } }, "10.96.0.1")],
      0,
      "dropped",
    ],
    ["comes from the endpoint", tcp, "forward", [is(field("ip", "saddr"), "10.244.1.12")], 0, "dropped"],
    ["comes from the endpoint's port", tcp, "forward", [is(field("tcp", "sport"), 8080)], 0, "dropped"],
    [
      "comes in by the endpoint's interface",
      outside,
      "prerouting",
      [is(meta("iifname"), "cali1")],
      0,
      "dropped",
    ],
    [
      "goes to a port that is not known",
      tcp,
      "forward",
      [is(field("tcp", "dport"), 80)],
      0,
      "not-understood",
    ],
    ["goes to the client", outside, "forward", [is(field("ip", "daddr"), "203.0.113.9")], 0, "dropped"],
    [
      "goes to an address of the node first",
      outside,
      "prerouting",
      [is(field("ip", "daddr"), "203.0.113.9")],
      -150,
      "not-understood",
    ],
    [
      "bears the Service's address at last",
      tcp,
      "postrouting",
      [is(field("ip", "saddr"), "10.96.0.1")],
      150,
      "dropped",
    ],
    ["has SYN and ACK", tcp, "forward", [is(field("tcp", "flags"), "ack", "in")], 0, "dropped"],
    ["is of a translated connection", tcp, "forward", [is(ct("status"), "dnat", "in")], 0, "dropped"],
  ];
  test.each(rows)("%s", (_, packet, hook, expr, prio, kind) => {
    expect(answerTo(packet, hook, expr, prio)).toBe(kind);
  });
});

describe("statements that are not understood", () => {
  test.each([
    ["a rate", [{ limit: { rate: 5, burst: 5, per: "second" } }, drop]],
    ["a quota", [{ quota: "q1" }, drop]],
    ["a match of xtables", [{ xt: { type: "match", name: "conntrack" } }, drop]],
    ["a target of xtables", [{ xt: { type: "target", name: "DROP" } }]],
    ["a queue", [{ queue: { num: 0 } }]],
    ["a source port", [is(field("tcp", "sport"), 1234), drop]],
    ["an output interface", [is(meta("oifname"), "eth0"), drop]],
    [
      "a hash",
      [
        {
          vmap: {
            key: { symhash: { mod: 2 } },
            data: {
              set: [
                [0, drop],
                [1, { accept: null }],
              ],
            },
          },
        },
      ],
    ],
    ["a set whose elements have a rate", [is(field("ip", "daddr"), "@limited"), drop]],
    ["an element with a rate", [is(field("ip", "daddr"), "@slow"), drop]],
    ["the whole of a connection's status", [is(ct("status"), "dnat", "!="), drop]],
    [
      "two random numbers",
      [
        is(
          { concat: [{ numgen: { mode: "random", mod: 2 } }, { numgen: { mode: "random", mod: 2 } }] },
          { set: [{ concat: [0, 1] }] },
        ),
        drop,
      ],
    ],
    ["a set with strange elements", [is(field("ip", "daddr"), "@strange"), drop]],
    ["an unheard-of expression", [is({ novel: 1 }, 1), drop]],
    ["an unheard-of statement", [{ novel: 1 }]],
    ["something that is no list", "novel"],
  ])("make the outcome not understood, with the rule: %s", (_, expr) => {
    const [outcome] = evaluate(tablesWith(expr as readonly unknown[]), host, tcp);
    expect(outcome).toMatchObject({
      kind: "not-understood",
      rules: [{ hook: "forward", table: { family: "inet", name: "other" }, chain: "base", index: 0 }],
    });
  });

  test.each([
    ["nothing", [{ counter: { packets: 0, bytes: 0 } }], "delivered"],
    ["a change of the mark", [{ mangle: { key: meta("mark"), value: 5 } }], "not-understood"],
  ])("that accept within a rate matter only if they spare the packet something: %s", (_, second, kind) => {
    const chain = { ...at, name: "base", type: "filter", hook: "forward", prio: 0, policy: "accept" };
    const rule = (expr: readonly unknown[]) => ({ rule: { ...at, chain: "base", handle: 7, expr } });
    const rate = [{ limit: { rate: 5, burst: 5, per: "second" } }, { accept: null }];
    const tables = anyTables(listingOf([{ chain }, rule(rate), rule(second)]));
    expect(evaluate(tables, host, tcp)[0]?.kind).toBe(kind);
  });

  test("that set a DSCP value, which nothing here reads, divide no packets and end no rule", () => {
    const set = (value: unknown) => ({ mangle: { key: field("ip", "dscp"), value } });
    const strange = { map: { key: field("ip", "daddr"), data: "@absent" } };
    const random = { numgen: { mode: "random", mod: 64, offset: 0 } };
    expect(evaluate(tablesWith([set(random)]), host, tcp)).toHaveLength(1);
    expect(kindOf([set(strange), drop])).toBe("dropped");
    expect(kindOf([{ limit: { rate: 5, burst: 5, per: "second" } }, set("ef")])).toBe("delivered");
  });

  test("are shown in the text that nft prints", () => {
    const objects = [
      { chain: { ...at, name: "base", type: "filter", hook: "forward", prio: 0, policy: "accept" } },
      { rule: { ...at, chain: "base", handle: 7, expr: [{ xt: { type: "target", name: "DROP" } }] } },
    ];
    const tables = anyTables(listingOf(objects), '\t\txt target "DROP" # handle 7\n');
    expect(evaluate(tables, host, tcp)).toMatchObject([{ rules: [{ text: 'xt target "DROP"' }] }]);
  });
});

describe("rules of iptables-nft, with extensions that nft's JSON only names", () => {
  /** The texts are those of nft 1.1.3 for rules that iptables-nft 1.8.11 wrote. */
  function kindOfText(text: string): string | undefined {
    const chain = { ...at, name: "base", type: "filter", hook: "forward", prio: 0, policy: "accept" };
    const rule = { ...at, chain: "base", handle: 7, expr: [{ xt: { type: "match", name: "any" } }, drop] };
    const tables = anyTables(listingOf([{ chain }, { rule }]), `\t\t${text} # handle 7\n`);
    return evaluate(tables, host, tcp)[0]?.kind;
  }

  test.each([
    ["ct state related,established counter packets 0 bytes 0 accept", "delivered"],
    ["ct state new counter packets 0 bytes 0 drop", "dropped"],
    ["ct status dnat drop", "delivered"],
    ["ip protocol tcp  tcp dport { 80, 8000-8090 } counter packets 4 bytes 240 reject", "refused"],
    ["ip protocol tcp tcp dport { 443 } counter packets 0 bytes 0 reject with tcp reset", "delivered"],
    ["reject with tcp reset", "refused"],
    ["tcp dport != 443 drop", "dropped"],
    ["udp dport 80 drop", "delivered"],
    ["ip saddr 10.244.0.0/16 ip daddr != 10.96.0.2 drop", "dropped"],
    ['iifname "cali1" counter packets 0 bytes 0 log prefix "a b " drop', "dropped"],
    ["fib daddr type local drop", "delivered"],
    ["fib daddr type != local drop", "dropped"],
  ])("follow nft's translation: %s", (text, kind) => {
    expect(kindOfText(text)).toBe(kind);
  });

  test.each([
    'tcp dport 80 xt match "recent" counter packets 0 bytes 0 drop',
    "meta random & 2147483647 < 1073741824 counter packets 0 bytes 0 drop",
    "ct state new,established ct direction original drop",
    "ip saddr 10.244.0.1-10.244.0.9 drop",
    "ct state ! invalid drop",
  ])("are not understood where one part is not translated or not known: %s", (text) => {
    expect(kindOfText(text)).toBe("not-understood");
  });
});

describe("verdicts of other software's rules", () => {
  test.each([
    ["icmpx", { type: "icmpx", expr: "admin-prohibited" }, tcp],
    ["icmp", { type: "icmp", expr: "host-unreachable" }, tcp],
    ["icmpv6", { type: "icmpv6", expr: "addr-unreachable" }, tcp6],
    ["a reset", { type: "tcp reset" }, tcp],
    ["nothing more", null, tcp6],
  ])("a reject with %s refuses", (_, reject, packet) => {
    expect(kindOf([{ reject }], packet)).toBe("refused");
  });

  /**
   * nft 1.1.3 lists `meta l4proto tcp reject with tcp reset`, and `meta nfproto ipv4 reject with icmp ...`,
   * so.
   */
  test.each([
    ["icmp, of an IPv6 packet", { type: "icmp", expr: "host-unreachable" }, tcp6],
    ["icmpv6, of an IPv4 packet", { type: "icmpv6", expr: "addr-unreachable" }, tcp],
    ["a reset, of a UDP packet", { type: "tcp reset" }, { ...tcp, protocol: "udp" as const }],
  ])("a reject with %s passes it on", (_, reject, packet) => {
    expect(kindOf([{ reject }], packet)).toBe("delivered");
  });

  test("a policy of drop drops, and names its chain", () => {
    const outcomes = evaluate(tablesWith([], { policy: "drop" }), host, tcp);
    expect(outcomes).toMatchObject([{ kind: "dropped" }]);
    expect(outcomes[0]?.steps.at(-1)).toEqual({
      kind: "policy",
      hook: "forward",
      table: { family: "inet", name: "other" },
      chain: "base",
    });
  });

  test("a base chain of another layer does not see the packet", () => {
    expect(kindOf([drop], tcp, { hook: "ingress" })).toBe("delivered");
  });

  const dnat = (addr: unknown, more: object = {}) => [{ dnat: { family: "ip", addr, ...more } }];
  const destinations = (expr: readonly unknown[]) =>
    summarize(evaluate(tablesWith(expr, { type: "nat", hook: "prerouting" }), host, tcp)).destinations.map(
      ({ address, port, probability }) => `${address} ${port} ${probability}`,
    );
  const members = {
    set: [
      [0, { concat: ["10.0.0.1", 8080] }],
      [{ range: [1, 3] }, { concat: ["10.0.0.2", 8081] }],
    ],
  };
  test.each([
    ["an address", dnat("10.0.0.1"), ["10.0.0.1 80 1"]],
    ["an address and a port", dnat("10.0.0.1", { port: 8080 }), ["10.0.0.1 8080 1"]],
    [
      "a random member of a map in the rule",
      dnat({ map: { key: { numgen: { mode: "random", mod: 4, offset: 0 } }, data: members } }),
      ["10.0.0.1 8080 0.25", "10.0.0.2 8081 0.75"],
    ],
    [
      "members in turn",
      dnat({ map: { key: { numgen: { mode: "inc", mod: 2, offset: 0 } }, data: members } }),
      ["10.0.0.1 8080 0.5", "10.0.0.2 8081 0.5"],
    ],
    ["a range, which is not understood", dnat({ range: ["10.0.0.1", "10.0.0.9"] }), []],
  ])("a dnat to %s leads there", (_, expr, expected) => {
    expect(destinations(expr)).toEqual(expected);
  });

  test("of two base chains with one priority, the one made later runs first", () => {
    const [table] = tablesWith(dnat("10.0.0.1"), { type: "nat", hook: "prerouting" });
    const [later] = tablesWith(dnat("10.0.0.2"), { type: "nat", hook: "prerouting" });
    if (table === undefined || later === undefined) throw new Error("no tables");
    expect(evaluate([table, { ...later, name: "later" }], host, tcp)).toMatchObject([
      { to: { address: "10.0.0.2" } },
    ]);
  });

  test("nat chains run at the kernel's place of translation, whatever their priority", () => {
    const [nat] = tablesWith(dnat("10.0.0.1"), { type: "nat", hook: "prerouting", prio: -150 });
    const [filter] = tablesWith([is(field("ip", "daddr"), "10.96.0.1"), drop], {
      hook: "prerouting",
      prio: -120,
    });
    if (nat === undefined || filter === undefined) throw new Error("no tables");
    expect(evaluate([nat, { ...filter, name: "filter" }], host, tcp)).toMatchObject([{ kind: "dropped" }]);
  });

  test("a node's packet that is masqueraded towards a pod has a source that is not known", () => {
    const [nat] = tablesWith([{ masquerade: null }], { type: "nat", hook: "postrouting", prio: 100 });
    const [filter] = tablesWith([is(field("ip", "saddr"), "192.0.2.2"), drop], {
      hook: "postrouting",
      prio: 150,
    });
    if (nat === undefined || filter === undefined) throw new Error("no tables");
    const own: Packet = { ...tcp, from: { address: "192.0.2.2", at: "node" } };
    const kinds = (to: string) =>
      evaluate([nat, { ...filter, name: "filter" }], host, { ...own, to }).map(({ kind }) => kind);
    expect(kinds("10.244.1.11")).toEqual(["not-understood"]);
    expect(kinds("192.0.2.2")).toEqual(["dropped"]);
  });

  test("a dormant table does not see the packet", () => {
    const chain = { ...at, name: "base", type: "filter", hook: "forward", prio: 0, policy: "drop" };
    const table = { family: "inet", name: "other", flags: "dormant" };
    expect(evaluate(anyTables(listingOf([{ table }, { chain }])), host, tcp)).toMatchObject([
      { kind: "delivered" },
    ]);
  });

  test("a dnat of the other family, in a table of both, passes the packet on", () => {
    const expr = [{ dnat: { family: "ip6", addr: "fd00::1" } }, ...dnat("10.0.0.1")];
    expect(destinations(expr)).toEqual(["10.0.0.1 80 1"]);
  });

  test("tables of other families are ignored", () => {
    expect(anyTables(listingOf([{ table: { family: "bridge", name: "filter" } }]))).toEqual([]);
  });
});
