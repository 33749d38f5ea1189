import { intervalText } from "../../src/base/address-interval.ts";
import type { DataType, Ruleset, SetSpec } from "../../src/nft/ast/ruleset.ts";
import { addressInterval } from "../../src/nft/canonical/address.ts";
import { parseClassid, parseProtocol } from "../../src/nft/canonical/constant.ts";
import { readVerdict, splitElement } from "../../src/nft/canonical/elements.ts";
import { listedObjects, memberOf, ownFamily, parseListing } from "../../src/nft/canonical/parse.ts";
import { asList, asObject, notUnderstood } from "../../src/nft/canonical/shape.ts";
import { type Element, verdictText } from "../../src/nft/elements.ts";

/** The canonical ruleset of nft's JSON listing with elements, which the daemon itself reads by netlink. */
export function parseWithElements(text: string): Ruleset {
  const ruleset = parseListing(text);
  for (const { kind, body } of listedObjects(text)) {
    const family = ownFamily(kind, body);
    if (family === undefined || body.elem === undefined) continue;
    placeElements(memberOf(ruleset[family]?.sets ?? new Map(), body.name), asList(body.elem, kind));
  }
  return ruleset;
}

/** A map of verdicts as nft lists it, whatever its declaration; other objects unchanged. */
export function asListed<T extends { readonly map?: unknown }>(object: T): T {
  return JSON.stringify(object.map) === WRITTEN_VERDICT ? { ...object, map: "verdict" } : object;
}

/** The values of a map of verdicts as we declare it. */
const WRITTEN_VERDICT = JSON.stringify({ typeof: { accept: null } });

/** Adds elements in nft's JSON to a set; packets fill dynamic ones. */
export function placeElements(
  { spec, elements }: { readonly spec: SetSpec; readonly elements: Map<string, string> },
  list: readonly unknown[],
): void {
  if (spec.dynamic) return;
  for (const item of list) {
    const { key, value } = parseElement(spec, item);
    elements.set(key, value);
  }
}

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

/** An element's key without the wrapper that carries its timeout, counter and comment. */
export function unwrapKey(key: unknown): unknown {
  if (typeof key !== "object" || key === null || !("elem" in key)) return key;
  return asObject(key.elem, "element").val;
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
