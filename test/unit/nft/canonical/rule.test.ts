import { describe, expect, test } from "vitest";
import { readRule } from "../../../../src/nft/canonical/rule.ts";

const saddr = { payload: { protocol: "ip", field: "saddr" } };
const dport = { payload: { protocol: "tcp", field: "dport" } };
const state = { ct: { key: "state" } };
const prefix = (addr: string, len: number) => ({ prefix: { addr, len } });

/** The right side of a comparison after it is read. */
function readRight(left: unknown, right: unknown, op = "=="): unknown {
  const [statement] = readRule([{ match: { op, left, right } }]);
  return statement !== undefined && "match" in statement ? statement.match.right : undefined;
}

describe("readRule", () => {
  test.each([
    [
      "joins addresses",
      saddr,
      { set: [prefix("10.128.0.0", 9), prefix("10.0.0.0", 9), "192.0.2.1"] },
      { set: [prefix("10.0.0.0", 8), "192.0.2.1"] },
    ],
    [
      "joins addresses with properties",
      saddr,
      { set: ["10.0.0.1", { elem: { val: "10.0.0.0", comment: "x" } }] },
      prefix("10.0.0.0", 31),
    ],
    ["sorts ports", dport, { set: [{ range: [80, 90] }, 8, 22, 8] }, { set: [22, 8, { range: [80, 90] }] }],
    ["takes a single port out of its set", dport, { set: [{ elem: { val: 80, comment: "x" } }] }, 80],
    ["sorts a list of bits", state, ["new", "established"], { set: ["established", "new"] }],
  ])("%s", (_, left, right, read) => {
    expect(readRight(left, right, left === state ? "in" : "==")).toEqual(read);
  });

  test.each([
    ["an address", saddr, "10.0.0.1", { elem: { val: "10.0.0.2", quota: {} } }],
    ["an address", saddr, "10.0.0.1", { unheard: "of" }],
    ["a port", dport, 80, { unheard: "of" }],
  ])("keeps %s beside a member that is not understood", (_, left, known, unknown) => {
    const notUnderstood = { notUnderstood: unknown, error: expect.anything() };
    expect(readRight(left, { set: [unknown, known] })).toEqual({
      set: expect.arrayContaining([known, notUnderstood]),
    });
  });
});
