import type { Expression } from "./ast/json.ts";
import type { DataType } from "./ast/ruleset.ts";

/**
 * An expression of each data type, by which keys of sets and maps are declared (`typeof`). Declared by the names of the
 * types instead, by nft 1.1.2 and newer, they crash older versions that list them (1.0.6: kubernetes issue 136786).
 */
const KEY_EXPRESSIONS: Readonly<Record<DataType, Expression>> = {
  ipv4_addr: { payload: { protocol: "ip", field: "daddr" } },
  ipv6_addr: { payload: { protocol: "ip6", field: "daddr" } },
  inet_proto: { meta: { key: "l4proto" } },
  inet_service: { payload: { protocol: "th", field: "dport" } },
  classid: { meta: { key: "priority" } },
  // Of any modulus: nft evaluates the type alone.
  integer: { numgen: { mode: "random", mod: 2, offset: 0 } },
};

/**
 * The same for values. Of a map that is in the kernel already, nft evaluates the values' expressions as part of each new
 * `dnat` rule, and refuses `th dport` there ("conflicting protocols specified: ip vs. th", nft 1.1.3 and 1.1.7).
 */
const VALUE_EXPRESSIONS: Readonly<Record<DataType, Expression>> = {
  ...KEY_EXPRESSIONS,
  inet_service: { ct: { key: "proto-dst", dir: "original" } },
};

const TYPES: ReadonlyMap<string, DataType> = new Map(
  [KEY_EXPRESSIONS, VALUE_EXPRESSIONS].flatMap((expressions) =>
    Object.entries(expressions).map(([type, expression]) => [JSON.stringify(expression), type as DataType] as const),
  ),
);

/** The expression that declares keys or values of some data types: `ip daddr . meta l4proto`. */
export function declaringExpression(types: readonly DataType[], side: "key" | "value"): Expression {
  const expressions = side === "key" ? KEY_EXPRESSIONS : VALUE_EXPRESSIONS;
  const parts = types.map((type) => expressions[type]);
  return parts.length === 1 ? (parts[0] as Expression) : { concat: parts };
}

/** The data type that an expression in canonical form stands for; undefined for one that we never declare by. */
export function typeOfExpression(expression: Expression): DataType | undefined {
  return TYPES.get(JSON.stringify(expression));
}
