import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { SetListingParser } from "../../src/nft/canonical/set-listing.ts";

const element = fc.oneof(
  fc.constantFrom("10.96.0.1", 80, "a]b", 'a"b,', "a\\", "\\", "]", "{", "é"),
  fc.array(fc.jsonValue({ maxDepth: 2 }), { maxLength: 3 }),
  fc.record({ concat: fc.array(fc.string(), { maxLength: 3 }) }),
);
const sizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1 });

/** Parses a text that arrives in pieces of these sizes in turn. */
function parse(text: string, pieceSizes: readonly number[]): unknown[] {
  const elements: unknown[] = [];
  const parser = new SetListingParser((one) => elements.push(one));
  for (let at = 0, n = 0; at < text.length; n++) {
    const size = pieceSizes[n % pieceSizes.length] ?? 1;
    parser.push(text.slice(at, at + size));
    at += size;
  }
  parser.end();
  return elements;
}

function listingOf(elem: readonly unknown[], spaces?: number): string {
  const map = {
    family: "ip",
    name: "endpoints",
    table: "nft-proxy",
    map: "classid",
    elem,
    stmt: [{ counter: null }],
  };
  return `${JSON.stringify({ nftables: [{ metainfo: { version: "1.1.3" } }, { map }] }, null, spaces)}\n`;
}

describe("a set's listing that arrives in pieces", () => {
  test("has the elements of the whole listing, wherever pieces end and whatever the elements contain", () => {
    fc.assert(
      fc.property(
        fc.array(element, { maxLength: 8 }),
        fc.constantFrom(undefined, 2),
        sizes,
        (elem, spaces, pieces) => {
          expect(parse(listingOf(elem, spaces), pieces)).toEqual(JSON.parse(JSON.stringify(elem)));
        },
      ),
    );
  });

  test("has no elements if nft prints none", () => {
    const text = JSON.stringify({
      nftables: [{ set: { family: "ip", name: "cluster-ips", table: "nft-proxy" } }],
    });
    expect(parse(text, [7])).toEqual([]);
  });

  test("is refused when its text is damaged or ends early", () => {
    const text = listingOf([["10.96.0.1", 80], "b"]).trim();
    const isRefused = expect.objectContaining({ code: "NFT_OUTPUT" });
    for (let end = 0; end < text.length; end++)
      expect(() => parse(text.slice(0, end), [7])).toThrowError(isRefused);
    for (const damaged of [text.replace("80", "8 0"), text.replace("],", "}],"), `${text}]`]) {
      expect(() => parse(damaged, [7])).toThrowError(isRefused);
    }
  });
});
