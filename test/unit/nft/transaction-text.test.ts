import { readFileSync } from "node:fs";
import { Ajv } from "ajv";
import { describe, expect, test } from "vitest";
import type { AppError } from "../../../src/base/errors.ts";
import type { Transaction } from "../../../src/nft/ast/json.ts";
import { validateTransaction } from "../../../src/nft/transaction-text.ts";

const townText = readFileSync(new URL("../../fixtures/town/transaction.json", import.meta.url), "utf8");

function refusal(transaction: unknown): AppError {
  try {
    validateTransaction(transaction as Transaction);
  } catch (error) {
    return error as AppError;
  }
  throw new Error("was taken");
}

function element(...elem: unknown[]): unknown {
  return { nftables: [{ add: { element: { family: "ip", table: "nft-proxy", name: "endpoints", elem } } }] };
}

function statement(value: unknown): unknown {
  return {
    nftables: [{ add: { rule: { family: "ip", table: "nft-proxy", chain: "services", expr: [value] } } }],
  };
}

test("the schema of transactions is a valid JSON schema", () => {
  const text = readFileSync(new URL("../../../schemas/transaction.schema.json", import.meta.url), "utf8");
  expect(new Ajv({ allowUnionTypes: true }).validateSchema(JSON.parse(text))).toBe(true);
});

test("validateTransaction accepts the town's transaction", () => {
  expect(() => validateTransaction(JSON.parse(townText))).not.toThrow();
});

test("validateTransaction accepts commands without declarations, timed elements and interface names", () => {
  const name = { family: "ip6", table: "nft-proxy", name: "service-ips" };
  const timed = { elem: { val: { concat: ["::1", "tcp", 80] }, timeout: 10800, expires: 5 } };
  const transaction: unknown = {
    nftables: [
      { flush: { map: name } },
      { delete: { chain: name } },
      { add: { element: { ...name, elem: [[timed, 4294967295], "fd00::1"] } } },
    ],
  };
  expect(() => validateTransaction(transaction as Transaction)).not.toThrow();
  const match = { op: "==", left: { meta: { key: "iifname" } }, right: "veth*" };
  expect(() => validateTransaction(statement({ match }) as Transaction)).not.toThrow();
});

