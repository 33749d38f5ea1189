import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { ElementSet, Table } from "../../../../src/nft/ast/ruleset.ts";
import { canonicalRule } from "../../../../src/nft/canonical/canonical-rule.ts";
import { ruleText } from "../../../../src/nft/text/rule-text.ts";
import { chainText, setText, tableText } from "../../../../src/nft/text/table-text.ts";
import { parseWithElements } from "../../../support/listed-elements.ts";

const fixture = (name: string): string =>
  readFileSync(new URL(`../../../fixtures/town/${name}`, import.meta.url), "utf8");

const saddr = { payload: { protocol: "ip", field: "saddr" } };
const dport = { payload: { protocol: "th", field: "dport" } };
const iifname = { meta: { key: "iifname" } };
const mark = { meta: { key: "mark" } };
const match = (left: unknown, right: unknown, op = "==") => ({ match: { op, left, right } });

describe("tableText", () => {
  test("is what nft 1.1.3 prints of the same table", () => {
    const { ip } = parseWithElements(fixture("listed.ip.json"));
    expect(tableText(ip as Table)).toBe(fixture("listed.ip.nft"));
  });
});

describe("setText", () => {
  const set: ElementSet = {
    spec: {
      name: "ids",
      key: ["inet_service", "classid"],
      value: ["classid"],
      dynamic: false,
      counter: true,
    },
    elements: new Map([
      ["80 . 0", "65536"],
      ["80 . 1", "4294967295"],
    ]),
  };

  test("prints classids and properties as nft does", () => {
    expect(setText(set)).toBe(
      "\tmap ids {\n\t\ttypeof th dport . meta priority : meta priority\n\t\tcounter\n" +
        "\t\telements = { 80 . none : 1:0,\n\t\t\t     80 . 0:1 : root }\n\t}\n",
    );
  });

  test("puts comments after the commas", () => {
    const element = (_: unknown, key: string) => (key === "80 . 0" ? "shop/cart" : undefined);
    expect(setText(set, { element })).toContain(
      "elements = {\n\t\t\t80 . none : 1:0, # shop/cart\n\t\t\t80 . 0:1 : root\n\t\t}",
    );
  });
});

describe("chainText", () => {
  test.each([
    ["prerouting", -100, "dstnat"],
    ["prerouting", -110, "dstnat - 10"],
    ["prerouting", -111, "-111"],
    ["output", -110, "dstnat - 10"],
    ["input", 5, "filter + 5"],
    ["postrouting", 100, "srcnat"],
    ["input", 100, "100"],
  ] as const)("prints the priority of %s %d as %s", (hook, prio, text) => {
    const chain = chainText({ name: "c", base: { type: "filter", hook, prio, policy: "drop" }, rules: [] });
    expect(chain).toBe(`\tchain c {\n\t\ttype filter hook ${hook} priority ${text}; policy drop;\n\t}\n`);
  });
});

describe("ruleText", () => {
  test.each([
    [
      "ip saddr { 1.1.1.1-1.1.1.5, 9.9.9.9 }",
      match(saddr, { set: ["9.9.9.9", { range: ["1.1.1.1", "1.1.1.5"] }] }),
    ],
    ["ip saddr != 10.0.0.0/8", match(saddr, { prefix: { addr: "10.0.0.0", len: 8 } }, "!=")],
    ['iifname "veth*"', match(iifname, "veth*")],
    ['iifname != { "eth*", "lo" }', match(iifname, { set: ["lo", "eth*"] }, "!=")],
    ["th dport { 1, 5-6 }", match(dport, { set: [{ range: [5, 6] }, 1] })],
    ["meta l4proto { tcp, udp }", match({ meta: { key: "l4proto" } }, { set: ["udp", "tcp"] })],
    ["meta priority 0:5", match({ meta: { key: "priority" } }, 5)],
    ["meta mark 0x00000005", match(mark, 5)],
    ["meta mark & 0x00000001 == 0x00000000", match({ "&": [mark, 1] }, 0)],
    ["ct state & 1 == new", match({ "&": [{ ct: { key: "state" } }, 1] }, "new", "in")],
    ["ct state != new", match({ ct: { key: "state" } }, "new", "!=")],
    ["fib daddr . iif type local", match({ fib: { flags: ["daddr", "iif"], result: "type" } }, "local")],
    ["ip saddr != @cluster-ips", match(saddr, "@cluster-ips", "!=")],
    ["meta mark set meta mark & 0x000000ff", { mangle: { key: mark, value: { "&": [mark, 255] } } }],
    ["return", { return: null }],
  ])("prints %s", (text, statement) => {
    expect(ruleText(canonicalRule([statement]))).toBe(text);
  });
});
