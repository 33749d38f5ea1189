import type { AnonymousSet, AnyExpression, AnySet } from "../ast/any-table.ts";
import { type AnyType, anyConstant } from "./any-constant.ts";
import { anyElements } from "./any-elements.ts";
import { canonicalPayload } from "./expression.ts";
import { asFlags, asList, asNumber, asObject, asObjectOf, asTagged, asText, notUnderstood } from "./shape.ts";

/** Reads an expression of any rule. A part that is not understood stays in it as such. */
export function anyExpression(value: unknown, type: AnyType = "any"): AnyExpression {
  try {
    return readExpression(value, type);
  } catch {
    return { notUnderstood: value };
  }
}

function readExpression(value: unknown, type: AnyType): AnyExpression {
  if (typeof value === "string" || typeof value === "number") return anyConstant(value, type);
  if (typeof value === "boolean") return { exists: value };
  if (Array.isArray(value)) return { set: value.map((one) => anyExpression(one, type)) };
  const [kind, body] = asTagged(value, "expression");
  switch (kind) {
    case "payload":
      return { payload: canonicalPayload(body) };
    case "meta":
      return { meta: { key: asText(asObjectOf(body, ["key"], kind).key, kind) } };
    case "ct": {
      const { key, dir } = asObjectOf(body, ["key", "dir"], kind);
      return { ct: { key: asText(key, kind), ...(dir !== undefined && { dir: asText(dir, kind) }) } };
    }
    case "fib": {
      const { flags, result } = asObjectOf(body, ["flags", "result"], kind);
      return { fib: { flags: asFlags(flags, kind), result: asText(result, kind) } };
    }
    case "numgen":
      return anyNumgen(body);
    case "jhash":
      return anyJhash(body);
    case "concat":
      return concatenation(asList(body, kind).map((part) => anyExpression(part, type)));
    case "map": {
      const { key, data } = asObjectOf(body, ["key", "data"], kind);
      const read = anyExpression(key);
      return { map: { key: read, data: mapData(read, data) } };
    }
    case "set":
      return { set: asList(body, kind).map((one) => anyExpression(one, type)) };
    case "prefix": {
      const { addr, len } = asObjectOf(body, ["addr", "len"], kind);
      return { prefix: { addr: asText(addr, kind), len: asNumber(len, kind) } };
    }
    case "range":
      return { range: pairOf(asList(body, kind), type) };
    case "|":
    case "&":
    case "^":
      return operation(kind, asList(body, kind), type);
    default:
      return { notUnderstood: value };
  }
}

/** nft 1.1.7 prints some single values as concatenations of one part. */
function concatenation(parts: readonly AnyExpression[]): AnyExpression {
  const [only, more] = parts;
  return only !== undefined && more === undefined ? only : { concat: parts };
}

/** nft nests operations of more than two operands, newer versions list them flat. */
function operation(kind: "|" | "&" | "^", operands: readonly unknown[], type: AnyType): AnyExpression {
  const [first, ...rest] = operands.map((one) => anyExpression(one, type));
  if (first === undefined || rest.length === 0) throw notUnderstood("operands", operands);
  const inner: AnyType = type === "any" ? anyTypeOf(first) : type;
  const retyped = operands.map((one) => anyExpression(one, inner));
  return retyped
    .slice(1)
    .reduce<AnyExpression>(
      (left, right) => ({ [kind]: [left, right] }) as unknown as AnyExpression,
      retyped[0] as AnyExpression,
    );
}

/**
 * The map of a lookup: a named one as `@name`, or one that is written into the rule.
 * @throws AppError NFT_OUTPUT for elements that are not understood
 */
export function mapData(key: AnyExpression, data: unknown): AnyExpression | AnonymousSet {
  if (typeof data === "string") return data;
  const [kind, body] = asTagged(data, "map");
  if (kind !== "set") throw notUnderstood("map", data);
  return { anonymous: anyElements(ANONYMOUS, asList(body, "elements"), partTypes(key), "map") };
}

/**
 * Reads the constants with which a rule compares a field: each part of a concatenation by its own type. Constants that are
 * not understood stay as such.
 */
export function anyConstants(value: unknown, field: AnyExpression): AnyExpression | AnonymousSet {
  if (typeof field !== "object" || !("concat" in field) || typeof value === "string") {
    return anyExpression(value, anyTypeOf(field));
  }
  try {
    return { anonymous: anyElements(ANONYMOUS, membersOf(value), partTypes(field), "set") };
  } catch {
    return { notUnderstood: value };
  }
}

const ANONYMOUS: AnySet["spec"] = { name: "", dynamic: false };

function membersOf(value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value;
  const [kind, body] = asTagged(value, "constants");
  return kind === "set" ? asList(body, kind) : [value];
}

/** The types of a key's parts. */
export function partTypes(key: AnyExpression): readonly AnyType[] {
  return typeof key === "object" && "concat" in key ? key.concat.map(anyTypeOf) : [anyTypeOf(key)];
}

/** How constants beside an expression are to be read. */
export function anyTypeOf(field: AnyExpression): AnyType {
  if (typeof field !== "object") return "any";
  if ("payload" in field) {
    return "base" in field.payload ? "number" : payloadType(field.payload.protocol, field.payload.field);
  }
  if ("meta" in field) {
    const { key } = field.meta;
    if (key === "priority") return "classid";
    if (key === "l4proto") return "protocol";
    return key === "mark" ? "number" : "any";
  }
  if ("ct" in field) return ctType(field.ct.key);
  if ("&" in field) return anyTypeOf(field["&"][0]);
  if ("|" in field) return anyTypeOf(field["|"][0]);
  if ("^" in field) return anyTypeOf(field["^"][0]);
  return "numgen" in field || "jhash" in field ? "number" : "any";
}

function payloadType(protocol: string, field: string): AnyType {
  if ((field === "saddr" || field === "daddr") && (protocol === "ip" || protocol === "ip6")) return protocol;
  if (field === "protocol" || field === "nexthdr") return "protocol";
  if (field === "flags" && protocol === "tcp") return "tcp-flags";
  return field === "dport" || field === "sport" ? "number" : "any";
}

function ctType(key: string): AnyType {
  if (/^ip6? [sd]addr$/.test(key)) return key.startsWith("ip6") ? "ip6" : "ip";
  if (key === "protocol") return "protocol";
  return key === "mark" || key.startsWith("proto-") ? "number" : "any";
}

function anyNumgen(body: unknown): AnyExpression {
  const { mode, mod, offset = 0 } = asObject(body, "numgen");
  if (mode !== "random" && mode !== "inc") throw notUnderstood("mode of numgen", body);
  return { numgen: { mode, mod: asNumber(mod, "numgen modulus"), offset: asNumber(offset, "numgen offset") } };
}

function anyJhash(body: unknown): AnyExpression {
  const { mod, seed, offset = 0, expr } = asObjectOf(body, ["mod", "seed", "offset", "expr"], "jhash");
  return {
    jhash: {
      mod: asNumber(mod, "jhash modulus"),
      ...(seed !== undefined && { seed: asNumber(seed, "jhash seed") }),
      offset: asNumber(offset, "jhash offset"),
      expr: anyExpression(expr),
    },
  };
}

function pairOf(operands: readonly unknown[], type: AnyType): readonly [AnyExpression, AnyExpression] {
  const [left, right, more] = operands.map((one) => anyExpression(one, type));
  if (left === undefined || right === undefined || more !== undefined) throw notUnderstood("operands", operands);
  return [left, right];
}