describe("validateTransaction refuses, with path and reason,", () => {
  test.each([
    [
      "an address with a command",
      element([{ concat: ["10.0.0.1; flush ruleset", "tcp", 80, 0] }, { concat: ["10.0.0.2", 80] }]),
      "elem[0][0].concat[0]",
    ],
    [
      "an address with a scope",
      element([{ concat: ["10.0.0.1", "tcp", 80, 0] }, { concat: ["fe80::1%eth0", 80] }]),
      "elem[0][1].concat[0]",
    ],
    [
      "an address with a leading zero",
      element([{ concat: ["010.1.1.1", "tcp", 80, 0] }, { drop: null }]),
      "elem[0][0].concat[0]",
    ],
    [
      "a host name for an address",
      element([{ concat: ["cafe.de", "tcp", 80, 0] }, { drop: null }]),
      "elem[0][0].concat[0]",
    ],
    ["a host name for a value", element("10.0.0.1", "localhost"), "elem[1]"],
    [
      "an unknown protocol",
      element([{ concat: ["10.0.0.1", "icmp"] }, { drop: null }]),
      "elem[0][0].concat[1]",
    ],
    ["a fraction", element([{ concat: ["10.0.0.1", 80.5] }, { drop: null }]), "elem[0][0].concat[1]"],
    [
      "a number of 33 bits",
      element([{ concat: ["10.0.0.1", 4294967296] }, { drop: null }]),
      "elem[0][0].concat[1]",
    ],
    ["two verdicts", element([{ concat: ["10.0.0.1", 80] }, { drop: null, accept: null }]), "elem[0][1]"],
    [
      "a chain name with a blank",
      element([{ concat: ["10.0.0.1", 80] }, { goto: { target: "x y" } }]),
      "elem[0][1].goto.target",
    ],
    [
      "a verdict with another key",
      element([{ concat: ["10.0.0.1", 80] }, { goto: { target: "x", extra: 1 } }]),
      "elem[0][1].goto",
    ],
    ["a map's key without its value", element([{ concat: ["10.0.0.1", 80] }]), "elem[0]"],
    ["three parts", element([{ concat: ["10.0.0.1", 80] }, { drop: null }, 1]), "elem[0]"],
    ["null", element(null), "elem[0]"],
  ])("an element with %s", (_what, transaction, path) => {
    const error = refusal(transaction);
    expect(error.code).toBe("INVALID_TRANSACTION");
    expect(error.evidence.path).toBe(`nftables[0].add.element.${path}`);
    expect(error.evidence.reason).toMatch(/^must /);
  });

  test.each([
    ["a chain name with a newline", statement({ jump: { target: "a\nb" } }), "expr[0].jump.target"],
    [
      "a chain name of 256 characters",
      statement({ jump: { target: "a".repeat(256) } }),
      "expr[0].jump.target",
    ],
    ["an unknown statement", statement({ log: {} }), "expr[0]"],
    ["two verdicts in one statement", statement({ accept: null, drop: null }), "expr[0]"],
    ["an empty statement", statement({}), "expr[0]"],
    [
      "an unknown meta key",
      statement({ match: { op: "==", left: { meta: { key: "skuid" } }, right: 0 } }),
      "expr[0].match.left.meta.key",
    ],
    [
      "an interface name with a command",
      statement({ match: { op: "==", left: "a", right: "veth0; drop" } }),
      "expr[0].match.right",
    ],
    ["a set without @", statement({ vmap: { key: "a", data: "service-ips" } }), "expr[0].vmap.data"],
    [
      "a modulus of 0",
      statement({ mangle: { key: "a", value: { numgen: { mode: "random", mod: 0, offset: 0 } } } }),
      "expr[0].mangle.value.numgen.mod",
    ],
  ])("a rule with %s", (_what, transaction, path) => {
    expect(refusal(transaction).evidence.path).toBe(`nftables[0].add.rule.${path}`);
  });

  test.each<[what: string, transaction: unknown, path: string]>([
    ["no commands", {}, ""],
    ["an array", [], ""],
    ["commands that are no array", { nftables: {} }, "nftables"],
    ["an unknown command", { nftables: [{ insert: {} }] }, "nftables[0]"],
    ["the whole ruleset", { nftables: [{ add: { ruleset: null } }] }, "nftables[0].add"],
    [
      "a table of another family",
      { nftables: [{ flush: { table: { family: "inet", name: "nft-proxy" } } }] },
      "nftables[0].flush.table.family",
    ],
    [
      "a table of another name",
      { nftables: [{ delete: { table: { family: "ip", name: "filter" } } }] },
      "nftables[0].delete.table.name",
    ],
  ])("%s", (_what, transaction, path) => {
    expect(refusal(transaction).evidence.path).toBe(path);
  });
});

test("every string of the town's transaction is checked against a pattern or a list", () => {
  const taken: string[] = [];
  const town: unknown = JSON.parse(townText);
  const poison = (value: unknown, path: string): void => {
    if (typeof value !== "object" || value === null) return;
    for (const [key, child] of Object.entries(value)) {
      if (typeof child === "string") {
        const holder = value as Record<string, unknown>;
        holder[key] = `${child}; flush ruleset`;
        if (passes(town)) taken.push(`${path}/${key}`);
        holder[key] = child;
      } else if (!Array.isArray(value) || Number(key) < 10) poison(child, `${path}/${key}`);
    }
  };
  const commands = (town as { nftables: unknown[] }).nftables;
  for (const command of commands.splice(0)) {
    commands[0] = command;
    poison(command, "");
  }
  expect(taken).toEqual([]);
});

function passes(transaction: unknown): boolean {
  try {
    validateTransaction(transaction as Transaction);
    return true;
  } catch {
    return false;
  }
}
