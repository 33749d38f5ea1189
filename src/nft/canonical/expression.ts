import { sortedEntries } from "../../base/first-sorted.ts";
import type { AnyExpression, AnySet } from "../ast/any-table.ts";
import type { PayloadField, RawPayload } from "../ast/json.ts";
import { type ConstantType, familyOfType, typeOfExpression, typesOfKey } from "../data-types.ts";
import { canonicalAddresses } from "./address.ts";
import { readConstant } from "./constant.ts";
import { passingKey, readElements } from "./elements.ts";
import {
  asFlags,
  asList,
  asNumber,
  asObjectOf,
  asTagged,
  asText,
  notUnderstood,
  understood,
} from "./shape.ts";

/**
 * Reads an expression of any rule in its canonical form. Parts that are not understood are kept as such.
 * @param type the type of constants in it; fields and lookups have their own
 */
export function readExpression(value: unknown, type: ConstantType = "other"): AnyExpression {
  return understood(value, () => knownExpression(value, type));
}

function knownExpression(value: unknown, type: ConstantType): AnyExpression {
  if (typeof value === "string" || typeof value === "number") return readConstant(value, type);
  if (typeof value === "boolean") return { exists: value };
  if (Array.isArray(value)) return canonicalSet(value, type);
  const [kind, body] = asTagged(value, "expression");
  const family = familyOfType(type);
  switch (kind) {
    case "payload":
      return { payload: readPayload(body) };
    case "meta":
      return { meta: { key: asText(asObjectOf(body, ["key"], kind).key, kind) } };
    case "ct":
      return readConntrack(body);
    case "fib": {
      const { flags, result } = asObjectOf(body, ["flags", "result"], kind);
      return { fib: { flags: asFlags(flags, "fib flags"), result: asText(result, kind) } };
    }
    case "numgen":
      return readNumgen(body);
    case "jhash":
      return readJhash(body);
    case "concat":
      return concatenation(asList(body, "concatenation").map((part) => readExpression(part, type)));
    case "map": {
      const { key, data } = asObjectOf(body, ["key", "data"], "map lookup");
      const read = readExpression(key);
      return { map: { key: read, data: readLookedUp(read, data) } };
    }
    case "set":
      return canonicalSet(asList(body, kind), type);
    case "prefix": {
      if (family !== undefined) return canonicalAddresses(family, [value]);
      const { addr, len } = asObjectOf(body, ["addr", "len"], kind);
      return { prefix: { addr: asText(addr, kind), len: asNumber(len, "prefix length") } };
    }
    case "range":
      if (family !== undefined) return canonicalAddresses(family, [value]);
      return { range: readRange(body, type) };
    case "|":
    case "&":
    case "^":
      return readOperation(kind, asList(body, "operands"), type);
    default:
      throw notUnderstood(`expression "${kind}"`, value);
  }
}

/** A set without repetitions, and no set around a single member. */
function canonicalSet(items: readonly unknown[], type: ConstantType): AnyExpression {
  const family = familyOfType(type);
  const members = items.map((item) => understood(item, () => knownExpression(passingKey(item), type)));
  const isKnown = members.every((member) => typeof member !== "object" || !("notUnderstood" in member));
  if (family !== undefined && isKnown && members.length > 0) return canonicalAddresses(family, members);
  const byText = new Map(members.map((member) => [JSON.stringify(member), member]));
  // Sorted, as the kernel lists anonymous sets of such members by hash.
  const sorted = sortedEntries(byText).map(([, member]) => member);
  const [lone, more] = sorted;
  return lone === undefined || more !== undefined ? { set: sorted } : lone;
}

function readPayload(body: unknown): PayloadField | RawPayload {
  const payload = asObjectOf(body, ["protocol", "field", "base", "offset", "len"], "payload");
  const { base } = payload;
  if (base === undefined) {
    return { protocol: asText(payload.protocol, "payload"), field: asText(payload.field, "payload") };
  }
  if (base !== "ll" && base !== "nh" && base !== "th") throw notUnderstood("base of a payload", body);
  return {
    base,
    offset: asNumber(payload.offset, "payload offset"),
    len: asNumber(payload.len, "payload length"),
  };
}

