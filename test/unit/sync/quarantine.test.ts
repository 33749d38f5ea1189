import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { bisect } from "../../../src/sync/quarantine.ts";

describe("bisect", () => {
  test("finds exactly the refused candidates, in about 2 log2 n attempts for each", async () => {
    const list = fc.integer({ min: 0, max: 300 });
    await fc.assert(
      fc.asyncProperty(list, fc.array(fc.nat(299), { maxLength: 5 }), async (count, picked) => {
        const candidates = Array.from({ length: count }, (_, index) => index);
        const bad = new Set(picked.filter((index) => index < count));
        let attempts = 0;
        let tried = 0;
        const refused = await bisect(candidates, async (selection) => {
          attempts++;
          tried += selection.length;
          return !selection.some((one) => bad.has(one));
        });
        expect(new Set(refused)).toEqual(bad);
        expect(tried).toBeLessThanOrEqual((3 + 2 * bad.size) * count);
        expect(attempts).toBeLessThanOrEqual(2 + bad.size * 2 * Math.ceil(Math.log2(count + 1)));
      }),
    );
  });

  test("finds one of two that are refused only together", async () => {
    const refused = await bisect(["a", "b", "c", "d"], async (selection) => {
      return !(selection.includes("a") && selection.includes("d"));
    });
    expect(refused).toEqual(["d"]);
  });

  test("throws the error of an attempt", async () => {
    await expect(bisect([1], () => Promise.reject(new Error("nft is gone")))).rejects.toThrow("nft is gone");
  });
});
