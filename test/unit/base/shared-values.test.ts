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

test("SharedValues does not keep values with long keys, and starts over after 4 MB of keys", () => {
  const lists = new SharedValues<readonly number[]>();
  const [first, second] = [[80], [80]];
  const long = "x".repeat(4001);
  expect(lists.share(long, first)).toBe(first);
  expect(lists.share(long, second)).toBe(second);
  expect(lists.share("80", first)).toBe(first);
  for (let i = 0; i < 999; i++) lists.share(`${i}`.padEnd(4000), []);
  expect(lists.share("80", second)).toBe(first);
  for (let i = 0; i < 3; i++) lists.share(`more ${i}`.padEnd(4000), []);
  expect(lists.share("80", second)).toBe(second);
});
