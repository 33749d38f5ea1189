import { describe, expect, test } from "vitest";
import { numberUpTo, oneOf } from "../../../src/base/argument.ts";

describe("an argument that is a number", () => {
  test.each([
    ["1", 1],
    ["10", 10],
  ])("%s is read", (text, number) => {
    expect(numberUpTo(10, "--rate", text)).toBe(number);
  });

  test.each(["", "0", "01", "11", "-1", "1.5", "1e1", " 1", "9".repeat(400)])(
    "%j is refused with its limits",
    (text) => {
      expect(() => numberUpTo(10, "--rate", text)).toThrow(/^--rate must be a number from 1 to 10, not "/);
    },
  );
});

test("a word that is none of the words is refused with them", () => {
  expect(oneOf("--verdict", ["served", "refused"], "served")).toBe("served");
  expect(() => oneOf("--verdict", ["served", "refused"], "serve")).toThrow(
    '--verdict must be served or refused, not "serve"',
  );
});
