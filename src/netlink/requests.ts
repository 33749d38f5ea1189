import type { ByFamily, Family } from "../base/family.ts";
import { type Endianness, padded } from "./attributes.ts";
import { encodedAddress } from "./element-bytes.ts";
import {
  DESTINATION_PORT,
  FLOW_ORIGINAL,
  FLOW_PROTOCOLS,
  FLOW_TIMEOUT,
  FLOW_ZONE,
  type Flow,
  type FlowEnd,
  PROTOCOL_NUMBER,
  SOURCE_PORT,
  TUPLE_ADDRESSES,
  TUPLE_PROTOCOL,
} from "./flow.ts";
import { ELEMENTS_LIST, NAME, TABLE } from "./message.ts";
import { DATA_VALUE, ELEM_KEY } from "./raw-element.ts";

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
const LIST_ITEM = 1;

const FLOW_FILTER = 25;
const FILTER_ORIGINAL = 1;
/** The source and the destination address. */
const ADDRESS_TYPES: ByFamily<readonly [number, number]> = { ip: [1, 2], ip6: [3, 4] };

// What a filter compares (net/netfilter/nf_internals.h).
const BY_DESTINATION = 1 << 1;
const BY_PROTOCOL = 1 << 3;
const BY_DESTINATION_PORT = 1 << 5;

/** The set of a request. */
export interface SetPlace {
  readonly family: Family;
  readonly table: string;
  readonly set: string;
}

/**
 * Sequence number of {@link RequestWriter.generation}. Other programs count up from small numbers or the time
 * in seconds.
 */
export const GENERATION_SEQUENCE = 2 ** 32 - 1;

/**
 * The flows of {@link RequestWriter.flows}: those to an address, to a port, or all of a family. There are no
 * IPv6 addresses, because the kernel inverts their comparison: it would send all flows but those (6.18;
 * ctnetlink_filter_match_tuple in net/netfilter/nf_conntrack_netlink.c).
 */
export type FlowPlace =
  | { readonly family: "ip"; readonly address: string; readonly port?: never }
  | { readonly family: Family; readonly address?: never; readonly port?: number };

/** An end of a flow, or a part of it. */
type EndParts = { readonly [Part in keyof FlowEnd]?: FlowEnd[Part] | undefined };

/** Writes requests to the kernel. */
export class RequestWriter {
  readonly #endianness: Endianness;

  constructor(endianness: Endianness) {
    this.#endianness = endianness;
  }

