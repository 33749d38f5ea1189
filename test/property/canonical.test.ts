import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { addressNumber, addressText, addressWidth } from "../../src/base/address-interval.ts";
import type { Family } from "../../src/base/family.ts";
import type { Expression } from "../../src/nft/ast/json.ts";
import { addressInterval } from "../../src/nft/canonical/address.ts";
import { canonicalRule } from "../../src/nft/canonical/canonical-rule.ts";
import { formatClassid, parseClassid } from "../../src/nft/canonical/constant.ts";

/** Close together, so that they overlap and touch. */
const low = fc.bigInt({ min: 0n, max: 40n });

function members(family: Family): fc.Arbitrary<readonly Expression[]> {
  const address = fc.oneof(
    low,
    low.map((n) => (1n << BigInt(addressWidth(family))) - 1n - n),
  );
  const text = address.map((number) => addressText(family, number));
  const length = fc.integer({ min: addressWidth(family) - 6, max: addressWidth(family) });
  const member = fc.oneof(
    text,
    fc.tuple(text, length).map(([addr, len]) => ({ prefix: { addr, len } })),
    fc.tuple(text, text).map((ends) => {
      const [first, last] = ends.sort((a, b) =>
        addressNumber(family, a) < addressNumber(family, b) ? -1 : 1,
      );
      return { range: [first, last] as const };
    }),
  );
  return fc.array(member, { minLength: 1, maxLength: 6 });
}

function contains(family: Family, set: Expression, address: bigint): boolean {
  const items = typeof set === "object" && "set" in set ? set.set : [set];
  return items.some((item) => {
    const { first, last } = addressInterval(family, item);
    return first <= address && address <= last;
  });
}

describe.each(["ip", "ip6"] as const)("a rule's canonical set of %s addresses", (family) => {
  const left = { payload: { protocol: family, field: "saddr" } };
  const canonicalSetOf = (set: readonly Expression[]): Expression => {
    const [statement] = canonicalRule([{ match: { op: "==", left, right: { set } } }]);
    if (statement === undefined || !("match" in statement)) throw new Error("not a comparison");
    return statement.match.right;
  };

  test("holds the same addresses as the members given", () => {
    fc.assert(
      fc.property(
        members(family),
        fc.oneof(
          low,
          low.map((n) => n + 20n),
        ),
        (set, address) => {
          expect(contains(family, canonicalSetOf(set), address)).toBe(contains(family, { set }, address));
        },
      ),
    );
  });

  test("is the same for members in any order or repeated, and for the canonical set itself", () => {
    fc.assert(
      fc.property(members(family), (set) => {
        const form = canonicalSetOf(set);
        expect(canonicalSetOf(set.toReversed())).toEqual(form);
        expect(canonicalSetOf([...set, ...set])).toEqual(form);
        expect(canonicalSetOf(typeof form === "object" && "set" in form ? form.set : [form])).toEqual(form);
      }),
    );
  });
});

test("parseClassid reads what formatClassid writes as the same classid", () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 0xffffffff }), (classid) => {
      expect(parseClassid(formatClassid(classid))).toBe(classid);
    }),
  );
});
