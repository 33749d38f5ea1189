import type { AnySet, IntervalElement, KeyPart } from "../ast/any-table.ts";
import { joinParts, verdictText } from "../elements.ts";
import { addressInterval } from "./address.ts";
import { type AnyType, anyConstant } from "./any-constant.ts";
import { unwrapKey } from "./place.ts";
import { canonicalVerdict } from "./rule.ts";
import { asList, asNumber, asObjectOf, asTagged, asText, notUnderstood } from "./shape.ts";

/**
 * Reads the elements of a set or map, with the types of its key's parts.
 * @throws AppError NFT_OUTPUT for an element that is not understood
 */
export function anyElements(
  spec: AnySet["spec"],
  items: readonly unknown[],
  types: readonly AnyType[],
  kind: "set" | "map",
): AnySet {
  const elements = new Map<string, string>();
  const intervals: IntervalElement[] = [];
  for (const item of items) {
    const [key, value] = kind === "map" ? pairOf(item) : [item, ""];
    const parts = keyParts(plainKey(key), types);
    const text = kind === "map" ? dataText(value) : "";
    if (parts.every((part) => part.kind === "exact")) elements.set(joinParts(...parts.map((part) => part.text)), text);
    else intervals.push({ parts, value: text });
  }
  return intervals.length === 0 ? { spec, elements } : { spec, elements, intervals };
}

/** Members of an element that let every packet pass; others (`limit`, `quota`) end the rule at times. */
const PASSING = ["val", "timeout", "expires", "comment", "counter", "last"];

function plainKey(key: unknown): unknown {
  if (typeof key === "object" && key !== null && "elem" in key) asObjectOf(key.elem, PASSING, "element");
  return unwrapKey(key);
}

function pairOf(item: unknown): readonly [unknown, unknown] {
  if (!Array.isArray(item) || item.length !== 2) throw notUnderstood("element of a map", item);
  return [item[0], item[1]];
}

function keyParts(key: unknown, types: readonly AnyType[]): readonly KeyPart[] {
  if (typeof key !== "object" || key === null || !("concat" in key)) return [keyPart(key, types[0] ?? "any")];
  return asList(key.concat, "key").map((part, index) => keyPart(part, types[index] ?? "any"));
}

function keyPart(part: unknown, type: AnyType): KeyPart {
  if (part === "*") return { kind: "any" };
  if (typeof part === "string" && type === "any" && part.endsWith("*"))
    return { kind: "names", prefix: part.slice(0, -1) };
  if (typeof part === "string" || typeof part === "number")
    return { kind: "exact", text: String(anyConstant(part, type)) };
  const [kind, body] = asTagged(part, "key");
  if (type === "ip" || type === "ip6") return { kind: "addresses", family: type, ...addressInterval(type, part) };
  if (kind !== "range") throw notUnderstood("key", part);
  const [first, last] = asList(body, kind).map((end) => asNumber(anyConstant(end as string | number, type), kind));
  if (first === undefined || last === undefined) throw notUnderstood("key", part);
  return { kind: "numbers", first, last };
}

/** A map's value as text: a verdict, or the parts of a value. */
function dataText(value: unknown): string {
  if (typeof value === "string" || typeof value === "number") return String(value);
  const verdict = canonicalVerdict(value);
  if (verdict !== undefined) return verdictText(verdict);
  const [kind, body] = asTagged(value, "value");
  if (kind !== "concat") throw notUnderstood("value", value);
  return joinParts(...asList(body, kind).map((part) => (typeof part === "number" ? part : asText(part, kind))));
}
