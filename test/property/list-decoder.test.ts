import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ListDecoder } from "../../src/kube/decode/list-decoder.ts";

const item = fc.dictionary(fc.constantFrom("metadata", "spec", "items", "a}", '"],', "é"), fc.jsonValue(), {
  maxKeys: 4,
});
const object = fc
  .tuple(fc.string(), item)
  .map(([name, rest]) => ({ metadata: { name, list: [{ metadata: 1 }] }, ...rest }));
const objects = fc.array(object, { maxLength: 6 });
const sizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1 });

/** Decodes a text that arrives in chunks of these sizes in turn. */
function decode(text: string, chunkSizes: readonly number[]) {
  const items: unknown[] = [];
  const decoder = new ListDecoder((one) => items.push(one));
  for (let at = 0, n = 0; at < text.length; n++) {
    const size = chunkSizes[n % chunkSizes.length] ?? 1;
    decoder.push(text.slice(at, at + size));
    at += size;
  }
  return { items, metadata: decoder.end().metadata };
}

describe("a list that arrives in chunks", () => {
  test("has the items and metadata of the whole list, wherever chunks end and whatever the items contain", () => {
    fc.assert(
      fc.property(objects, fc.constantFrom(undefined, 2), sizes, (items, spaces, chunkSizes) => {
        const metadata = { resourceVersion: "7", continue: "next", remainingItemCount: 3 };
        const text = JSON.stringify({ kind: "ServiceList", apiVersion: "v1", metadata, items }, null, spaces);
        expect(decode(`${text}\n`, chunkSizes)).toEqual({ items: JSON.parse(text).items, metadata });
      }),
    );
  });

  test("may have its metadata, with arrays, after the items", () => {
    fc.assert(
      fc.property(objects, sizes, (items, chunkSizes) => {
        const metadata = { resourceVersion: "7", more: [[1], ["]"]] };
        const text = JSON.stringify({ kind: "List", items, metadata });
        expect(decode(text, chunkSizes)).toEqual({ items: JSON.parse(text).items, metadata });
      }),
    );
  });

  test("may have long text after the items", () => {
    fc.assert(
      fc.property(objects, fc.nat(20_000), (items, length) => {
        const metadata = { resourceVersion: "7", note: "]}".repeat(length) };
        const text = JSON.stringify({ kind: "List", items, metadata });
        expect(decode(text, [4096])).toEqual({ items: JSON.parse(text).items, metadata });
      }),
    );
  });

  test("is refused when its text is damaged, or has exactly the items that the damaged text has", () => {
    fc.assert(
      fc.property(
        fc.array(object, { minLength: 1, maxLength: 4 }),
        fc.nat(),
        fc.string({ maxLength: 2 }),
        sizes,
        (...given) => {
          const [items, at, noise, chunkSizes] = given;
          const good = JSON.stringify({ kind: "List", metadata: { resourceVersion: "7" }, items });
          const place = at % good.length;
          const text = `${good.slice(0, place)}${noise}${good.slice(place + 1)}`;
          try {
            expect(decode(text, chunkSizes).items).toEqual(JSON.parse(text).items ?? []);
          } catch (error) {
            expect(error).toBeInstanceOf(SyntaxError);
          }
        },
      ),
    );
  });

  test("has all items if they are not written alike, even if it is long", () => {
    const items = Array.from({ length: 90 }, (_, n) => ({
      metadata: { name: `${n}`, note: "x".repeat(2 ** 17) },
    }));
    const text = `{"kind":"List","items":[${items.map((one) => JSON.stringify(one)).join(" , ")}],"metadata":{}}`;
    expect(decode(text, [2 ** 16])).toEqual({ items, metadata: {} });
  });

  test.each([
    [
      "if it is cut short after an item",
      '{"kind":"List","metadata":{"resourceVersion":"7"},"items":[{"metadata":{}},{"metadata":{}}',
    ],
    [
      "if it is cut short within an item",
      '{"kind":"List","metadata":{"resourceVersion":"7"},"items":[{"metadata":{}},{"met',
    ],
    ["if it is cut short before its items", '{"kind":"List","metadata":{"resourceVersion":"7"'],
    ["with an object for items", '{"kind":"List","metadata":{"resourceVersion":"7"},"items":{}}'],
    [
      "with text after its end",
      '{"kind":"List","metadata":{"resourceVersion":"7"},"items":[{"metadata":{}}]} {}',
    ],
    [
      "with another array of that name before its items",
      '{"kind":"List","metadata":{"items":[{"a":1},{"a":2}]},"items":[{"a":3}]}',
    ],
    ["with items twice", '{"kind":"List","items":[{"a":1},{"a":2}],"items":[{"a":3}]}'],
    ["if it is empty", ""],
  ])("is refused %s", (_name, text) => {
    expect(() => decode(text, [7])).toThrow(SyntaxError);
  });

  test("has no items if the server sends null", () => {
    const text = '{"kind":"List","metadata":{"resourceVersion":"7"},"items":null}';
    expect(decode(text, [5])).toEqual({ items: [], metadata: { resourceVersion: "7" } });
  });
});
