import type { ByFamily, Family } from "../base/family.ts";
import { type Endianness, padded } from "./attributes.ts";
import { encodedParts } from "./element-bytes.ts";
import {
  DESTINATION_PORT,
  FLOW_ORIGINAL,
  FLOW_PROTOCOLS,
  FLOW_TIMEOUT,
  FLOW_ZONE,
  type Flow,
  PROTOCOL_NUMBER,
  SOURCE_PORT,
  TUPLE_ADDRESSES,
  TUPLE_PROTOCOL,
} from "./flow.ts";
import type { RawElement } from "./raw-element.ts";

// Types and flags of messages (nfnetlink.h, nf_tables.h and nfnetlink_conntrack.h in linux/netfilter, and
// linux/netlink.h).
const GET_SETS = (10 << 8) | 10;
const GET_ELEMENTS = (10 << 8) | 13;
const GET_GENERATION = (10 << 8) | 16;
const NEW_FLOW = 1 << 8;
const GET_FLOWS = (1 << 8) | 1;
const NOTHING = 1;
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

const FLOW_FILTER = 25;
const FILTER_ORIGINAL = 1;
/** The source and the destination address. */
const ADDRESS_TYPES: ByFamily<readonly [number, number]> = { ip: [1, 2], ip6: [3, 4] };

// What a filter compares (net/netfilter/nf_internals.h).
const BY_DESTINATION = 1 << 1;
const BY_PROTOCOL = 1 << 3;
const BY_DESTINATION_PORT = 1 << 5;

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

/** A request that any netlink socket answers, with the `error` 0. */
export function emptyRequest(endianness: Endianness): Buffer {
  return message(NOTHING, REQUEST | ACKNOWLEDGE, 0, [], endianness);
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

/**
 * The flows of a {@link flowsRequest}: those to an address, to a port, or all of a family. There are no IPv6
 * addresses, because the kernel inverts their comparison: it would send all flows but those (6.18;
 * ctnetlink_filter_match_tuple in net/netfilter/nf_conntrack_netlink.c).
 */
export type FlowPlace =
  | { readonly family: "ip"; readonly address: string; readonly port?: never }
  | { readonly family: Family; readonly address?: never; readonly port?: number };

/**
 * A request for flows in the conntrack table. The answer is `flow` messages and `done`. The kernel passes
 * over the others itself: reading those to one address takes 20 ms beside 120,000 others, and reading all
 * 400 ms.
 * @param protocol all if undefined; a place with a port needs one
 */
export function flowsRequest(
  protocol: Flow["protocol"] | undefined,
  { family, address, port }: FlowPlace,
  endianness: Endianness,
): Buffer {
  const flags =
    (protocol === undefined ? 0 : BY_PROTOCOL) |
    (address === undefined ? 0 : BY_DESTINATION) |
    (port === undefined ? 0 : BY_DESTINATION_PORT);
  const compared = Buffer.alloc(4);
  write32(compared, flags, 0, endianness);
  const body = [
    tupleAttribute(family, protocol, {}, { address, port }, endianness),
    attribute(FLOW_FILTER | NESTED, [attribute(FILTER_ORIGINAL, [compared], endianness)], endianness),
  ];
  return message(GET_FLOWS, REQUEST | DUMP, FAMILY_NUMBERS[family], body, endianness);
}

/**
 * A request that sets the timeout of a flow to 0, so that its next packet starts a new flow. The kernel finds
 * the entry by its hash, and only answers with an `error`: 2 (ENOENT) if there is no such flow. Deletion
 * would not work for offloaded flows before Linux 6.4.
 */
export function expiryRequest(family: Family, flow: Flow, endianness: Endianness): Buffer {
  const body = [
    ...placeParts(family, flow, endianness),
    attribute(FLOW_TIMEOUT, [Buffer.alloc(4)], endianness),
  ];
  return message(NEW_FLOW, REQUEST, FAMILY_NUMBERS[family], body, endianness);
}

/** A request for one flow. The answer is `flow`, or an `error`: 2 (ENOENT) if there is no such flow. */
export function flowRequest(family: Family, flow: Flow, endianness: Endianness): Buffer {
  return message(
    GET_FLOWS,
    REQUEST,
    FAMILY_NUMBERS[family],
    placeParts(family, flow, endianness),
    endianness,
  );
}

/** The attributes by which the kernel finds a flow. */
function placeParts(
  family: Family,
  { protocol, client, destination, zone }: Flow,
  endianness: Endianness,
): Buffer[] {
  return [
    tupleAttribute(family, protocol, client, destination, endianness),
    ...(zone === undefined ? [] : [attribute(FLOW_ZONE, [bigEndian16(zone)], endianness)]),
  ];
}

/** Parts of an end of a flow. */
interface EndParts {
  readonly address?: string | undefined;
  readonly port?: number | undefined;
}

function tupleAttribute(
  family: Family,
  protocol: Flow["protocol"] | undefined,
  source: EndParts,
  destination: EndParts,
  endianness: Endianness,
): Buffer {
  const address = (end: 0 | 1, text: string | undefined) => {
    if (text === undefined) return [];
    const bytes = encodedParts([family === "ip" ? "ipv4_addr" : "ipv6_addr"], text, endianness);
    return [attribute(ADDRESS_TYPES[family][end], [Buffer.from(bytes, "latin1")], endianness)];
  };
  const port = (type: number, number: number | undefined) =>
    number === undefined ? [] : [attribute(type, [bigEndian16(number)], endianness)];
  const addresses = [...address(0, source.address), ...address(1, destination.address)];
  const numbers = protocol === undefined ? [] : [FLOW_PROTOCOLS[protocol]];
  const ofProtocol = [
    ...numbers.map((number) => attribute(PROTOCOL_NUMBER, [Buffer.from([number])], endianness)),
    ...port(SOURCE_PORT, source.port),
    ...port(DESTINATION_PORT, destination.port),
  ];
  const nested = (type: number, list: readonly Buffer[]) =>
    list.length === 0 ? [] : [attribute(type | NESTED, list, endianness)];
  const parts = [...nested(TUPLE_ADDRESSES, addresses), ...nested(TUPLE_PROTOCOL, ofProtocol)];
  return attribute(FLOW_ORIGINAL | NESTED, parts, endianness);
}

function bigEndian16(number: number): Buffer {
  return Buffer.from([number >>> 8, number & 255]);
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
