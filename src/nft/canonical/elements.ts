import { intervalText } from "../../base/address-interval.ts";
import type { AnySet, IntervalElement, KeyPart } from "../ast/any-table.ts";
import type { Verdict } from "../ast/json.ts";
import type { DataType, SetSpec } from "../ast/ruleset.ts";
import type { ConstantType } from "../data-types.ts";
import { type Element, joinParts, verdictText } from "../elements.ts";
import { addressInterval } from "./address.ts";
import { parseClassid, parseProtocol, readConstant } from "./constant.ts";
import { asList, asNumber, asObject, asObjectOf, asTagged, asText, notUnderstood } from "./shape.ts";

/**
 * Reads a verdict from a statement or an element's value; undefined for other statements.
 * @throws AppError NFT_OUTPUT
 */
export function readVerdict(statement: unknown): Verdict | undefined {
  const [kind, body] = asTagged(statement, "verdict");
  switch (kind) {
    case "accept":
      return { accept: null };
    case "drop":
      return { drop: null };
    case "return":
      return { return: null };
    case "jump":
      return { jump: { target: targetOf(body) } };
    case "goto":
      return { goto: { target: targetOf(body) } };
    default:
      return undefined;
  }
}

function targetOf(body: unknown): string {
  return asText(asObject(body, "verdict").target, "chain to go to");
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

/** An element's key without the wrapper that carries its timeout, counter and comment. */
export function unwrapKey(key: unknown): unknown {
  if (typeof key !== "object" || key === null || !("elem" in key)) return key;
  return asObject(key.elem, "element").val;
}

// The elements of our own sets. No closures and no regular expressions: a listing has 100,000 and more.

/**
 * Reads a listed element of one of our sets or maps, in canonical form.
 * @throws AppError NFT_OUTPUT if it is not understood
 */
export function parseElement(spec: SetSpec, item: unknown): Element {
  const { key, value } = splitElement(item, spec.value !== undefined);
  return { key: keyText(unwrapKey(key), spec), value: valueText(value, spec.value) };
}

/**
 * An element's key as canonical text: `10.96.0.10 . tcp . 53`, or of an interval set `10.0.0.0/8` or
 * `10.96.0.10 . tcp . 53-53`.
 */
export function keyText(key: unknown, spec: SetSpec): string {
  if (!spec.interval) return dataText(key, spec.key);
  return spec.key.length === 1 ? intervalKey(key, spec) : asRange(dataText(key, spec.key));
}

/** A key whose last part is a range. nft prints a range of one port as that port. */
function asRange(key: string): string {
  const last = key.slice(key.lastIndexOf(" ") + 1);
  return last.includes("-") ? key : `${key}-${last}`;
}

function intervalKey(key: unknown, { key: [type] }: SetSpec): string {
  const family = type === "ipv6_addr" ? "ip6" : "ip";
  return intervalText(family, addressInterval(family, key));
}

/** The parts of a key, or of a value that is no verdict, as canonical text. */
function dataText(data: unknown, types: readonly DataType[]): string {
  if (typeof data !== "object" || data === null) return partText(data, types[0]);
  const { concat } = data as { concat?: unknown };
  if (!Array.isArray(concat) || concat.length !== types.length) throw notUnderstood("element", data);
  let text = partText(concat[0], types[0]);
  for (let i = 1; i < types.length; i++) text += ` . ${partText(concat[i], types[i])}`;
  return text;
}

function partText(part: unknown, type: DataType | undefined): string {
  if (type === "classid") return String(parseClassid(part));
  if (type === "inet_proto" && part !== "tcp" && part !== "udp") return parseProtocol(part);
  if (typeof part === "string") return part;
  if (typeof part === "number") return String(part);
  if (type === "inet_service" && typeof part === "object" && part !== null && "range" in part) {
    return asList(part.range, "range").map(Number).join("-");
  }
  throw notUnderstood("element", part);
}

/** The value of a map's element as canonical text; "" in a set. */
function valueText(value: unknown, type: SetSpec["value"]): string {
  if (type === undefined) return "";
  return type === "verdict" ? verdictTextOf(value) : dataText(value, type);
}

function verdictTextOf(value: unknown): string {
  const verdict = readVerdict(value);
  if (verdict === undefined) throw notUnderstood("verdict", value);
  return verdictText(verdict);
}

// The elements of any set: keys may have prefixes, ranges and wildcards, and types that our sets do not have.

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

function passingKey(key: unknown): unknown {
  if (typeof key === "object" && key !== null && "elem" in key) asObjectOf(key.elem, PASSING, "element");
  return unwrapKey(key);
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
  if (type === "ipv4_addr" || type === "ipv6_addr") {
    const family = type === "ipv4_addr" ? "ip" : "ip6";
    return { kind: "addresses", family, ...addressInterval(family, part) };
  }
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
