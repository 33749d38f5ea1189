import { describe, expect, test } from "vitest";
import type { SetSpec } from "../../../src/nft/ast/ruleset.ts";
import { SetComparison } from "../../../src/nft/set-comparison.ts";

const spec: SetSpec = { name: "m", key: ["ipv4_addr"], value: "verdict", dynamic: false, counter: false };

/** Compares listed elements with desired ones; `meanwhile` runs before the last one is listed. */
function compare(
  desired: Record<string, string>,
  listed: readonly (readonly [string, string])[],
  meanwhile: (elements: Map<string, string>) => void = () => {},
) {
  const elements = new Map(Object.entries(desired));
  const comparison = new SetComparison({ spec, elements });
  for (const key of elements.keys()) comparison.expect(key);
  for (const [index, [key, value]] of listed.entries()) {
    if (index === listed.length - 1) meanwhile(elements);
    comparison.listed(key, value);
  }
  return comparison.result();
}

describe("SetComparison", () => {
  test("finds no difference if all elements are listed, in any order", () => {
    expect(
      compare({ a: "drop", b: "accept" }, [
        ["b", "accept"],
        ["a", "drop"],
      ]),
    ).toEqual([]);
  });

  test("finds elements that are missing, additional or different", () => {
    const found = compare({ a: "drop", b: "accept", c: "drop" }, [
      ["x", "drop"],
      ["b", "drop"],
      ["c", "drop"],
    ]);
    expect(found).toEqual([
      {
        spec,
        deleted: [
          { key: "b", value: "drop" },
          { key: "x", value: "drop" },
        ],
        added: [
          { key: "a", value: "drop" },
          { key: "b", value: "accept" },
        ],
      },
    ]);
  });

  test("finds an element once that is listed twice, with its first value", () => {
    const found = compare({ a: "drop" }, [
      ["x", "drop"],
      ["a", "accept"],
      ["x", "accept"],
      ["a", "accept"],
    ]);
    expect(found).toEqual([
      {
        spec,
        deleted: [
          { key: "a", value: "accept" },
          { key: "x", value: "drop" },
        ],
        added: [{ key: "a", value: "drop" }],
      },
    ]);
    expect(
      compare({ a: "drop" }, [
        ["a", "drop"],
        ["a", "drop"],
      ]),
    ).toEqual([]);
  });

  test("ignores elements that were added or deleted during the comparison", () => {
    const found = compare({ a: "drop", b: "drop" }, [["a", "drop"]], (elements) => {
      elements.delete("b");
      elements.set("c", "drop");
    });
    expect(found).toEqual([]);
  });
});
