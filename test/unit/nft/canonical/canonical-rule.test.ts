import { describe, expect, test } from "vitest";
import { canonicalRule } from "../../../../src/nft/canonical/canonical-rule.ts";

const saddr = { payload: { protocol: "ip", field: "saddr" } };
const saddr6 = { payload: { protocol: "ip6", field: "saddr" } };
const mark = { meta: { key: "mark" } };
const priority = { meta: { key: "priority" } };
const prefix = (addr: string, len: number) => ({ prefix: { addr, len } });
const match = (left: unknown, right: unknown, op = "==") => ({ match: { op, left, right } });

const ACK = match({ payload: { protocol: "tcp", field: "flags" } }, "ack", "in");

/** Rows of: what it shows, statement as written, statement as some nft lists it. */
const SAME: readonly (readonly [string, object, object])[] = [
  ...[
    [10, "af11"],
    [34, "af41"],
    [46, "ef"],
    [56, "cs7"],
    [7, 7],
  ].map(([written, listed]) => {
    const dscp = (value: unknown) => ({
      mangle: { key: { payload: { protocol: "ip6", field: "dscp" } }, value },
    });
    return [`the DSCP value ${written}`, dscp(written), dscp(listed)] as const;
  }),
  ["a set of one", match(saddr, { set: [prefix("10.0.0.0", 8)] }), match(saddr, prefix("10.0.0.0", 8))],
  ["a full prefix", match(saddr, prefix("10.0.0.5", 32)), match(saddr, "10.0.0.5")],
  ["bits behind a prefix", match(saddr, prefix("10.1.2.3", 8)), match(saddr, prefix("10.0.0.0", 8))],
  [
    "prefixes that touch",
    match(saddr, { set: [prefix("10.128.0.0", 9), prefix("10.0.0.0", 9)] }),
    match(saddr, { set: [prefix("10.0.0.0", 8)] }),
  ],
  [
    "prefixes that touch and make no prefix",
    match(saddr, { set: [prefix("12.0.0.0", 8), prefix("10.0.0.0", 8), prefix("11.0.0.0", 8)] }, "!="),
    match(saddr, { set: [{ range: ["10.0.0.0", "12.255.255.255"] }] }, "!="),
  ],
  [
    "prefixes that overlap",
    match(saddr, { set: [prefix("10.1.0.0", 16), prefix("10.0.0.0", 8)] }),
    match(saddr, prefix("10.0.0.0", 8)),
  ],
  [
    "everything",
    match(saddr, { set: [prefix("128.0.0.0", 1), prefix("0.0.0.0", 1)] }),
    match(saddr, { set: [prefix("0.0.0.0", 0)] }),
  ],
  [
    "IPv6",
    match(saddr6, { set: ["fe80::1", prefix("fd00:0:0:1::", 64), prefix("fd00::", 64)] }),
    match(saddr6, { set: [prefix("fd00::", 63), prefix("fe80::1", 128)] }),
  ],
  [
    "the order of names",
    match({ meta: { key: "iifname" } }, { set: ["b", "a"] }),
    match({ meta: { key: "iifname" } }, { set: ["a", "b", "a"] }),
  ],
  ["conntrack state", match({ ct: { key: "state" } }, "new"), match({ ct: { key: "state" } }, "new", "in")],
  ["a mark", match({ "&": [mark, "0x4000"] }, "0x0", "!="), match({ "&": [mark, 16384] }, 0, "!=")],
  ["a classid", { mangle: { key: priority, value: 0 } }, { mangle: { key: priority, value: "none" } }],
  [
    "a numgen",
    { mangle: { key: priority, value: { numgen: { mode: "random", mod: 3 } } } },
    { mangle: { key: priority, value: { numgen: { mode: "random", mod: 3, offset: 0 } } } },
  ],
  [
    "the burst of a limit",
    {
      set: {
        op: "update",
        elem: saddr,
        set: "@s",
        stmt: [{ limit: { rate: 1, per: "hour", burst: 5, inv: true } }],
      },
    },
    { set: { op: "update", elem: saddr, set: "@s", stmt: [{ limit: { inv: true, per: "hour", rate: 1 } }] } },
  ],
  ["a reject", { reject: null }, { reject: { type: "icmpv6", expr: "port-unreachable" } }],
  ["masquerade", { masquerade: { flags: "fully-random" } }, { masquerade: { flags: ["fully-random"] } }],
  [
    "fib",
    match({ fib: { flags: "saddr", result: "type" } }, "local"),
    match({ fib: { result: "type", flags: ["saddr"] } }, "local"),
  ],
  ["a protocol", match({ meta: { key: "l4proto" } }, 6), match({ meta: { key: "l4proto" } }, "tcp")],
  [
    "a flow",
    { flow: { op: "add", flowtable: "@fast-path" } },
    { flow: { flowtable: "@fast-path", op: "add" } },
  ],
  ["a TCP flag", match({ payload: { protocol: "tcp", field: "flags" } }, 16, "in"), ACK],
  [
    "a deletion",
    { map: { op: "delete", elem: saddr, data: 0, map: "@m" } },
    { map: { op: "delete", elem: saddr, data: "none", map: "@m" } },
  ],
];

