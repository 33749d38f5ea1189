import type { BaseChain, DataType, SetSpec } from "../ast/ruleset.ts";
import { typeOfExpression } from "../data-types.ts";
import { canonicalExpression } from "./expression.ts";
import { asFlags, asList, asNumber, asText, type JsonObject, notUnderstood } from "./shape.ts";

const DATA_TYPES: ReadonlySet<string> = new Set<DataType>([
  "ipv4_addr",
  "ipv6_addr",
  "inet_proto",
  "inet_service",
  "classid",
  "integer",
]);

/** The priorities that have names in the families ip and ip6. Source: nft(8), "Standard priority names". */
export const PRIORITIES: Readonly<Record<string, number>> = {
  raw: -300,
  mangle: -150,
  dstnat: -100,
  filter: 0,
  security: 50,
  srcnat: 100,
};

/** Of our sets and maps: plain, filled by packets, with elements that end by themselves, and with ranges. */
const KNOWN_FLAGS: ReadonlySet<string> = new Set(["", "dynamic,timeout", "timeout", "interval"]);

const HOOKS: readonly string[] = ["prerouting", "input", "forward", "output", "postrouting"];

/** Reads what makes a chain a base chain; undefined for a regular chain. */
export function parseBaseChain(chain: JsonObject): BaseChain | undefined {
  const { hook, type, policy = "accept" } = chain;
  if (hook === undefined) return undefined;
  const known = (type === "filter" || type === "nat") && (policy === "accept" || policy === "drop");
  if (!known || !HOOKS.includes(asText(hook, "hook"))) throw notUnderstood("base chain", chain);
  return { type, hook: hook as BaseChain["hook"], prio: parsePriority(chain.prio), policy };
}

/** A chain's priority: a number, or a name with or without an offset (`dstnat`, `filter - 10`). */
function parsePriority(prio: unknown): number {
  if (typeof prio === "number") return prio;
  const text = asText(prio, "priority");
  const [, name = "", offset = "0"] = /^([a-z]*)([+-]?\d+)?$/.exec(text.replaceAll(" ", "")) ?? [];
  const base = name === "" ? 0 : PRIORITIES[name];
  if (base === undefined || text === "") throw notUnderstood("priority", prio);
  return base + Number(offset);
}

/**
 * Reads the declaration of a set (`kind` "set") or of a map.
 * @throws AppError NFT_OUTPUT for a type or flag that we never declare
 */
export function parseSetSpec(kind: "set" | "map", set: JsonObject): SetSpec {
  const flags = asFlags(set.flags ?? [], "flags").join(",");
  const isKnown = flags === "dynamic,timeout" || (flags === "timeout") === (set.timeout !== undefined);
  if (!isKnown || !KNOWN_FLAGS.has(flags)) throw notUnderstood("flags", set.flags);
  return {
    name: asText(set.name, "name"),
    key: parseTypes(set.type),
    ...(kind === "map" && { value: parseValueTypes(set.map) }),
    dynamic: flags === "dynamic,timeout",
    ...(set.size !== undefined && { size: asNumber(set.size, "size") }),
    ...(set.timeout !== undefined && { timeout: asNumber(set.timeout, "timeout") }),
    counter: set.stmt !== undefined && parseStatements(set.stmt),
    ...(flags === "interval" && { interval: true as const }),
  };
}

/** nft lists a map of verdicts as `"verdict"`, however it was declared. */
function parseValueTypes(value: unknown): "verdict" | readonly DataType[] {
  const isVerdict = value === "verdict" || (isTypeof(value) && isVerdictExpression(value.typeof));
  return isVerdict ? "verdict" : parseTypes(value);
}

/** Types come as expressions, those of values as names: a list, text joined with dots, or one name, by nft's version. */
function parseTypes(value: unknown): readonly DataType[] {
  if (isTypeof(value)) return typesOfExpression(value.typeof);
  const names = typeof value === "string" ? value.split(" . ") : asList(value, "types");
  for (const name of names) {
    if (!DATA_TYPES.has(asText(name, "type"))) throw notUnderstood("type", value);
  }
  return names as readonly DataType[];
}

function isTypeof(value: unknown): value is { readonly typeof: unknown } {
  return typeof value === "object" && value !== null && "typeof" in value;
}

function isVerdictExpression(value: unknown): boolean {
  return typeof value === "object" && value !== null && "accept" in value;
}

function typesOfExpression(value: unknown): readonly DataType[] {
  const expression = canonicalExpression(value);
  const parts = typeof expression === "object" && "concat" in expression ? expression.concat : [expression];
  return parts.map((part) => {
    const type = typeOfExpression(part);
    if (type === undefined) throw notUnderstood("type", value);
    return type;
  });
}

function parseStatements(value: unknown): boolean {
  const isCounter = JSON.stringify(asList(value, "statements of elements").map((item) => Object.keys(item as object)));
  if (isCounter !== '[["counter"]]') throw notUnderstood("statements of elements", value);
  return true;
}