function readConntrack(body: unknown): AnyExpression {
  const { key, dir } = asObjectOf(body, ["key", "dir"], "ct");
  if (dir !== undefined && dir !== "original" && dir !== "reply") throw notUnderstood("direction", body);
  return { ct: { key: asText(key, "ct"), ...(dir !== undefined && { dir }) } };
}

function readNumgen(body: unknown): AnyExpression {
  const { mode, mod, offset } = asObjectOf(body, ["mode", "mod", "offset"], "numgen");
  if (mode !== "random" && mode !== "inc") throw notUnderstood("mode of numgen", body);
  return { numgen: { mode, mod: asNumber(mod, "numgen modulus"), offset: readOffset(offset) } };
}

function readJhash(body: unknown): AnyExpression {
  const { mod, seed, offset, expr } = asObjectOf(body, ["mod", "seed", "offset", "expr"], "jhash");
  return {
    jhash: {
      mod: asNumber(mod, "jhash modulus"),
      seed: seed === undefined ? undefined : asNumber(seed, "jhash seed"),
      offset: readOffset(offset),
      expr: readExpression(expr),
    },
  };
}

/** nft omits an offset of 0, and its JSON has 32-bit offsets as signed numbers (1.1.7). */
function readOffset(offset: unknown): number {
  if (offset === undefined) return 0;
  return typeof offset === "number" && offset < 0 ? offset + 2 ** 32 : asNumber(offset, "offset");
}

/** nft 1.1.7 prints some single values as concatenations of one part. */
function concatenation(parts: readonly AnyExpression[]): AnyExpression {
  const [only, more] = parts;
  return only !== undefined && more === undefined ? only : { concat: parts };
}

function readRange(body: unknown, type: ConstantType): readonly [AnyExpression, AnyExpression] {
  const [first, last, more] = asList(body, "range").map((one) => readExpression(one, type));
  if (first === undefined || last === undefined || more !== undefined) throw notUnderstood("range", body);
  return [first, last];
}

/** nft nests operations of more than two operands; newer versions list them flat. */
function readOperation(
  kind: "|" | "&" | "^",
  operands: readonly unknown[],
  type: ConstantType,
): AnyExpression {
  const inner = type === "other" ? typeOfExpression(readExpression(operands[0])) : type;
  const [first, ...rest] = operands.map((one) => readExpression(one, inner));
  if (first === undefined || rest.length === 0) throw notUnderstood("operands", operands);
  return rest.reduce((left, right) => ({ [kind]: [left, right] }) as unknown as AnyExpression, first);
}

const ANONYMOUS: AnySet["spec"] = { name: "", dynamic: false };

/**
 * Reads the map of a lookup: a named one as `@name`, or an anonymous one.
 * @throws AppError NFT_OUTPUT for elements that are not understood
 */
export function readLookedUp(key: AnyExpression, data: unknown): AnyExpression {
  if (typeof data === "string") return data;
  const [kind, body] = asTagged(data, "map");
  if (kind !== "set") throw notUnderstood("map", data);
  return { anonymous: readElements(ANONYMOUS, asList(body, "elements"), typesOfKey(key), "map") };
}

/**
 * Reads the constants that a rule compares with a field: each part of a concatenation by its own type.
 * Constants that are not understood are kept as such.
 */
export function readConstants(value: unknown, field: AnyExpression): AnyExpression {
  if (typeof field !== "object" || !("concat" in field) || typeof value === "string") {
    return readExpression(value, typeOfExpression(field));
  }
  return understood(value, () => ({
    anonymous: readElements(ANONYMOUS, membersOf(value), typesOfKey(field), "set"),
  }));
}

function membersOf(value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value;
  const [kind, body] = asTagged(value, "constants");
  return kind === "set" ? asList(body, kind) : [value];
}