describe("canonicalRule", () => {
  test.each(SAME)("brings %s to one form with what nft lists", (_, written, listed) => {
    const form = canonicalRule([written]);
    expect(JSON.stringify(form)).toBe(JSON.stringify(canonicalRule([listed])));
    expect(JSON.stringify(canonicalRule(form))).toBe(JSON.stringify(form));
  });

  test("quotes the part that it does not know, and nothing around it", () => {
    const refused = {
      message: "cannot understand mode of numgen in nft's JSON",
      evidence: { json: '{"mode":"new"}' },
    };
    const value = { "|": [mark, { numgen: { mode: "new" } }] };
    expect(() => canonicalRule([{ mangle: { key: mark, value } }])).toThrowError(
      expect.objectContaining(refused),
    );
  });

  test.each([
    ["a statement", { log: { prefix: "x" } }, { log: { prefix: "x" } }],
    [
      "an expression",
      { mangle: { key: mark, value: { "|": [mark, { jhash: { mod: 2, expr: saddr } }] } } },
      { jhash: { mod: 2, offset: 0, expr: saddr } },
    ],
  ])("quotes %s that our rules never have", (_, statement, quoted) => {
    expect(() => canonicalRule([statement])).toThrowError(
      expect.objectContaining({
        message: "cannot understand what our rules never have in nft's JSON",
        evidence: { json: JSON.stringify(quoted) },
      }),
    );
  });

  test.each([
    ["an address", match(saddr, "10.0.0.5"), match(saddr, "10.0.0.6")],
    [
      "a gap between prefixes",
      match(saddr, prefix("10.0.0.0", 8)),
      match(saddr, { set: [prefix("10.0.0.0", 9), "10.128.0.1"] }),
    ],
    ["an operator", match(saddr, "10.0.0.5"), match(saddr, "10.0.0.5", "!=")],
    ["an operator that ours never have", match(mark, 5, ">="), match(mark, 5, "<")],
    [
      "an operation on a set",
      { set: { op: "add", elem: saddr, set: "@s" } },
      { set: { op: "delete", elem: saddr, set: "@s" } },
    ],
    [
      "an offset",
      { mangle: { key: priority, value: { numgen: { mode: "random", mod: 3 } } } },
      { mangle: { key: priority, value: { numgen: { mode: "random", mod: 3, offset: 1 } } } },
    ],
  ])("keeps rules apart that differ by %s", (_, one, other) => {
    expect(JSON.stringify(canonicalRule([one]))).not.toBe(JSON.stringify(canonicalRule([other])));
  });

  test.each([
    ["a statement", { log: null }],
    ["an option of a known statement", { dnat: { family: "ip", addr: "10.0.0.1", flags: "random" } }],
    ["a dnat without an address", { dnat: { family: "ip" } }],
    ["an expression", match({ rt: { key: "mtu" } }, 1)],
    ["an address", match(saddr, "10.0.0")],
    ["a reject", { reject: { type: "icmp", expr: "host-unreachable" } }],
    ["a mark", match(mark, "many")],
    ["a seed that the kernel chose", match({ jhash: { mod: 2, expr: saddr } }, 0)],
    ["a DSCP value", { mangle: { key: { payload: { protocol: "ip", field: "dscp" } }, value: "many" } }],
    [
      "prefixes written into a rule",
      match({ concat: [saddr, mark] }, { set: [{ concat: [prefix("10.0.0.0", 8), 5] }] }),
    ],
    ["an empty set", match(saddr, { set: [] })],
    ["a name that objects have", match({ payload: { protocol: "tcp", field: "flags" } }, "toString")],
    ["a TTL", { mangle: { key: { payload: { protocol: "ip", field: "ttl" } }, value: 7 } }],
  ])("refuses %s that it does not know", (_, statement) => {
    expect(() => canonicalRule([statement])).toThrowError(expect.objectContaining({ code: "NFT_OUTPUT" }));
  });
});
