import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { duplicateKey } from "../../../../src/kube/files/json-duplicates.ts";

const find = (text: string) => duplicateKey(text, 0, text.length);

/** Texts full of what ends texts and begins values, as JSON. */
const tricky = fc
  .string({ unit: fc.constantFrom('"', "\\", "{", "}", "[", "]", ":", ",", "k") })
  .map((text) => JSON.stringify(text));

describe("duplicateKey", () => {
  test("finds none in what JSON.stringify writes", () => {
    fc.assert(
      fc.property(fc.json(), (text) => {
        expect(find(text)).toBeUndefined();
      }),
    );
  });

  test("finds the second of two equal keys, wherever it is and however it is written", () => {
    const second = fc.constantFrom('"k"', '"\\u006b"');
    fc.assert(
      fc.property(tricky, tricky, fc.json(), second, (first, other, json, key) => {
        const before = `[{"k": 0}, {"a": ${first}, "k": [${other}, "k", {"k": 1}], "b": ${json}, `;
        expect(find(`${before}${key}: 1}]`)).toEqual({ key: "k", offset: before.length });
      }),
    );
  });

  test("looks at one document of several", () => {
    const text = '{"k": 1, "k": 2} {"a": 1} {"k": 1, "k": 2}';
    expect(duplicateKey(text, 16, 25)).toBeUndefined();
  });
});
