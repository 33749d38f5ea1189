import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { messageOf } from "../../../../src/base/errors.ts";
import { parseJson } from "../../../../src/kube/files/json.ts";

/** The message of the refusal of a text that has a key twice; "" if it is parsed. */
function refusal(text: string): string {
  try {
    parseJson(text, "a.json", true);
    return "";
  } catch (error) {
    return messageOf(error);
  }
}

/** Texts full of what ends texts and begins values, as JSON. */
const tricky = fc
  .string({ unit: fc.constantFrom('"', "\\", "{", "}", "[", "]", ":", ",", "k") })
  .map((text) => JSON.stringify(text));

describe("the duplicate key of a JSON text", () => {
  test("is not found in what JSON.stringify writes", () => {
    fc.assert(
      fc.property(fc.json(), (text) => {
        expect(refusal(text)).toBe("");
      }),
    );
  });

  test("is the second of two equal keys, wherever it is and however it is written", () => {
    const second = fc.constantFrom('"k"', '"\\u006b"');
    fc.assert(
      fc.property(tricky, tricky, fc.json(), second, (first, other, json, key) => {
        const before = `[{"k": 0}, {"a": ${first}, "k": [${other}, "k", {"k": 1}], "b": ${json}, `;
        expect(refusal(`${before}${key}: 1}]`)).toBe(
          `cannot read a.json:1:${before.length + 1}: duplicate key "k"`,
        );
      }),
    );
  });

  test("is looked for in each of several documents", () => {
    expect(refusal('{"k": 1} {"k": 1}')).toBe("");
    expect(refusal('{"k": 1} {"a": 1, "a": 2}')).toBe('cannot read a.json:1:19: duplicate key "a"');
  });
});
