import { conntrackDefaults } from "../../base/conntrack-defaults.ts";
import type { AnySet } from "../ast/any-table.ts";
import type { BaseChain, DataType, Flowtable, SetSpec, TimeoutPolicy } from "../ast/ruleset.ts";
import { type ConstantType, OUR_TYPES, typeOfName, typesOfKey } from "../data-types.ts";
import { parseProtocol } from "./constant.ts";
import { readElements } from "./elements.ts";
import { readExpression } from "./expression.ts";
import { readPassing } from "./rule.ts";
import {
  asFlags,
  asList,
  asNumber,
  asObject,
  asObjectOf,
  asTagged,
  asText,
  type JsonObject,
  notUnderstood,
} from "./shape.ts";

/** The priorities that have names in the families ip and ip6. Source: nft(8), "Standard priority names". */
export const PRIORITIES: Readonly<Record<string, number>> = {
  raw: -300,
  mangle: -150,
  dstnat: -100,
  filter: 0,
  security: 50,
  srcnat: 100,
};

/** The flags of our sets and maps: plain, filled by packets (twice), with timeouts, and with ranges. */
const KNOWN_FLAGS: ReadonlySet<string> = new Set(["", "dynamic", "dynamic,timeout", "timeout", "interval"]);

const HOOKS: readonly string[] = ["prerouting", "input", "forward", "output", "postrouting"];

/** Reads the hook of a base chain; undefined for a regular chain. */
export function parseBaseChain(chain: JsonObject): BaseChain | undefined {
  const { hook, type, policy = "accept" } = chain;
  if (hook === undefined) return undefined;
  const known = (type === "filter" || type === "nat") && (policy === "accept" || policy === "drop");
  if (!known || !HOOKS.includes(asText(hook, "hook"))) throw notUnderstood("base chain", chain);
  return { type, hook: hook as BaseChain["hook"], prio: parsePriority(chain.prio), policy };
}

/**
 * Reads a flow table with its devices: nft lists one as text, several as a list.
 * @throws AppError NFT_OUTPUT for properties that ours never has
 */
export function parseFlowtable(object: JsonObject): {
  readonly flowtable: Flowtable;
  readonly devices: readonly string[];
} {
  const members = ["family", "name", "table", "handle", "hook", "prio", "dev"];
  const { name, hook, prio, dev = [] } = asObjectOf(object, members, "flow table");
  if (hook !== "ingress") throw notUnderstood("hook of a flow table", object);
  return {
    flowtable: { name: asText(name, "name"), hook, prio: parsePriority(prio) },
    devices: asFlags(dev, "devices"),
  };
}

/** Reads an object with timeouts. @throws AppError NFT_OUTPUT for properties that ours never has */
export function parseTimeoutPolicy(object: JsonObject): TimeoutPolicy {
  const members = ["family", "name", "table", "handle", "protocol", "l3proto", "policy"];
  const { name, protocol, policy } = asObjectOf(object, members, "ct timeout");
  const known = parseProtocol(protocol);
  const listed = Object.entries(asObject(policy ?? {}, "policy")).map(
    ([state, seconds]) => [state, asNumber(seconds, "timeout")] as const,
  );
  return {
    name: asText(name, "name"),
    protocol: known,
    policy: { ...conntrackDefaults(known), ...Object.fromEntries(listed) },
  };
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
 * Reads a set or map of any software, with its elements.
 * @throws AppError NFT_OUTPUT for a declaration or an element that is not understood
 */
export function readSet(kind: "set" | "map", set: JsonObject): AnySet {
  readPassing(set.stmt ?? []);
  const spec = { ...commonSpec(set), dynamic: flagsOf(set).includes("dynamic") };
  return readElements(spec, asList(set.elem ?? [], "elements"), readTypes(set.type), kind);
}

/**
 * Reads the declaration of one of our sets (`kind` "set") or maps.
 * @throws AppError NFT_OUTPUT for a type or flag that we never declare
 */
export function parseSetSpec(kind: "set" | "map", set: JsonObject): SetSpec {
  const flags = flagsOf(set).join(",");
  const isKnown = flags === "dynamic,timeout" || (flags === "timeout") === (set.timeout !== undefined);
  if (!isKnown || !KNOWN_FLAGS.has(flags)) throw notUnderstood("flags", set.flags);
  return {
    ...commonSpec(set),
    key: ourTypes(set.type),
    ...(kind === "map" && { value: set.map === "verdict" ? set.map : ourTypes(set.map) }),
    dynamic: flags.startsWith("dynamic"),
    ...(flags === "dynamic" && { untimed: true as const }),
    counter: hasCounter(set),
    ...(flags === "interval" && { interval: true as const }),
  };
}

function flagsOf({ flags = [] }: JsonObject): readonly string[] {
  return asFlags(flags, "flags");
}

function commonSpec({ name, size, timeout }: JsonObject): Pick<SetSpec, "name" | "size" | "timeout"> {
  return {
    name: asText(name, "name"),
    ...(size !== undefined && { size: asNumber(size, "size") }),
    ...(timeout !== undefined && { timeout: asNumber(timeout, "timeout") }),
  };
}

function ourTypes(value: unknown): readonly DataType[] {
  const types = readTypes(value);
  if (!types.every((type): type is DataType => OUR_TYPES.has(type))) throw notUnderstood("type", value);
  return types;
}

/** Reads types, which versions of nft list as expressions, or as names: a list, text with dots, or one. */
function readTypes(value: unknown): readonly ConstantType[] {
  if (typeof value === "string") return value.split(" . ").map(typeOfName);
  if (Array.isArray(value)) return value.map((name) => typeOfName(asText(name, "type")));
  return typesOfKey(readExpression(asObject(value, "type").typeof));
}

/** Whether elements have counters. @throws AppError NFT_OUTPUT for other statements of elements */
function hasCounter({ stmt }: JsonObject): boolean {
  if (stmt === undefined) return false;
  const kinds = asList(stmt, "statements of elements").map((one) => asTagged(one, "statement")[0]);
  if (kinds.join() !== "counter") throw notUnderstood("statements of elements", stmt);
  return true;
}
