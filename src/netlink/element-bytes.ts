import { type AddressInterval, addressWidth, intervalText } from "../base/address-interval.ts";
import type { Family } from "../base/family.ts";
import { formatIPv6, parseIPv6 } from "../base/ipv6.ts";
import type { DataType, SetSpec } from "../nft/ast/ruleset.ts";
import { parseProtocol, protocolNumber } from "../nft/canonical/constant.ts";
import { familyOfType } from "../nft/data-types.ts";
import { type Element, SEPARATOR } from "../nft/elements.ts";
import { type Endianness, padded } from "./attributes.ts";
import type { RawElement } from "./raw-element.ts";

/** The parts of an element that are compared; timeouts and counters are not. */
export type EncodedElement = Pick<RawElement, "key" | "keyEnd" | "isEnd" | "value">;

/** How the kernel writes a type. In a concatenation, each part is padded to a multiple of four bytes. */
interface Form {
  /** Size in bytes. */
  readonly width: number;
  readonly encode: (text: string, order: Endianness) => string;
  readonly decode: (bytes: string, at: number, order: Endianness) => string;
}

const HOST_NUMBER: Form = {
  width: 4,
  encode: (text, order) => encodedHost32(Number(text), order),
  decode: (bytes, at, order) => String(decodedHost32(bytes, at, order)),
};

const FORMS: Readonly<Record<DataType, Form>> = {
  ipv4_addr: { width: 4, encode: encodedIPv4, decode: decodedIPv4 },
  ipv6_addr: { width: 16, encode: encodedIPv6, decode: decodedIPv6 },
  inet_proto: {
    width: 1,
    encode: (text) => String.fromCharCode(protocolNumber(text)),
    decode: (bytes, at) => parseProtocol(bytes.charCodeAt(at)),
  },
  inet_service: {
    width: 2,
    encode: (text) => encoded16(Number(text)),
    decode: (bytes, at) => String(decoded16(bytes, at)),
  },
  classid: HOST_NUMBER,
  integer: HOST_NUMBER,
};

const PADDING = ["", "\0", "\0\0", "\0\0\0"];

/** Whether the kernel has two elements for each interval: one at its start and one after its end. */
export function hasEndElements({ interval, key }: SetSpec): boolean {
  return interval === true && key.length === 1;
}

/**
 * Decodes an element of the kernel to canonical text; undefined if none of our sets can have it. Not for sets
 * with end elements, for which there is {@link decodedIntervals}.
 */
export function decodedElement(spec: SetSpec, raw: EncodedElement, order: Endianness): Element | undefined {
  const key = raw.isEnd ? undefined : decodedKey(spec, raw, order);
  const value = decodedValue(spec, raw.value, order);
  return key === undefined || value === undefined ? undefined : { key, value };
}

/** In a set of intervals, the last part of a key is a port range: `10.96.0.10 . tcp . 80-99`. */
function decodedKey(spec: SetSpec, { key, keyEnd = key }: EncodedElement, order: Endianness) {
  const first = decodedParts(spec.key, key, order);
  if (!spec.interval) return keyEnd === key ? first : undefined;
  const last = decodedParts(spec.key, keyEnd, order);
  if (first === undefined || last === undefined) return undefined;
  const ports = first.lastIndexOf(" ") + 1;
  const isRange =
    first.slice(0, ports) === last.slice(0, ports) && Number(first.slice(ports)) <= Number(last.slice(ports));
  return isRange ? `${first}-${last.slice(ports)}` : undefined;
}

function decodedValue({ value: types }: SetSpec, bytes: string, order: Endianness): string | undefined {
  if (types === undefined) return bytes === "" ? "" : undefined;
  if (types !== "verdict") return decodedParts(types, bytes, order);
  return /^(?:(?:goto|jump) .+|drop|accept|return)$/.test(bytes) ? bytes : undefined;
}

/** Encodes a key or a value in the kernel's form. @param text canonical (see ruleset.ts) */
export function encodedParts(types: readonly DataType[], text: string, order: Endianness): string {
  if (types.length === 1) return FORMS[types[0] as DataType].encode(text, order);
  let bytes = "";
  let from = 0;
  for (const type of types) {
    const dot = text.indexOf(SEPARATOR, from);
    const until = dot === -1 ? text.length : dot;
    const { width, encode } = FORMS[type];
    bytes += encode(text.slice(from, until), order) + PADDING[-width & 3];
    from = until + SEPARATOR.length;
  }
  return bytes;
}

