import { addressNumber, addressWidth } from "../base/address-interval.ts";
import type { Family } from "../base/family.ts";
import { jhash, scaleHash } from "../base/jhash.ts";
import type { AnyExpression, AnyJhash } from "../nft/ast/any-table.ts";
import type { PayloadField, RawPayload } from "../nft/ast/json.ts";
import type { Branch, Evaluation } from "./branch.ts";
import { payloadValue } from "./packet-fields.ts";
import { type Evaluated, UNKNOWN } from "./value.ts";

/** Whether a hash is as good as random: over the source port, which is not known of a packet, or without a seed. */
export function isRandomHash({ expr, seed }: AnyJhash): boolean {
  return seed === undefined || partsOf(expr).some(hasSourcePort);
}

function hasSourcePort(part: AnyExpression): boolean {
  if (!isPayload(part)) return false;
  const { payload } = part;
  return "base" in payload ? rawFields(payload)?.includes("sport") === true : payload.field === "sport";
}

/**
 * Returns the value of a hash for the current packet: UNKNOWN over anything but addresses and ports.
 * Source: net/netfilter/nft_hash.c, Linux 6.18
 */
export function hashValue(evaluation: Evaluation, branch: Branch, hash: AnyJhash): Evaluated {
  const bytes: number[] = [];
  const parts = partsOf(hash.expr);
  for (const part of parts) {
    const value = partBytes(evaluation, branch, part);
    if (value === undefined || value === UNKNOWN) return value;
    bytes.push(...value);
    if (parts.length > 1) bytes.push(...padding(value.length));
  }
  return hash.offset + scaleHash(jhash(Uint8Array.from(bytes), hash.seed ?? 0), hash.mod);
}

function partsOf(expression: AnyExpression): readonly AnyExpression[] {
  return typeof expression === "object" && "concat" in expression ? expression.concat : [expression];
}

type Payload = Extract<AnyExpression, { readonly payload: unknown }>;

function isPayload(expression: AnyExpression): expression is Payload {
  return typeof expression === "object" && "payload" in expression;
}

/** Each part of a concatenation is padded to a multiple of four bytes; a single field is not. */
function padding(length: number): number[] {
  return new Array<number>((4 - (length % 4)) % 4).fill(0);
}

type HashedField = "saddr" | "daddr" | "sport" | "dport";

/** Where the source address begins in the network header, in bits, and what follows it without options or extensions. */
const ADDRESSES_AT = { ip: 96, ip6: 64 } as const satisfies Record<Family, number>;
const FIELDS: readonly HashedField[] = ["saddr", "daddr", "sport", "dport"];

/**
 * The fields that bits of the network header are, in a packet without options or extension headers: those from the source
 * address on. Undefined for other bits.
 */
function rawFields({ base, offset, len }: RawPayload): readonly HashedField[] | undefined {
  if (base !== "nh") return undefined;
  for (const family of ["ip", "ip6"] as const) {
    const width = addressWidth(family);
    const ends = [width, 2 * width, 2 * width + 16, 2 * width + 32];
    const last = offset === ADDRESSES_AT[family] ? ends.indexOf(len) : -1;
    if (last !== -1) return FIELDS.slice(0, last + 1);
  }
  return undefined;
}

/** The bytes of a field as they are in the kernel's registers: in network order. */
function partBytes(evaluation: Evaluation, branch: Branch, part: AnyExpression) {
  if (!isPayload(part)) return UNKNOWN;
  if (!("base" in part.payload)) return fieldBytes(evaluation, branch, part.payload);
  const bytes: number[] = [];
  for (const field of rawFields(part.payload) ?? []) {
    const isPort = field === "sport" || field === "dport";
    const value = fieldBytes(evaluation, branch, { protocol: isPort ? "th" : evaluation.family, field });
    if (value === undefined || value === UNKNOWN) return value;
    bytes.push(...value);
  }
  return bytes.length === 0 ? UNKNOWN : bytes;
}

function fieldBytes(evaluation: Evaluation, branch: Branch, payload: PayloadField) {
  const value = payloadValue(evaluation, branch, payload);
  if (value === undefined || value === UNKNOWN) return value;
  const { field } = payload;
  if (field === "dport" || field === "sport") return [Number(value) >> 8, Number(value) & 255];
  return field === "saddr" || field === "daddr" ? addressBytes(evaluation, String(value)) : UNKNOWN;
}

function addressBytes({ family }: Evaluation, address: string): number[] {
  const number = addressNumber(family, address);
  const width = addressWidth(family);
  return Array.from({ length: width / 8 }, (_, i) => Number((number >> BigInt(width - 8 - 8 * i)) & 255n));
}
