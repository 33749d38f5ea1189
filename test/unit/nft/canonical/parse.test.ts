import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { Family } from "../../../../src/base/family.ts";
import type { Transaction } from "../../../../src/nft/ast/json.ts";
import { flowtableDevices, listedObjects } from "../../../../src/nft/canonical/parse.ts";
import { applyTransaction } from "../../../support/apply-transaction.ts";
import { parseWithElements } from "../../../support/listed-elements.ts";

const fixture = (name: string): string =>
  readFileSync(new URL(`../../../fixtures/town/${name}`, import.meta.url), "utf8");
const town = JSON.parse(fixture("transaction.json")) as Transaction;
const listed = (family: Family) => parseWithElements(fixture(`listed.${family}.json`));

const listing = (...objects: object[]): string =>
  JSON.stringify({
    nftables: [{ metainfo: {} }, { table: { family: "ip", name: "nft-proxy" } }, ...objects],
  });
const map = (extra: object): object => ({
  map: {
    family: "ip",
    table: "nft-proxy",
    name: "m",
    type: ["ipv4_addr", "classid"],
    map: "classid",
    ...extra,
  },
});
const parse = (...objects: object[]) => parseWithElements(listing(...objects))?.ip;

describe("parseListing", () => {
  test.each(["ip", "ip6"] as const)(
    "reads what nft 1.1.3 lists of %s as what the transaction asked for",
    (family) => {
      const wanted = applyTransaction({}, town)[family];
      expect(listed(family)[family]).toEqual(wanted);
      expect([...(wanted?.chains.values() ?? [])].flatMap((chain) => chain.rules).length).toBeGreaterThan(50);
    },
  );

  test("reads elements as canonical text from every form that nft writes", () => {
    const elem = [
      [{ concat: ["10.0.0.1", "none"] }, "root"],
      [
        { elem: { val: { concat: ["10.0.0.2", "0:1"] }, counter: { packets: 1, bytes: 2 }, comment: "x" } },
        ":2",
      ],
      [{ concat: ["10.0.0.3", "8f58:b1bc"] }, "1:"],
      [{ concat: ["10.0.0.4", 5] }, 6],
    ];
    expect([...(parse(map({ elem, stmt: [{ counter: null }] }))?.sets.get("m")?.elements ?? [])]).toEqual([
      ["10.0.0.1 . 0", "4294967295"],
      ["10.0.0.2 . 1", "2"],
      ["10.0.0.3 . 2404954556", "65536"],
      ["10.0.0.4 . 5", "6"],
    ]);
  });

  test("reads a declaration in either version's form", () => {
    const elsewhere = map({
      type: "ipv4_addr . classid",
      map: "ipv4_addr . inet_service",
      flags: ["timeout", "dynamic"],
    });
    expect(parse(elsewhere)?.sets.get("m")?.spec).toEqual({
      name: "m",
      key: ["ipv4_addr", "classid"],
      value: ["ipv4_addr", "inet_service"],
      dynamic: true,
      counter: false,
    });
  });

  test("reads a set of ranges, however nft writes them", () => {
    const elem = ["10.0.0.1", { prefix: { addr: "10.1.0.0", len: 16 } }, { range: ["10.2.0.1", "10.2.0.9"] }];
    const equal = [
      { prefix: { addr: "10.0.0.1", len: 32 } },
      { range: ["10.1.0.0", "10.1.255.255"] },
      elem[2],
    ];
    for (const elements of [elem, equal]) {
      const set = {
        family: "ip",
        table: "nft-proxy",
        name: "s",
        type: "ipv4_addr",
        flags: ["interval"],
        elem: elements,
      };
      const { spec, elements: read } = parse({ set })?.sets.get("s") ?? {};
      expect(spec).toEqual({ name: "s", key: ["ipv4_addr"], dynamic: false, counter: false, interval: true });
      expect([...(read?.keys() ?? [])]).toEqual(["10.0.0.1", "10.1.0.0/16", "10.2.0.1-10.2.0.9"]);
    }
  });

  test("reads a declaration by expressions, whose values nft lists by the names of their types", () => {
    const concat = [{ payload: { protocol: "ip", field: "daddr" } }, { meta: { key: "priority" } }];
    const listed = map({ type: { typeof: { concat } }, map: ["ipv4_addr", "inet_service"] });
    expect(parse(listed)?.sets.get("m")?.spec).toEqual({
      name: "m",
      key: ["ipv4_addr", "classid"],
      value: ["ipv4_addr", "inet_service"],
      dynamic: false,
      counter: false,
    });
  });

  test("refuses a declaration by an expression that we never use", () => {
    const listed = map({ type: { typeof: { meta: { key: "mark" } } }, map: "verdict" });
    expect(() => parse(listed)).toThrow(/type/);
  });

  test.each([
    ["dstnat", -100],
    ["dstnat - 10", -110],
    ["filter", 0],
    ["srcnat+5", 105],
    ["-110", -110],
    [-110, -110],
  ])("reads the priority %s as %d", (prio, number) => {
    const chain = {
      family: "ip",
      table: "nft-proxy",
      name: "c",
      type: "nat",
      hook: "output",
      prio,
      policy: "accept",
    };
    expect(parse({ chain })?.chains.get("c")?.base?.prio).toBe(number);
  });

  test("ignores other tables and reads protocol numbers as names", () => {
    const set = { family: "ip", table: "nft-proxy", name: "s", type: ["inet_proto", "inet_service"] };
    const table = parse(
      { set: { ...set, elem: [{ concat: [17, 53] }, { concat: ["sctp", 53] }] } },
      { set: { ...set, table: "other", type: "mark" } },
    );
    expect([...(table?.sets.get("s")?.elements.keys() ?? [])]).toEqual(["udp . 53", "sctp . 53"]);
  });

  test.each(["udp", 17])("reads the protocol of timeouts, by name or as the number %s", (protocol) => {
    const object = {
      family: "ip",
      table: "nft-proxy",
      name: "timeouts-1",
      protocol,
      policy: { replied: 300 },
    };
    expect(parse({ "ct timeout": object })?.timeouts?.get("timeouts-1")).toEqual({
      name: "timeouts-1",
      protocol: "udp",
      policy: { unreplied: 30, replied: 300 },
    });
  });

  const flowtable = {
    family: "ip",
    table: "nft-proxy",
    name: "fast-path",
    handle: 2,
    hook: "ingress",
    prio: 0,
  };

  test.each([[undefined], ["eth0"], [["eth0", "veth1"]]])(
    "reads our flow table without its devices (%j)",
    (dev) => {
      const listed = { flowtable: { ...flowtable, ...(dev !== undefined && { dev }) } };
      expect(parse(listed)?.flowtable).toEqual({ name: "fast-path", hook: "ingress", prio: 0 });
      const devices = flowtableDevices(listing(listed));
      expect(devices).toEqual({ ip: dev === undefined ? [] : [dev].flat() });
    },
  );

  test("refuses a second flow table in our table", () => {
    const second = { flowtable: { ...flowtable, name: "other" } };
    expect(() => parse({ flowtable }, second)).toThrowError(expect.objectContaining({ code: "NFT_OUTPUT" }));
  });

  test("reads the devices of our flow tables alone", () => {
    const other = { flowtable: { ...flowtable, table: "other", dev: "eth0" } };
    expect(flowtableDevices(listing(other))).toEqual({});
  });

  test.each([
    ["a flow table that hardware handles", { flowtable: { ...flowtable, flags: "offload" } }],
    ["a foreign type", map({ type: "mark" })],
    ["a foreign flag", map({ flags: ["constant"] })],
    ["a short key", map({ elem: [[{ concat: ["10.0.0.1"] }, "none"]] })],
    ["a rule of a missing chain", { rule: { family: "ip", table: "nft-proxy", chain: "no", expr: [] } }],
    ["an unknown object", { quota: { family: "ip", table: "nft-proxy", name: "f" } }],
  ])("refuses %s", (_, object) => {
    expect(() => parse(object)).toThrowError(expect.objectContaining({ code: "NFT_OUTPUT" }));
  });

  test("refuses text that is not JSON", () => {
    expect(() => listedObjects("table ip nft-proxy {")).toThrowError(
      expect.objectContaining({ code: "NFT_OUTPUT" }),
    );
  });
});

test("elements that packets add are no part of the ruleset", () => {
  const elem = [[{ elem: { val: { concat: ["9.9.9.9", "none"] }, timeout: 600, expires: 599 } }, "8000:1"]];
  expect(parse(map({ flags: ["timeout", "dynamic"], elem }))?.sets.get("m")?.elements.size).toBe(0);
});
