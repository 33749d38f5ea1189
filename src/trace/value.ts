import type { Expression, MapStatement } from "../nft/ast/json.ts";
import { isLocal } from "./packet.ts";
import { addEffect, type Machine, type State, setOf, unknownToEvaluator } from "./state.ts";

/** A number, or canonical text (an address, a name, the parts of a concatenation). */
export type Value = string | number;

/**
 * The value of an expression for the packet as it is. Undefined where the kernel finds none (a lookup
 * that fails, a field of another protocol): the rule ends there.
 */
export function expressionValue(machine: Machine, state: State, expression: Expression): Value | undefined {
  if (typeof expression !== "object") return expression;
  if ("payload" in expression) return payloadValue(machine, state, expression.payload);
  if ("meta" in expression) return metaValue(machine, state, expression.meta.key);
  if ("fib" in expression) return fibValue(machine, state, expression.fib);
  if ("concat" in expression) return concatValue(machine, state, expression.concat);
  if ("map" in expression) return mapValue(machine, state, expression.map);
  if ("ct" in expression && expression.ct.key === "state") return machine.packet.conntrack ?? "new";
  return bitwiseValue(machine, state, expression);
}

function payloadValue(
  { packet, family }: Machine,
  state: State,
  { protocol, field }: { readonly protocol: string; readonly field: string },
): Value | undefined {
  if (protocol === family && field === "saddr") return packet.from.address;
  if (protocol === family && field === "daddr") return state.destination;
  if (field === "dport" && protocol === "th") return state.port;
  if (field === "dport" && ["tcp", "udp", "sctp"].includes(protocol)) {
    return protocol === packet.protocol ? state.port : undefined;
  }
  throw unknownToEvaluator(`the field ${protocol} ${field}`, { protocol, field });
}

function metaValue({ packet }: Machine, state: State, key: string): Value {
  switch (key) {
    case "l4proto":
      return packet.protocol;
    case "mark":
      return state.mark;
    case "priority":
      return state.priority;
    case "iifname":
      return state.iifname;
    default:
      throw unknownToEvaluator(`meta ${key}`, key);
  }
}

function fibValue(
  { host, packet }: Machine,
  state: State,
  fib: { readonly flags: readonly string[]; readonly result: string },
): Value {
  const [flag, more] = fib.flags;
  if (fib.result !== "type" || more !== undefined || (flag !== "saddr" && flag !== "daddr")) {
    throw unknownToEvaluator("this kind of fib", fib);
  }
  return isLocal(host, flag === "saddr" ? packet.from.address : state.destination) ? "local" : "unicast";
}

function concatValue(machine: Machine, state: State, parts: readonly Expression[]): string | undefined {
  let text = "";
  for (const part of parts) {
    const value = expressionValue(machine, state, part);
    if (value === undefined) return undefined;
    text += text === "" ? value : ` . ${value}`;
  }
  return text;
}

function mapValue(
  machine: Machine,
  state: State,
  { key, data }: { readonly key: Expression; readonly data: Expression },
): Value | undefined {
  if (typeof data !== "string") throw unknownToEvaluator("an anonymous map", data);
  const found = lookUp(machine, state, data, expressionValue(machine, state, key));
  if (found === undefined) return undefined;
  const { value } = setOf(machine, data).spec;
  return value !== "verdict" && value?.length === 1 && value[0] === "classid" ? Number(found) : found;
}

/** The value of an element ("" in a set), noted as found or missed; undefined when there is none. */
export function lookUp(machine: Machine, state: State, reference: string, key: Value | undefined): string | undefined {
  if (key === undefined) return undefined;
  const { spec, elements } = setOf(machine, reference);
  const text = String(key);
  const value = spec.dynamic ? dynamicValue(machine, state, spec.name, text) : elements.get(text);
  addEffect(
    state,
    value === undefined
      ? { kind: "missed", set: spec.name, key: text }
      : { kind: "found", set: spec.name, key: text, value },
  );
  return value;
}

function dynamicValue(machine: Machine, state: State, map: string, key: string): string | undefined {
  const changed = `${map} ${key}`;
  return state.dynamic.has(changed) ? state.dynamic.get(changed) : machine.dynamic.get(map)?.get(key);
}

/**
 * Runs `update` or `delete` of a dynamic map's element. An element that exists keeps its value, only its time
 * starts again; false when the map is full, which ends the rule. Source: net/netfilter/nft_dynset.c, Linux 6.18.
 */
export function runMapStatement(machine: Machine, state: State, statement: MapStatement): boolean {
  const { spec } = setOf(machine, statement.map);
  const { val, timeout } = elementOf(statement.elem);
  const key = expressionValue(machine, state, val);
  const data = expressionValue(machine, state, statement.data);
  if (key === undefined || data === undefined) return false;
  const text = String(key);
  const known = dynamicValue(machine, state, spec.name, text);
  if (statement.op === "delete") {
    if (known === undefined) return true;
    addEffect(state, { kind: "deleted", map: spec.name, key: text });
    state.dynamic = new Map(state.dynamic).set(`${spec.name} ${text}`, undefined);
    return true;
  }
  if (known === undefined && isFull(machine, state, spec.name, spec.size)) {
    addEffect(state, { kind: "full", map: spec.name });
    return false;
  }
  const learned = { map: spec.name, key: text, value: known ?? String(data), timeout };
  addEffect(state, { kind: "updated", ...learned });
  state.dynamic = new Map(state.dynamic).set(`${spec.name} ${text}`, learned.value);
  state.learned = [...state.learned, learned];
  return true;
}

function elementOf(elem: MapStatement["elem"]): { readonly val: Expression; readonly timeout: number } {
  return typeof elem === "object" && "elem" in elem ? elem.elem : { val: elem, timeout: 0 };
}

/** A packet deletes at most one element and adds at most one, so that only what it deleted makes room. */
function isFull(machine: Machine, state: State, map: string, size: number | undefined): boolean {
  if (size === undefined) return false;
  let filling = machine.dynamic.get(map)?.size ?? 0;
  for (const [changed, value] of state.dynamic) {
    if (!changed.startsWith(`${map} `)) continue;
    const before = machine.dynamic.get(map)?.has(changed.slice(map.length + 1)) ?? false;
    filling += Number(value !== undefined) - Number(before);
  }
  return filling >= size;
}

function bitwiseValue(machine: Machine, state: State, expression: Expression): number {
  const operands = (pair: readonly [Expression, Expression]): readonly [number, number] => [
    Number(expressionValue(machine, state, pair[0])),
    Number(expressionValue(machine, state, pair[1])),
  ];
  if (typeof expression === "object") {
    if ("|" in expression) return bitwise(operands(expression["|"]), (a, b) => a | b);
    if ("&" in expression) return bitwise(operands(expression["&"]), (a, b) => a & b);
    if ("^" in expression) return bitwise(operands(expression["^"]), (a, b) => a ^ b);
  }
  throw unknownToEvaluator("this expression", expression);
}

/** JavaScript's bitwise operators give signed numbers, marks are unsigned. */
function bitwise(operands: readonly [number, number], operate: (a: number, b: number) => number): number {
  return operate(...operands) >>> 0;
}
