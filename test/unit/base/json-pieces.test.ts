import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { jsonPieces } from "../../../src/base/json-pieces.ts";

describe("jsonPieces", () => {
  test("yields the text of JSON.stringify, whatever the value", () => {
    const small = fc.oneof(fc.jsonValue({ maxDepth: 2 }), fc.constant(undefined));
    const list = fc.integer({ min: 0, max: 250 }).map(numbers);
    const fields = fc.dictionary(fc.string(), fc.oneof(small, list), { maxKeys: 4 });
    const mixed = fc.tuple(list, fields, list).map(([before, one, after]) => [...before, one, ...after]);
    const value = fc.record({ a: small, b: fc.array(fc.oneof(list, fields, mixed), { maxLength: 4 }) });
    fc.assert(
      fc.property(value, (one) => {
        expect([...jsonPieces(one)].join("")).toBe(JSON.stringify(one));
      }),
    );
  });

  test("writes other iterables as arrays", () => {
    const pairs = new Map(numbers(150).map((number) => [number, "x"]));
    const text = [...jsonPieces({ pairs, none: new Set() })].join("");
    expect(JSON.parse(text)).toEqual({ pairs: [...pairs], none: [] });
  });

  test.each([
    ["long arrays", { first: numbers(1000), second: "x" }],
    ["a long array within one of several short ones", [[1], { deep: [numbers(1000)] }, [2]]],
    ["long arrays among many items", [...numbers(150), { elements: numbers(1000) }, ...numbers(150)]],
  ])("divides %s into pieces of at most 100 items", (_, value) => {
    const pieces = [...jsonPieces(value)];
    expect(JSON.parse(pieces.join(""))).toEqual(value);
    expect(Math.max(...pieces.map((piece) => piece.split(",").length))).toBeLessThanOrEqual(102);
    expect(pieces.length).toBeGreaterThan(9);
  });
});

function numbers(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index);
}
