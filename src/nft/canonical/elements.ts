import type { AnySet, IntervalElement, KeyPart } from "../ast/any-table.ts";
import type { Verdict } from "../ast/json.ts";
import { type ConstantType, familyOfType } from "../data-types.ts";
import { joinParts, verdictJson, verdictText } from "../elements.ts";
import { addressInterval } from "./address.ts";
import { readConstant } from "./constant.ts";
import { asList, asNumber, asObject, asObjectOf, asTagged, asText, notUnderstood } from "./shape.ts";

/**
 * Reads a verdict from a statement or an element's value; undefined for other statements.
 * @throws AppError NFT_OUTPUT
 */
export function readVerdict(statement: unknown): Verdict | undefined {
  const [kind, body] = asTagged(statement, "verdict");
  if (kind === "jump" || kind === "goto")
    return verdictJson(`${kind} ${asText(asObject(body, "verdict").target, "chain to go to")}`);
  return kind === "accept" || kind === "drop" || kind === "return" ? verdictJson(kind) : undefined;
}

/** An element's two halves; the value is undefined in a set. */
export function splitElement(
  item: unknown,
  isMap: boolean,
): { readonly key: unknown; readonly value: unknown } {
  if (!isMap) return { key: item, value: undefined };
  if (!Array.isArray(item) || item.length !== 2) throw notUnderstood("element of a map", item);
  return { key: item[0], value: item[1] };
}

/**
 * Reads the elements of any set or map, with the types of its key's parts.
 * @throws AppError NFT_OUTPUT for an element that is not understood
 */
export function readElements(
  spec: AnySet["spec"],
  items: readonly unknown[],
  types: readonly ConstantType[],
  kind: "set" | "map",
): AnySet {
  const elements = new Map<string, string>();
  const intervals: IntervalElement[] = [];
  for (const item of items) {
    const { key, value } = splitElement(item, kind === "map");
    const parts = keyParts(passingKey(key), types);
    const text = kind === "map" ? anyValueText(value) : "";
    if (parts.every((part) => part.kind === "exact"))
      elements.set(joinParts(...parts.map((part) => part.text)), text);
    else intervals.push({ parts, value: text });
  }
  return intervals.length === 0 ? { spec, elements } : { spec, elements, intervals };
}

/** Properties of an element that never end a rule. Others (`limit`, `quota`) may end the rule. */
const PASSING = ["val", "timeout", "expires", "comment", "counter", "last"];

/** An element's key without the wrapper that carries such properties. Refuses others. */
export function passingKey(key: unknown): unknown {
  if (typeof key !== "object" || key === null || !("elem" in key)) return key;
  return asObjectOf(key.elem, PASSING, "element").val;
}

function keyParts(key: unknown, types: readonly ConstantType[]): readonly KeyPart[] {
  if (typeof key !== "object" || key === null || !("concat" in key))
    return [keyPart(key, types[0] ?? "other")];
  return asList(key.concat, "key").map((part, index) => keyPart(part, types[index] ?? "other"));
}

function keyPart(part: unknown, type: ConstantType): KeyPart {
  if (part === "*") return { kind: "any" };
  const isName = type === "other" || type === "ifname";
  if (typeof part === "string" && isName && part.endsWith("*"))
    return { kind: "names", prefix: part.slice(0, -1) };
  if (typeof part === "string" || typeof part === "number") {
    return { kind: "exact", text: String(readConstant(part, type)) };
  }
  const [kind, body] = asTagged(part, "key");
  const family = familyOfType(type);
  if (family !== undefined) return { kind: "addresses", family, ...addressInterval(family, part) };
  if (kind !== "range") throw notUnderstood("key", part);
  const [first, last] = asList(body, kind).map((end) =>
    asNumber(readConstant(end as string | number, type), kind),
  );
  if (first === undefined || last === undefined) throw notUnderstood("key", part);
  return { kind: "numbers", first, last };
}

/** A map's value as text: a verdict, or the parts of a value. */
function anyValueText(value: unknown): string {
  if (typeof value === "string" || typeof value === "number") return String(value);
  const verdict = readVerdict(value);
  if (verdict !== undefined) return verdictText(verdict);
  const [kind, body] = asTagged(value, "value");
  if (kind !== "concat") throw notUnderstood("value", value);
  return joinParts(
    ...asList(body, kind).map((part) => (typeof part === "number" ? part : asText(part, kind))),
  );
}