/** Encodes a canonical address. */
export function encodedAddress(family: Family, text: string): string {
  return family === "ip" ? encodedIPv4(text) : encodedIPv6(text);
}

function encodedIPv6(text: string): string {
  return (parseIPv6(text) ?? []).reduce((bytes, group) => bytes + encoded16(group), "");
}

function encodedIPv4(text: string): string {
  return String.fromCharCode(...text.split(".").map(Number));
}

function encoded16(number: number): string {
  return String.fromCharCode(number >>> 8, number & 255);
}

function encodedHost32(number: number, order: Endianness): string {
  const [high, low] = [encoded16(number >>> 16), encoded16(number & 0xffff)];
  return order === "LE" ? `${low.charAt(1)}${low.charAt(0)}${high.charAt(1)}${high.charAt(0)}` : high + low;
}

/** Decodes a key or a value from the kernel's form; undefined if its size is another one. */
function decodedParts(types: readonly DataType[], bytes: string, order: Endianness): string | undefined {
  const [type] = types;
  if (type !== undefined && types.length === 1) {
    const { width, decode } = FORMS[type];
    return bytes.length === width ? decode(bytes, 0, order) : undefined;
  }
  let text = "";
  let at = 0;
  for (const type of types) {
    const { width, decode } = FORMS[type];
    const end = at + width;
    const next = at + padded(width);
    if (next > bytes.length || bytes.slice(end, next) !== PADDING[next - end]) return undefined;
    text += (at === 0 ? "" : SEPARATOR) + decode(bytes, at, order);
    at = next;
  }
  return at === bytes.length ? text : undefined;
}

/** Decodes an address; undefined if it has the size of another family. */
export function decodedAddress(family: Family, bytes: string): string | undefined {
  if (bytes.length !== addressWidth(family) / 8) return undefined;
  return family === "ip" ? decodedIPv4(bytes, 0) : decodedIPv6(bytes, 0);
}

function decodedIPv4(bytes: string, at: number): string {
  return `${bytes.charCodeAt(at)}.${bytes.charCodeAt(at + 1)}.${bytes.charCodeAt(at + 2)}.${bytes.charCodeAt(at + 3)}`;
}

function decodedIPv6(bytes: string, at: number): string {
  return formatIPv6([0, 2, 4, 6, 8, 10, 12, 14].map((offset) => decoded16(bytes, at + offset)));
}

function decoded16(bytes: string, at: number): number {
  return bytes.charCodeAt(at) * 256 + bytes.charCodeAt(at + 1);
}

function decodedHost32(bytes: string, at: number, order: Endianness): number {
  if (order === "BE") return decoded16(bytes, at) * 65536 + decoded16(bytes, at + 2);
  const low = bytes.charCodeAt(at) + bytes.charCodeAt(at + 1) * 256;
  return low + (bytes.charCodeAt(at + 2) + bytes.charCodeAt(at + 3) * 256) * 65536;
}

/**
 * Decodes the intervals of a set with end elements to canonical text, ascending; undefined if none of our
 * sets can have them. The elements may be in any order, with or without the end element before the first
 * interval.
 */
export function decodedIntervals(
  { key: [type] }: SetSpec,
  raws: Iterable<EncodedElement>,
): string[] | undefined {
  const family = familyOfType(type) ?? "ip";
  const width = addressWidth(family) / 8;
  const marks = [...raws].sort(compareMarks);
  const intervals: AddressInterval[] = [];
  let first: bigint | undefined;
  for (const { key, isEnd, value, keyEnd } of marks) {
    if (key.length !== width || value !== "" || keyEnd !== undefined) return undefined;
    const number = decodedNumber(key);
    // An end without a start is the one before the first interval.
    if (isEnd ? first === undefined && number !== 0n : first !== undefined) return undefined;
    if (isEnd && first !== undefined) intervals.push({ first, last: number - 1n });
    first = isEnd ? undefined : number;
  }
  if (first !== undefined) intervals.push({ first, last: (1n << BigInt(addressWidth(family))) - 1n });
  return intervals.map((interval) => intervalText(family, interval));
}

/** Orders elements by key; of equal keys, the end comes before the next start. */
function compareMarks(a: EncodedElement, b: EncodedElement): number {
  if (a.key !== b.key) return a.key < b.key ? -1 : 1;
  return Number(b.isEnd) - Number(a.isEnd);
}

/** The address of a set with end elements, which has no other parts. */
function decodedNumber(key: string): bigint {
  let number = 0n;
  for (let at = 0; at < key.length; at += 2) number = (number << 16n) | BigInt(decoded16(key, at));
  return number;
}
