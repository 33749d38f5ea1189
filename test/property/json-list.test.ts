import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { AppError } from "../../src/base/errors.ts";
import { parseLongList } from "../../src/kube/files/json.ts";

const item = fc.dictionary(fc.constantFrom("metadata", "kind", "items", "a}", '"],'), fc.jsonValue(), {
  maxKeys: 4,
});
const indent = fc.constantFrom(undefined, 1, 4);
const word = fc.string({ maxLength: 5 });
const rest = fc.record(
  { kind: word, apiVersion: word, metadata: fc.jsonValue(), more: fc.array(item) },
  { requiredKeys: [] },
);

describe("the items of a list that is cut into pieces", () => {
  test("are those of the whole list, however it is written and whatever it holds", () => {
    fc.assert(
      fc.property(rest, fc.array(item, { maxLength: 6 }), rest, indent, (before, items, after, spaces) => {
        fc.pre(JSON.stringify({ ...before, ...after }, null, spaces).length < 8000);
        const text = JSON.stringify({ ...before, items, ...after }, null, spaces);
        const cut = parseLongList(text, "a.json", 0);
        if (cut === undefined) return;
        const { items: whole, kind, apiVersion } = JSON.parse(text);
        expect([...(cut.items ?? [])]).toEqual(whole);
        expect(cut.value).toEqual({ kind, apiVersion });
      }),
    );
  });

  test("are those of the whole text if it is JSON, and an error if it is not", () => {
    fc.assert(
      fc.property(
        fc.array(item, { minLength: 1, maxLength: 4 }),
        fc.nat(),
        fc.string({ maxLength: 2 }),
        (items, at, noise) => {
          const good = JSON.stringify({ kind: "List", items, apiVersion: "v1" });
          const place = at % good.length;
          const text = `${good.slice(0, place)}${noise}${good.slice(place + 1)}`;
          const cut = parseLongList(text, "a.json", 0);
          if (cut === undefined) return;
          const read = () => ({ ...(cut.value as object), items: [...(cut.items ?? [])] });
          if (isJson(text)) expect(read()).toEqual(JSON.parse(text));
          else expect(read).toThrow(AppError);
        },
      ),
    );
  });

  test("are an error that names the limit if too much text follows them", () => {
    const text = JSON.stringify({
      kind: "List",
      apiVersion: "v1",
      items: [{ a: 1 }],
      more: ["x".repeat(8192)],
    });
    const cut = parseLongList(text, "a.json", 0);
    expect(() => [...(cut?.items ?? [])]).toThrow("more than 8192 characters follow its items");
  });

  test("are found in what API servers and kubectl write", () => {
    const items = [{ metadata: { name: "a" }, spec: [1] }, { metadata: { name: "b" } }];
    for (const spaces of [undefined, 4]) {
      const list = { apiVersion: "v1", items, kind: "List", metadata: { resourceVersion: "" } };
      const cut = parseLongList(JSON.stringify(list, null, spaces), "a.json", 0);
      expect([...(cut?.items ?? [])]).toEqual(items);
    }
  });
});

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
