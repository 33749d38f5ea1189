import { socketText } from "../base/text.ts";
import type { ElementJson, Expression, Verdict } from "./ast/json.ts";
import type { DataType, SetSpec } from "./ast/ruleset.ts";

/** One element as canonical text; `value` is "" in a set (see ruleset.ts). */
export interface Element {
  readonly key: string;
  readonly value: string;
}

/** The elements of a set by key, one by one. */
export function elementsOf(elements: ReadonlyMap<string, string>): readonly Element[] {
  return Array.from(elements, ([key, value]) => ({ key, value }));
}

/** The separator of the parts of a canonical key or value. */
export const SEPARATOR = " . ";

/** Joins the parts of a key or value in canonical form. */
export function joinParts(...parts: readonly (string | number)[]): string {
  return parts.join(SEPARATOR);
}

/** The parts of a canonical key or value. */
export function splitParts(text: string): string[] {
  return text.split(SEPARATOR);
}

/** Formats an address and port (`10.244.1.16 . 53`) as `10.244.1.16:53`, or an address alone. */
export function targetText(target: string): string {
  const [address = "", port] = splitParts(target);
  return port === undefined ? address : socketText(address, port);
}

/** A verdict as canonical text: `goto balance-2`, `jump external-local`, `drop`. */
export function verdictText(verdict: Verdict): string {
  if ("goto" in verdict) return `goto ${verdict.goto.target}`;
  if ("jump" in verdict) return `jump ${verdict.jump.target}`;
  if ("drop" in verdict) return "drop";
  return "accept" in verdict ? "accept" : "return";
}

/** The target chain of a canonical verdict; undefined for none. */
export function verdictTarget(text: string): string | undefined {
  return text.startsWith("goto ") || text.startsWith("jump ") ? text.slice(5) : undefined;
}

/** A verdict from its canonical text. */
export function verdictJson(text: string): Verdict {
  const target = verdictTarget(text);
  if (target !== undefined) return text.startsWith("goto ") ? { goto: { target } } : { jump: { target } };
  if (text === "drop") return { drop: null };
  if (text === "accept") return { accept: null };
  if (text === "return") return { return: null };
  throw new Error(`not a verdict: ${text}`);
}

/** An element listed from the kernel. */
export interface ListedElement extends Element {
  /** With counters: packets that matched since the element was added; in a nat chain, connections. */
  readonly packets?: number | undefined;
  /** Of an element with a timeout: its own, if not that of the map, and the time left. Milliseconds. */
  readonly timeoutMs?: number | undefined;
  readonly expiresMs?: number | undefined;
}

/** An element of one of our sets or maps, to be added. */
export function elementJson(spec: SetSpec, { key, value }: Element): ElementJson {
  const keyPart = keyJson(spec, key);
  // Before Linux 5.11, an element has a counter only if it is added with one.
  if (spec.value === undefined) return spec.counter ? { elem: { val: keyPart, counter: null } } : keyPart;
  return [keyPart, valueJson(spec.value, value)];
}

/** An element that packets added to a dynamic map, to be added elsewhere with the time that it has left. */
export function timedElementJson(
  spec: SetSpec,
  { key, value, timeoutMs = 0, expiresMs = timeoutMs }: ListedElement,
): ElementJson {
  const times = { timeout: Math.ceil(timeoutMs / 1000), expires: Math.ceil(expiresMs / 1000) };
  return [{ elem: { val: keyJson(spec, key), ...times } }, valueJson(spec.value ?? [], value)];
}

/** The key of an element, which is enough to delete it. */
export function keyJson(spec: SetSpec, text: string): Expression {
  return spec.interval && spec.key.length === 1 ? intervalJson(text) : partsJson(spec.key, text);
}

function valueJson(type: NonNullable<SetSpec["value"]>, text: string): Expression | Verdict {
  return type === "verdict" ? verdictJson(text) : partsJson(type, text);
}

/** An address, prefix or range from its canonical text. */
export function intervalJson(text: string): Expression {
  const [first = "", last] = text.split("-");
  if (last !== undefined) return { range: [first, last] };
  const [addr = "", length] = text.split("/");
  return length === undefined ? addr : { prefix: { addr, len: Number(length) } };
}

function partsJson(types: readonly DataType[], text: string): Expression {
  if (types.length === 1) return partJson(types[0] as DataType, text);
  // Allocated with its length: a growing array reserves room for 16 more, and each element needs two arrays.
  const concat = new Array<Expression>(types.length);
  let from = 0;
  for (let i = 0; i < types.length; i++) {
    const until = i === types.length - 1 ? text.length : text.indexOf(SEPARATOR, from);
    concat[i] = partJson(types[i] as DataType, text.slice(from, until));
    from = until + SEPARATOR.length;
  }
  return { concat };
}

const OUR_PROTOCOLS: ReadonlySet<string> = new Set(["tcp", "udp", "sctp"]);

/** Writes other protocols, which only other programs add, by number: nft may not know their names. */
function foreignProtocol(text: string): string | number {
  if (text === "icmp") return 1;
  if (text === "icmpv6") return 58;
  return /^\d+$/.test(text) ? Number(text) : text;
}

function partJson(type: DataType, text: string): Expression {
  if (type === "inet_service" && text.includes("-"))
    return { range: text.split("-").map(Number) as [number, number] };
  if (type === "inet_proto" && !OUR_PROTOCOLS.has(text)) return foreignProtocol(text);
  return type === "inet_service" || type === "classid" || type === "integer" ? Number(text) : text;
}
