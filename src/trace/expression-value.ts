import { addressNumber, addressText, addressWidth } from "../base/address-interval.ts";
import type { ByFamily, Family } from "../base/family.ts";
import { jhash, scaleHash } from "../base/jhash.ts";
import type { AnyExpression, AnyJhash, AnyLookup } from "../nft/ast/any-table.ts";
import type { PayloadField, RawPayload } from "../nft/ast/json.ts";
import { joinParts } from "../nft/elements.ts";
import { addEffect, type Branch, type Evaluated, UNKNOWN, type Value } from "./branch.ts";
import type { Packet } from "./packet.ts";
import { ctValue, fibValue, metaValue, payloadValue } from "./packet-fields.ts";
import { lookUp } from "./set-lookup.ts";

/**
 * Returns the value of an expression for the current packet: undefined if the kernel finds none (a failed
 * lookup, a field of another protocol), which ends the rule; `UNKNOWN` if it is not known.
 */
export function expressionValue(branch: Branch, expression: AnyExpression): Evaluated {
  if (typeof expression !== "object") return expression;
  if ("payload" in expression) return payloadValue(branch, expression.payload);
  if ("meta" in expression) return metaValue(branch, expression.meta.key);
  if ("fib" in expression) return fibValue(branch, expression.fib);
  if ("concat" in expression) return concatValue(branch, expression.concat);
  if ("map" in expression) return mapValue(branch, expression.map);
  if ("ct" in expression) return ctValue(branch, expression.ct);
  if ("numgen" in expression) {
    const { mod, offset } = expression.numgen;
    return branch.random ?? (mod === 1 ? offset : UNKNOWN);
  }
  if ("jhash" in expression) {
    const { jhash } = expression;
    if (isRandomHash(jhash, branch.evaluation.packet)) return branch.random ?? UNKNOWN;
    const value = hashValue(branch, jhash);
    if (typeof value === "number")
      addEffect(branch, { kind: "hash", value: value - jhash.offset, choices: jhash.mod });
    return value;
  }
  if ("|" in expression) return bitwise(branch, expression["|"], (a, b) => a | b);
  if ("&" in expression) return bitwise(branch, expression["&"], (a, b) => a & b);
  if ("^" in expression) return bitwise(branch, expression["^"], (a, b) => a ^ b);
  return UNKNOWN;
}

/** An unknown part makes the whole unknown, unless another part ends the rule. */
function concatValue(branch: Branch, parts: readonly AnyExpression[]): Evaluated {
  const values: Value[] = [];
  for (const part of parts) {
    const value = expressionValue(branch, part);
    if (value === undefined) return undefined;
    if (value !== UNKNOWN) values.push(value);
  }
  return values.length < parts.length ? UNKNOWN : joinParts(...values);
}

function mapValue(branch: Branch, { key, data }: AnyLookup): Evaluated {
  const found = lookUp(branch, data, expressionValue(branch, key));
  return typeof found === "string" && /^\d+$/.test(found) ? Number(found) : found;
}

/** For marks, priorities and addresses: big integers have no sign. */
function bitwise(
  branch: Branch,
  operands: readonly [AnyExpression, AnyExpression],
  operate: (a: bigint, b: bigint) => bigint,
): Evaluated {
  const [left, right] = operands.map((operand) => expressionValue(branch, operand));
  if (left === undefined || right === undefined) return undefined;
  if (typeof left === "number" && typeof right === "number")
    return Number(operate(BigInt(left), BigInt(right)));
  if (!isAddress(left) || !isAddress(right)) return UNKNOWN;
  const { family } = branch.evaluation;
  return addressText(family, operate(addressNumber(family, left), addressNumber(family, right)));
}

function isAddress(value: Value | typeof UNKNOWN): value is string {
  return typeof value === "string" && /^(?:[\d.]+|[\da-f:.]*:[\da-f:.]*)$/.test(value);
}

/**
 * Whether a hash is like a random number: over the source port, which is unknown, over the address of a
 * client that was assumed, or without a seed.
 */
export function isRandomHash({ expr, seed }: AnyJhash, { from }: Pick<Packet, "from">): boolean {
  if (seed === undefined) return true;
  const fields = partsOf(expr).flatMap(hashedFields);
  return fields.includes("sport") || (from.isAssumed === true && fields.includes("saddr"));
}

function hashedFields(part: AnyExpression): readonly string[] {
  if (!isPayload(part)) return [];
  const { payload } = part;
  return "base" in payload ? (rawFields(payload) ?? []) : [payload.field];
}

/**
 * Returns the value of a hash for the current packet: UNKNOWN over anything but addresses and ports.
 * Source: net/netfilter/nft_hash.c, Linux 6.18
 */
function hashValue(branch: Branch, hash: AnyJhash): Evaluated {
  const bytes: number[] = [];
  const parts = partsOf(hash.expr);
  for (const part of parts) {
    const value = partBytes(branch, part);
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

/** Pads each part of a concatenation to a multiple of four bytes, but not a single field. */
function padding(length: number): number[] {
  return new Array<number>((4 - (length % 4)) % 4).fill(0);
}

type HashedField = "saddr" | "daddr" | "sport" | "dport";

/** The offset of the source address in the network header, in bits, and the fields after it. */
const ADDRESSES_AT = { ip: 96, ip6: 64 } as const satisfies ByFamily<number>;
const FIELDS: readonly HashedField[] = ["saddr", "daddr", "sport", "dport"];

/**
 * The fields that bits of the network header contain, from the source address on, without options or
 * extension headers. Undefined for other bits.
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

/** The bytes of a field as in the kernel's registers: in network order. */
function partBytes(branch: Branch, part: AnyExpression) {
  if (!isPayload(part)) return UNKNOWN;
  if (!("base" in part.payload)) return fieldBytes(branch, part.payload);
  const bytes: number[] = [];
  for (const field of rawFields(part.payload) ?? []) {
    const isPort = field === "sport" || field === "dport";
    const value = fieldBytes(branch, { protocol: isPort ? "th" : branch.evaluation.family, field });
    if (value === undefined || value === UNKNOWN) return value;
    bytes.push(...value);
  }
  return bytes.length === 0 ? UNKNOWN : bytes;
}

function fieldBytes(branch: Branch, payload: PayloadField) {
  const value = payloadValue(branch, payload);
  if (value === undefined || value === UNKNOWN) return value;
  const { field } = payload;
  if (field === "dport" || field === "sport") return [Number(value) >> 8, Number(value) & 255];
  return field === "saddr" || field === "daddr"
    ? addressBytes(branch.evaluation.family, String(value))
    : UNKNOWN;
}

function addressBytes(family: Family, address: string): number[] {
  const number = addressNumber(family, address);
  const width = addressWidth(family);
  return Array.from({ length: width / 8 }, (_, i) => Number((number >> BigInt(width - 8 - 8 * i)) & 255n));
}
