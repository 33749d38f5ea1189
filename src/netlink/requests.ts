import type { ByFamily, Family } from "../base/family.ts";
import { type Endianness, padded } from "./attributes.ts";
import type { RawElement } from "./raw-element.ts";

// Types and flags of messages (linux/netlink.h, linux/netfilter/nfnetlink.h, linux/netfilter/nf_tables.h).
const GET_SETS = (10 << 8) | 10;
const GET_ELEMENTS = (10 << 8) | 13;
const GET_GENERATION = (10 << 8) | 16;
const REQUEST = 1;
const ACKNOWLEDGE = 4;
const DUMP = 0x300;

const FAMILY_NUMBERS: ByFamily<number> = { ip: 2, ip6: 10 };
const TABLE_FAMILY_NUMBERS: ReadonlyMap<string, number> = new Map([
  ...Object.entries(FAMILY_NUMBERS),
  ["inet", 1],
  ["arp", 3],
  ["netdev", 5],
  ["bridge", 7],
]);

const NESTED = 0x8000;
const SETS_TABLE = 1;
const ELEMENTS_TABLE = 1;
const ELEMENTS_SET = 2;
const ELEMENTS_LIST = 3;
const LIST_ITEM = 1;
const ELEM_KEY = 1;
const ELEM_FLAGS = 3;
const ELEM_KEY_END = 10;
const DATA_VALUE = 1;

/** Maximum number of keys in one {@link getRequest}: all must fit into an attribute with a 16-bit length. */
export const MOST_KEYS = 256;

/** The set of a request. */
export interface SetPlace {
  readonly family: Family;
  readonly table: string;
  readonly set: string;
}

/**
 * A request for all elements of a set. The answer is `elements` messages and `done`, or an `error` (2,
 * ENOENT, if there is no such set). Elements that change meanwhile may be missing or listed twice.
 */
export function dumpRequest({ family, table, set }: SetPlace, endianness: Endianness): Buffer {
  const body = [
    textAttribute(ELEMENTS_TABLE, table, endianness),
    textAttribute(ELEMENTS_SET, set, endianness),
  ];
  return message(GET_ELEMENTS, REQUEST | DUMP, FAMILY_NUMBERS[family], body, endianness);
}

/**
 * A request for the declarations of all sets and maps of a table, including anonymous ones. The answer is
 * `set` messages and `done`, or an `error` (2, ENOENT, if there is no such table).
 * @param family as nft names it: `inet`
 * @returns undefined for an unknown family
 */
export function setsRequest(family: string, table: string, endianness: Endianness): Buffer | undefined {
  const number = TABLE_FAMILY_NUMBERS.get(family);
  const body = [textAttribute(SETS_TABLE, table, endianness)];
  return number === undefined ? undefined : message(GET_SETS, REQUEST | DUMP, number, body, endianness);
}

/**
 * A request for the elements with some keys, at most {@link MOST_KEYS}. The answer is an `elements` message
 * for each, in order, up to the first missing one, and an `error`: 2 (ENOENT) if one is missing, otherwise 0.
 */
export function getRequest(
  { family, table, set }: SetPlace,
  keys: readonly Pick<RawElement, "key" | "keyEnd" | "isEnd">[],
  endianness: Endianness,
): Buffer {
  const body = [
    textAttribute(ELEMENTS_TABLE, table, endianness),
    textAttribute(ELEMENTS_SET, set, endianness),
    attribute(
      ELEMENTS_LIST | NESTED,
      keys.map((key) => keyAttribute(key, endianness)),
      endianness,
    ),
  ];
  return message(GET_ELEMENTS, REQUEST | ACKNOWLEDGE, FAMILY_NUMBERS[family], body, endianness);
}

/**
 * Sequence number of {@link generationRequest}. Other programs count up from small numbers or the time in
 * seconds.
 */
export const GENERATION_SEQUENCE = 2 ** 32 - 1;

/** A request for the generation of the rules, to test the socket: the answer is `generation`. */
export function generationRequest(endianness: Endianness): Buffer {
  const request = message(GET_GENERATION, REQUEST, 0, [], endianness);
  write32(request, GENERATION_SEQUENCE, 8, endianness);
  return request;
}

function keyAttribute(
  { key, keyEnd, isEnd }: Pick<RawElement, "key" | "keyEnd" | "isEnd">,
  endianness: Endianness,
): Buffer {
  const parts = [dataAttribute(ELEM_KEY, key, endianness)];
  if (keyEnd !== undefined) parts.push(dataAttribute(ELEM_KEY_END, keyEnd, endianness));
  if (isEnd) parts.push(attribute(ELEM_FLAGS, [Buffer.from([0, 0, 0, 1])], endianness));
  return attribute(LIST_ITEM | NESTED, parts, endianness);
}

function dataAttribute(type: number, bytes: string, endianness: Endianness): Buffer {
  const value = attribute(DATA_VALUE, [Buffer.from(bytes, "latin1")], endianness);
  return attribute(type | NESTED, [value], endianness);
}

function textAttribute(type: number, text: string, endianness: Endianness): Buffer {
  return attribute(type, [Buffer.from(`${text}\0`)], endianness);
}

function attribute(type: number, content: readonly Buffer[], endianness: Endianness): Buffer {
  const length = content.reduce((sum, part) => sum + part.length, 4);
  const header = Buffer.alloc(4);
  write16(header, length, 0, endianness);
  write16(header, type, 2, endianness);
  return Buffer.concat([header, ...content], padded(length));
}

function message(
  type: number,
  flags: number,
  family: number,
  body: readonly Buffer[],
  endianness: Endianness,
): Buffer {
  const bytes = Buffer.concat([Buffer.alloc(20), ...body]);
  write32(bytes, bytes.length, 0, endianness);
  write16(bytes, type, 4, endianness);
  write16(bytes, flags, 6, endianness);
  bytes.writeUInt8(family, 16);
  return bytes;
}

function write16(bytes: Buffer, number: number, at: number, endianness: Endianness): void {
  if (endianness === "LE") bytes.writeUInt16LE(number, at);
  else bytes.writeUInt16BE(number, at);
}

function write32(bytes: Buffer, number: number, at: number, endianness: Endianness): void {
  if (endianness === "LE") bytes.writeUInt32LE(number, at);
  else bytes.writeUInt32BE(number, at);
}
