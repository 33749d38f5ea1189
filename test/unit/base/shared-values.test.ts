import { expect, test } from "vitest";
import { SharedValues } from "../../../src/base/shared-values.ts";

test("SharedValues returns the first of equal values, and starts over after 20,000 different ones", () => {
  const lists = new SharedValues<readonly number[]>();
  const [first, second] = [[80], [80]];
  expect(lists.share("80", first)).toBe(first);
  expect(lists.share("80", second)).toBe(first);
  for (let i = 0; i < 20_000; i++) lists.share(`other ${i}`, []);
  expect(lists.share("80", second)).toBe(second);
});
