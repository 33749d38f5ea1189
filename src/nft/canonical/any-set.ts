import type { AnySet } from "../ast/any-table.ts";
import type { AnyType } from "./any-constant.ts";
import { anyElements } from "./any-elements.ts";
import { anyExpression, partTypes } from "./any-expression.ts";
import { asFlags, asList, asNumber, asObject, asTagged, asText, type JsonObject, notUnderstood } from "./shape.ts";

/** Types of set keys and values by nft's names; others are kept as they are. Source: nft(8), "Data types". */
const TYPES: Readonly<Record<string, AnyType>> = {
  ipv4_addr: "ip",
  ipv6_addr: "ip6",
  inet_proto: "protocol",
  inet_service: "number",
  mark: "number",
  classid: "classid",
  tcp_flag: "tcp-flags",
};

/** Statements of a set's elements that let every packet pass; others (`limit`, `quota`, `ct count`) end the rule at times. */
const PASSING: ReadonlySet<string> = new Set(["counter", "last"]);

/**
 * Reads a set or map as `nft -j list table` prints it.
 * @throws AppError NFT_OUTPUT for a declaration or an element that is not understood
 */
export function anySet(kind: "set" | "map", set: JsonObject): AnySet {
  const flags = asFlags(set.flags ?? [], "flags");
  assertPassing(set.stmt ?? []);
  const spec = {
    name: asText(set.name, "name"),
    dynamic: flags.includes("dynamic"),
    ...(set.size !== undefined && { size: asNumber(set.size, "size") }),
    ...(set.timeout !== undefined && { timeout: asNumber(set.timeout, "timeout") }),
  };
  return anyElements(spec, asList(set.elem ?? [], "elements"), keyTypes(set.type), kind);
}

/**
 * Checks the statements that run for each packet of an element, as a set or a rule gives them.
 * @throws AppError NFT_OUTPUT for one that does not let every packet pass
 */
export function assertPassing(statements: unknown): void {
  for (const statement of asList(statements, "statements of elements")) {
    if (!PASSING.has(asTagged(statement, "statement")[0])) throw notUnderstood("statement of elements", statement);
  }
}

/** A declaration by `typeof` names expressions in place of types. */
function keyTypes(type: unknown): readonly AnyType[] {
  if (typeof type === "string") return type.split(" . ").map((name) => TYPES[name] ?? "any");
  if (Array.isArray(type)) return type.map((name) => TYPES[asText(name, "type")] ?? "any");
  return partTypes(anyExpression(asObject(type, "type").typeof));
}
