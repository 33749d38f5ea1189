import type { Expression, PayloadField, RawPayload } from "../ast/json.ts";
import { canonicalAddresses } from "./address.ts";
import { type ConstantType, parseClassid, parseProtocol } from "./constant.ts";
import { asFlags, asList, asNumber, asObjectOf, asTagged, asText, notUnderstood } from "./shape.ts";

/**
 * An expression in its canonical form. `type` says how to read the constants in it; fields and
 * lookups bring their own.
 * @throws AppError NFT_OUTPUT for an expression that we never write
 */
export function canonicalExpression(value: unknown, type: ConstantType = "text"): Expression {
  if (typeof value === "string" || typeof value === "number") return canonicalConstant(value, type);
  const [kind, body] = asTagged(value, "expression");
  switch (kind) {
    case "payload":
      return { payload: canonicalPayload(body) };
    case "meta":
      return { meta: { key: asText(asObjectOf(body, ["key"], "meta").key, kind) } };
    case "ct":
      return canonicalConntrack(body);
    case "fib": {
      const fib = asObjectOf(body, ["flags", "result"], "fib");
      return { fib: { flags: asFlags(fib.flags, "fib flags"), result: asText(fib.result, kind) } };
    }
    case "numgen":
      return canonicalNumgen(body);
    case "jhash":
      return canonicalJhash(body);
    case "concat":
      return { concat: asList(body, "concatenation").map((part) => canonicalExpression(part)) };
    case "map": {
      const lookup = asObjectOf(body, ["key", "data"], "map lookup");
      return { map: { key: canonicalExpression(lookup.key), data: asReference(lookup.data) } };
    }
    case "|":
      return { "|": canonicalOperands(body) };
    case "&":
      return { "&": canonicalOperands(body) };
    case "^":
      return { "^": canonicalOperands(body) };
    case "set":
      return canonicalSet(asList(body, "set"), type);
    case "prefix":
    case "range":
      return canonicalSet([value], type);
    default:
      throw notUnderstood(`expression "${kind}"`, value);
  }
}

/** How constants beside this expression (on the other side of a comparison, or assigned to it) are to be read. */
export function constantTypeOf(field: Expression): ConstantType {
  if (typeof field !== "object") return "text";
  if ("payload" in field) {
    if ("base" in field.payload) return "number";
    const { protocol, field: name } = field.payload;
    if ((name === "saddr" || name === "daddr") && (protocol === "ip" || protocol === "ip6")) return protocol;
    if (protocol === "tcp" && name === "flags") return "text";
    return name === "protocol" || name === "nexthdr" ? "protocol" : "number";
  }
  if ("meta" in field) {
    if (field.meta.key === "priority") return "classid";
    if (field.meta.key === "l4proto") return "protocol";
    return field.meta.key === "mark" ? "number" : "text";
  }
  if ("&" in field) return constantTypeOf(field["&"][0]);
  return "|" in field || "^" in field ? "number" : "text";
}

/** The name of a set or map, with its `@`. */
export function asReference(value: unknown): string {
  const name = asText(value, "reference to a set");
  if (!name.startsWith("@")) throw notUnderstood("reference to a set", value);
  return name;
}

function canonicalConstant(value: string | number, type: ConstantType): Expression {
  if (typeof value === "string" && value.startsWith("@")) return value;
  switch (type) {
    case "ip":
    case "ip6":
      return canonicalAddresses(type, [value]);
    case "classid":
      return parseClassid(value);
    case "number":
      return asNumber(value, "number");
    case "protocol":
      return parseProtocol(value);
    case "text":
      return value;
  }
}

/** Reads a payload, as every reader of nft's JSON does. @throws AppError NFT_OUTPUT */
export function canonicalPayload(body: unknown): PayloadField | RawPayload {
  const payload = asObjectOf(body, ["protocol", "field", "base", "offset", "len"], "payload");
  const { base } = payload;
  if (base === undefined) {
    return { protocol: asText(payload.protocol, "payload"), field: asText(payload.field, "payload") };
  }
  if (base !== "ll" && base !== "nh" && base !== "th") throw notUnderstood("base of a payload", body);
  return { base, offset: asNumber(payload.offset, "payload offset"), len: asNumber(payload.len, "payload length") };
}

function canonicalConntrack(body: unknown): Expression {
  const { key, dir } = asObjectOf(body, ["key", "dir"], "ct");
  if (dir !== undefined && dir !== "original" && dir !== "reply") throw notUnderstood("direction", body);
  return { ct: { key: asText(key, "ct"), ...(dir !== undefined && { dir }) } };
}

function canonicalNumgen(body: unknown): Expression {
  const numgen = asObjectOf(body, ["mode", "mod", "offset"], "numgen");
  const { mode } = numgen;
  if (mode !== "random" && mode !== "inc") throw notUnderstood("mode of numgen", body);
  const offset = canonicalOffset(numgen.offset ?? 0);
  return { numgen: { mode, mod: asNumber(numgen.mod, "numgen modulus"), offset } };
}

/** nft omits an offset of 0. Without a seed every kernel has its own, which our rules never want. */
function canonicalJhash(body: unknown): Expression {
  const jhash = asObjectOf(body, ["mod", "seed", "offset", "expr"], "jhash");
  return {
    jhash: {
      mod: asNumber(jhash.mod, "jhash modulus"),
      seed: asNumber(jhash.seed, "jhash seed"),
      offset: canonicalOffset(jhash.offset ?? 0),
      expr: canonicalExpression(jhash.expr),
    },
  };
}

/** nft's JSON has the 32 bits of an offset as a signed number (1.1.7). */
function canonicalOffset(offset: unknown): number {
  return typeof offset === "number" && offset < 0 ? offset + 2 ** 32 : asNumber(offset, "offset");
}

function canonicalOperands(body: unknown): readonly [Expression, Expression] {
  const [left, right, more] = asList(body, "operands");
  if (left === undefined || right === undefined || more !== undefined) throw notUnderstood("operands", body);
  const value = canonicalExpression(left, "number");
  return [value, canonicalExpression(right, constantTypeOf(value))];
}

function canonicalSet(items: readonly unknown[], type: ConstantType): Expression {
  if (type === "ip" || type === "ip6") return canonicalAddresses(type, items);
  const byText = new Map(
    items.map((item) => {
      const member = canonicalMember(item, type);
      return [JSON.stringify(member), member] as const;
    }),
  );
  // In no order of its own: the kernel lists anonymous sets of such members by hash.
  const members = [...byText].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, member]) => member);
  const [lone] = members;
  if (lone === undefined) throw notUnderstood("empty set", items);
  return members.length === 1 ? lone : { set: members };
}

function canonicalMember(item: unknown, type: ConstantType): Expression {
  if (typeof item === "string" || typeof item === "number") return canonicalConstant(item, type);
  const [kind, body] = asTagged(item, "member of a set");
  const [first, last, more] = kind === "range" ? asList(body, "range") : [];
  if (first === undefined || last === undefined || more !== undefined) throw notUnderstood("member of a set", item);
  return { range: [canonicalExpression(first, type), canonicalExpression(last, type)] };
}
