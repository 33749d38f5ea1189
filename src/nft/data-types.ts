import type { Family } from "../base/family.ts";
import type { AnyExpression } from "./ast/any-table.ts";
import type { Expression } from "./ast/json.ts";
import type { DataType } from "./ast/ruleset.ts";

/**
 * The type of a constant, by nft's names: those of our own sets and a few more. nft's JSON omits it, but the
 * compared field implies it. Constants of type `other` are kept as they are. Source: nft(8), "Data types".
 */
export type ConstantType = DataType | "dscp" | "mark" | "tcp_flag" | "ifname" | "other";

/**
 * An expression of each data type, to declare keys of sets and maps (`typeof`). Declared by type name with
 * nft 1.1.2 and newer, they crash older versions that list them (1.0.6: kubernetes issue 136786).
 */
const KEY_EXPRESSIONS: Readonly<Record<DataType, Expression>> = {
  ipv4_addr: { payload: { protocol: "ip", field: "daddr" } },
  ipv6_addr: { payload: { protocol: "ip6", field: "daddr" } },
  inet_proto: { meta: { key: "l4proto" } },
  inet_service: { payload: { protocol: "th", field: "dport" } },
  classid: { meta: { key: "priority" } },
  // The modulus does not matter: nft evaluates only the type.
  integer: { numgen: { mode: "random", mod: 2, offset: 0 } },
};

/**
 * The same for values. For a map in the kernel, nft evaluates the expressions of values in each new `dnat`
 * rule, and refuses `th dport` there ("conflicting protocols specified: ip vs. th", nft 1.1.3 and 1.1.7).
 */
const VALUE_EXPRESSIONS: Readonly<Record<DataType, Expression>> = {
  ...KEY_EXPRESSIONS,
  inet_service: { ct: { key: "proto-dst", dir: "original" } },
};

/** The types of our own sets. */
export const OUR_TYPES: ReadonlySet<ConstantType> = new Set(Object.keys(KEY_EXPRESSIONS) as DataType[]);

const NAMED_TYPES: ReadonlySet<string> = new Set<ConstantType>([
  ...OUR_TYPES,
  "dscp",
  "mark",
  "tcp_flag",
  "ifname",
]);

/** The family of a type of addresses; undefined for other types. */
export function familyOfType(type: ConstantType | undefined): Family | undefined {
  if (type === "ipv4_addr") return "ip";
  return type === "ipv6_addr" ? "ip6" : undefined;
}

/** The expression that declares keys or values of some data types: `ip daddr . meta l4proto`. */
export function declaringExpression(types: readonly DataType[], side: "key" | "value"): Expression {
  const expressions = side === "key" ? KEY_EXPRESSIONS : VALUE_EXPRESSIONS;
  const parts = types.map((type) => expressions[type]);
  return parts.length === 1 ? (parts[0] as Expression) : { concat: parts };
}

/** A type by the name that declares the keys of a set. */
export function typeOfName(name: string): ConstantType {
  return NAMED_TYPES.has(name) ? (name as ConstantType) : "other";
}

/** The types of a key's parts. */
export function typesOfKey(key: AnyExpression): readonly ConstantType[] {
  return typeof key === "object" && "concat" in key
    ? key.concat.map(typeOfExpression)
    : [typeOfExpression(key)];
}

/** The type of an expression, and of the constants that are compared with it or assigned to it. */
export function typeOfExpression(expression: AnyExpression): ConstantType {
  if (typeof expression !== "object") return "other";
  if ("payload" in expression) {
    const { payload } = expression;
    return "base" in payload ? "integer" : typeOfField(payload.protocol, payload.field);
  }
  if ("meta" in expression) return META_TYPES[expression.meta.key] ?? "other";
  if ("ct" in expression) return typeOfConntrack(expression.ct.key);
  if ("&" in expression) return typeOfExpression(expression["&"][0]);
  if ("|" in expression) return typeOfExpression(expression["|"][0]);
  if ("^" in expression) return typeOfExpression(expression["^"][0]);
  return "numgen" in expression || "jhash" in expression ? "integer" : "other";
}

const META_TYPES: Readonly<Record<string, ConstantType>> = {
  priority: "classid",
  l4proto: "inet_proto",
  mark: "mark",
  iifname: "ifname",
  oifname: "ifname",
};

function typeOfField(protocol: string, field: string): ConstantType {
  if (field === "saddr" || field === "daddr") {
    if (protocol === "ip") return "ipv4_addr";
    return protocol === "ip6" ? "ipv6_addr" : "other";
  }
  if (field === "protocol" || field === "nexthdr") return "inet_proto";
  if (field === "flags" && protocol === "tcp") return "tcp_flag";
  if (field === "dscp") return field;
  return field === "dport" || field === "sport" ? "inet_service" : "other";
}

function typeOfConntrack(key: string): ConstantType {
  if (/^ip6? [sd]addr$/.test(key)) return key.startsWith("ip6") ? "ipv6_addr" : "ipv4_addr";
  if (key === "protocol") return "inet_proto";
  if (key === "mark") return "mark";
  return key.startsWith("proto-") ? "inet_service" : "other";
}
