import fc from "fast-check";
import { expect, test } from "vitest";
import { withoutManagedFields } from "../../src/kube/reflector/managed-fields.ts";

const name = fc.constantFrom("managedFields", "metadata", 'a"managedFields', "managedFields:[", "]", "\\", "é");
const { value } = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.oneof(fc.integer(), name, fc.string(), fc.constant('"managedFields":[1]')),
    fc.array(tie("value"), { maxLength: 3 }),
    fc.dictionary(name, tie("value"), { maxKeys: 3 }),
  ),
}));

/** The value with every list of that name emptied. */
function emptied(whole: unknown): unknown {
  if (Array.isArray(whole)) return whole.map(emptied);
  if (typeof whole !== "object" || whole === null) return whole;
  return Object.fromEntries(
    Object.entries(whole).map(([key, part]) => [
      key,
      key === "managedFields" && Array.isArray(part) ? [] : emptied(part),
    ]),
  );
}

test("empties lists of managed fields in JSON text and changes nothing else", () => {
  fc.assert(
    fc.property(value, (whole) => {
      expect(JSON.parse(withoutManagedFields(JSON.stringify(whole)))).toEqual(emptied(whole));
    }),
  );
});

test("text that ends within managed fields is not valid JSON", () => {
  const text = JSON.stringify({ metadata: { managedFields: [{ manager: "[", fieldsV1: { "f:a": {} } }] } });
  for (let end = 1; end < text.length; end++) {
    expect(() => JSON.parse(withoutManagedFields(text.slice(0, end)))).toThrow(SyntaxError);
  }
});