  /**
   * A request for all elements of a set. The answer is `elements` messages and `done`, or an `error` (2,
   * ENOENT, if there is no such set). Elements that change meanwhile may be missing or listed twice.
   */
  dump({ family, table, set }: SetPlace): Buffer {
    const body = [this.#text(TABLE, table), this.#text(NAME, set)];
    return this.#message(GET_ELEMENTS, REQUEST | DUMP, FAMILY_NUMBERS[family], body);
  }

  /**
   * A request for the declarations of all sets and maps of a table, including anonymous ones. The answer is
   * `set` messages and `done`, or an `error` (2, ENOENT, if there is no such table).
   * @param family as nft names it: `inet`
   * @returns undefined for an unknown family
   */
  sets(family: string, table: string): Buffer | undefined {
    const number = TABLE_FAMILY_NUMBERS.get(family);
    if (number === undefined) return undefined;
    return this.#message(GET_SETS, REQUEST | DUMP, number, [this.#text(TABLE, table)]);
  }

  /**
   * A request for the element with a key, in a set without intervals. The answer is an `elements` message and
   * the `error` 0, or only the `error` 2 (ENOENT) if it is missing.
   */
  element({ family, table, set }: SetPlace, key: string): Buffer {
    const value = this.#attribute(DATA_VALUE, Buffer.from(key, "latin1"));
    const item = this.#nested(LIST_ITEM, [this.#nested(ELEM_KEY, [value])]);
    const body = [this.#text(TABLE, table), this.#text(NAME, set), this.#nested(ELEMENTS_LIST, [item])];
    return this.#message(GET_ELEMENTS, REQUEST | ACKNOWLEDGE, FAMILY_NUMBERS[family], body);
  }

  /** A request that any netlink socket answers, with the `error` 0. */
  nothing(): Buffer {
    return this.#message(NOTHING, REQUEST | ACKNOWLEDGE, 0, []);
  }

  /** A request for the generation of the rules, to test the socket: the answer is `generation`. */
  generation(): Buffer {
    const request = this.#message(GET_GENERATION, REQUEST, 0, []);
    this.#write32(request, GENERATION_SEQUENCE, 8);
    return request;
  }

  /**
   * A request for flows in the conntrack table. The answer is `flow` messages and `done`. The kernel passes
   * over the others itself: reading those to one address takes 20 ms beside 120,000 others, and reading all
   * 400 ms.
   * @param protocol all if undefined; a place with a port needs one
   */
  flows(protocol: Flow["protocol"] | undefined, { family, address, port }: FlowPlace): Buffer {
    const compared = Buffer.alloc(4);
    const flags =
      (protocol === undefined ? 0 : BY_PROTOCOL) |
      (address === undefined ? 0 : BY_DESTINATION) |
      (port === undefined ? 0 : BY_DESTINATION_PORT);
    this.#write32(compared, flags, 0);
    const body = [
      this.#tuple(family, protocol, {}, { address, port }),
      this.#nested(FLOW_FILTER, [this.#attribute(FILTER_ORIGINAL, compared)]),
    ];
    return this.#message(GET_FLOWS, REQUEST | DUMP, FAMILY_NUMBERS[family], body);
  }

  /**
   * A request that sets the timeout of a flow to 0, so that its next packet starts a new flow. The kernel
   * finds the entry by its hash, and only answers with an `error`: 2 (ENOENT) if there is no such flow.
   * Deletion would not work for offloaded flows before Linux 6.4.
   */
  expiry(family: Family, flow: Flow): Buffer {
    const body = [...this.#flowParts(family, flow), this.#attribute(FLOW_TIMEOUT, Buffer.alloc(4))];
    return this.#message(NEW_FLOW, REQUEST, FAMILY_NUMBERS[family], body);
  }

  /** A request for one flow. The answer is `flow`, or an `error`: 2 (ENOENT) if there is no such flow. */
  flow(family: Family, flow: Flow): Buffer {
    return this.#message(GET_FLOWS, REQUEST, FAMILY_NUMBERS[family], this.#flowParts(family, flow));
  }

  /** The attributes by which the kernel finds a flow. */
  #flowParts(family: Family, { protocol, client, destination, zone }: Flow): Buffer[] {
    const tuple = this.#tuple(family, protocol, client, destination);
    return zone === undefined ? [tuple] : [tuple, this.#attribute(FLOW_ZONE, bigEndian16(zone))];
  }

  #tuple(
    family: Family,
    protocol: Flow["protocol"] | undefined,
    source: EndParts,
    destination: EndParts,
  ): Buffer {
    const given = <T>(type: number, value: T | undefined, bytesOf: (value: T) => Buffer) =>
      value === undefined ? [] : [this.#attribute(type, bytesOf(value))];
    const addressBytes = (text: string) => Buffer.from(encodedAddress(family, text), "latin1");
    const [sourceType, destinationType] = ADDRESS_TYPES[family];
    const addresses = [
      ...given(sourceType, source.address, addressBytes),
      ...given(destinationType, destination.address, addressBytes),
    ];
    const ofProtocol = [
      ...given(PROTOCOL_NUMBER, protocol, (name) => Buffer.from([FLOW_PROTOCOLS[name]])),
      ...given(SOURCE_PORT, source.port, bigEndian16),
      ...given(DESTINATION_PORT, destination.port, bigEndian16),
    ];
    const parts = [
      ...(addresses.length === 0 ? [] : [this.#nested(TUPLE_ADDRESSES, addresses)]),
      ...(ofProtocol.length === 0 ? [] : [this.#nested(TUPLE_PROTOCOL, ofProtocol)]),
    ];
    return this.#nested(FLOW_ORIGINAL, parts);
  }

  #text(type: number, text: string): Buffer {
    return this.#attribute(type, Buffer.from(`${text}\0`));
  }

  #nested(type: number, attributes: readonly Buffer[]): Buffer {
    return this.#attribute(type | NESTED, Buffer.concat(attributes));
  }

  #attribute(type: number, content: Buffer): Buffer {
    const length = 4 + content.length;
    const header = Buffer.alloc(4);
    this.#write16(header, length, 0);
    this.#write16(header, type, 2);
    return Buffer.concat([header, content], padded(length));
  }

  #message(type: number, flags: number, family: number, body: readonly Buffer[]): Buffer {
    const bytes = Buffer.concat([Buffer.alloc(20), ...body]);
    this.#write32(bytes, bytes.length, 0);
    this.#write16(bytes, type, 4);
    this.#write16(bytes, flags, 6);
    bytes.writeUInt8(family, 16);
    return bytes;
  }

  #write16(bytes: Buffer, number: number, at: number): void {
    if (this.#endianness === "LE") bytes.writeUInt16LE(number, at);
    else bytes.writeUInt16BE(number, at);
  }

  #write32(bytes: Buffer, number: number, at: number): void {
    if (this.#endianness === "LE") bytes.writeUInt32LE(number, at);
    else bytes.writeUInt32BE(number, at);
  }
}

function bigEndian16(number: number): Buffer {
  return Buffer.from([number >>> 8, number & 255]);
}
