import type { Expression, MapStatement } from "../nft/ast/json.ts";
import { addEffect, type Branch, type Evaluation, notEvaluable, setOf } from "./branch.ts";
import { isLocal } from "./packet.ts";

/** A number, or canonical text (an address, a name, the parts of a concatenation). */
export type Value = string | number;

/**
 * Returns the value of an expression for the current packet, or undefined where the kernel finds none (a failed
 * lookup, a field of another protocol), which ends the rule.
 * @throws AppError NFT_OUTPUT for an expression that the evaluator does not know
 */
export function expressionValue(evaluation: Evaluation, branch: Branch, expression: Expression): Value | undefined {
  if (typeof expression !== "object") return expression;
  if ("payload" in expression) return payloadValue(evaluation, branch, expression.payload);
  if ("meta" in expression) return metaValue(evaluation, branch, expression.meta.key);
  if ("fib" in expression) return fibValue(evaluation, branch, expression.fib);
  if ("concat" in expression) return concatValue(evaluation, branch, expression.concat);
  if ("map" in expression) return mapValue(evaluation, branch, expression.map);
  if ("ct" in expression && expression.ct.key === "state") return evaluation.packet.conntrack ?? "new";
  return bitwiseValue(evaluation, branch, expression);
}

function payloadValue(
  { packet, family }: Evaluation,
  branch: Branch,
  { protocol, field }: { readonly protocol: string; readonly field: string },
): Value | undefined {
  if (protocol === family && field === "saddr") return packet.from.address;
  if (protocol === family && field === "daddr") return branch.destination;
  if (field === "dport" && protocol === "th") return branch.port;
  if (field === "dport" && ["tcp", "udp", "sctp"].includes(protocol)) {
    return protocol === packet.protocol ? branch.port : undefined;
  }
  throw notEvaluable(`the field ${protocol} ${field}`, { protocol, field });
}

function metaValue({ packet }: Evaluation, branch: Branch, key: string): Value {
  switch (key) {
    case "l4proto":
      return packet.protocol;
    case "mark":
      return branch.mark;
    case "priority":
      return branch.priority;
    case "iifname":
      return branch.iifname;
    default:
      throw notEvaluable(`meta ${key}`, key);
  }
}

function fibValue(
  { host, packet }: Evaluation,
  branch: Branch,
  fib: { readonly flags: readonly string[]; readonly result: string },
): Value {
  const [flag, more] = fib.flags;
  if (fib.result !== "type" || more !== undefined || (flag !== "saddr" && flag !== "daddr")) {
    throw notEvaluable("this kind of fib", fib);
  }
  return isLocal(host, flag === "saddr" ? packet.from.address : branch.destination) ? "local" : "unicast";
}

function concatValue(evaluation: Evaluation, branch: Branch, parts: readonly Expression[]): string | undefined {
  let text = "";
  for (const part of parts) {
    const value = expressionValue(evaluation, branch, part);
    if (value === undefined) return undefined;
    text += text === "" ? value : ` . ${value}`;
  }
  return text;
}

function mapValue(
  evaluation: Evaluation,
  branch: Branch,
  { key, data }: { readonly key: Expression; readonly data: Expression },
): Value | undefined {
  if (typeof data !== "string") throw notEvaluable("an anonymous map", data);
  const found = lookUp(evaluation, branch, data, expressionValue(evaluation, branch, key));
  if (found === undefined) return undefined;
  const { value } = setOf(evaluation, data).spec;
  return value !== "verdict" && value?.length === 1 && value[0] === "classid" ? Number(found) : found;
}

/**
 * Looks a key up and records the result as an effect. Returns the value ("" in a set), or undefined when missing.
 * @throws AppError NFT_OUTPUT when the table has no such set
 */
export function lookUp(
  evaluation: Evaluation,
  branch: Branch,
  reference: string,
  key: Value | undefined,
): string | undefined {
  if (key === undefined) return undefined;
  const { spec, elements } = setOf(evaluation, reference);
  const text = String(key);
  const value = spec.dynamic ? dynamicValue(evaluation, branch, spec.name, text) : elements.get(text);
  addEffect(
    branch,
    value === undefined
      ? { kind: "missed", set: spec.name, key: text }
      : { kind: "found", set: spec.name, key: text, value },
  );
  return value;
}

function dynamicValue(evaluation: Evaluation, branch: Branch, map: string, key: string): string | undefined {
  const changed = `${map} ${key}`;
  return branch.dynamic.has(changed) ? branch.dynamic.get(changed) : evaluation.dynamic.get(map)?.get(key);
}

/**
 * Runs `update` or `delete` of a dynamic map's element. An existing element keeps its value, and its timeout restarts.
 * Returns false when the map is full, which ends the rule. Source: net/netfilter/nft_dynset.c, Linux 6.18.
 */
export function runMapStatement(evaluation: Evaluation, branch: Branch, statement: MapStatement): boolean {
  const { spec } = setOf(evaluation, statement.map);
  const { val, timeout } = elementOf(statement.elem);
  const key = expressionValue(evaluation, branch, val);
  const data = expressionValue(evaluation, branch, statement.data);
  if (key === undefined || data === undefined) return false;
  const text = String(key);
  const known = dynamicValue(evaluation, branch, spec.name, text);
  if (statement.op === "delete") {
    if (known === undefined) return true;
    addEffect(branch, { kind: "deleted", map: spec.name, key: text });
    branch.dynamic = new Map(branch.dynamic).set(`${spec.name} ${text}`, undefined);
    return true;
  }
  if (known === undefined && isFull(evaluation, branch, spec.name, spec.size)) {
    addEffect(branch, { kind: "full", map: spec.name });
    return false;
  }
  const updates = { map: spec.name, key: text, value: known ?? String(data), timeout };
  addEffect(branch, { kind: "updated", ...updates });
  branch.dynamic = new Map(branch.dynamic).set(`${spec.name} ${text}`, updates.value);
  branch.updates = [...branch.updates, updates];
  return true;
}

function elementOf(elem: MapStatement["elem"]): { readonly val: Expression; readonly timeout: number } {
  return typeof elem === "object" && "elem" in elem ? elem.elem : { val: elem, timeout: 0 };
}

/** Whether a map has no room for another element, counting the elements that this packet added and deleted. */
function isFull(evaluation: Evaluation, branch: Branch, map: string, size: number | undefined): boolean {
  if (size === undefined) return false;
  let filling = evaluation.dynamic.get(map)?.size ?? 0;
  for (const [changed, value] of branch.dynamic) {
    if (!changed.startsWith(`${map} `)) continue;
    const before = evaluation.dynamic.get(map)?.has(changed.slice(map.length + 1)) ?? false;
    filling += Number(value !== undefined) - Number(before);
  }
  return filling >= size;
}

function bitwiseValue(evaluation: Evaluation, branch: Branch, expression: Expression): number {
  const operands = (pair: readonly [Expression, Expression]): readonly [number, number] => [
    Number(expressionValue(evaluation, branch, pair[0])),
    Number(expressionValue(evaluation, branch, pair[1])),
  ];
  if (typeof expression === "object") {
    if ("|" in expression) return bitwise(operands(expression["|"]), (a, b) => a | b);
    if ("&" in expression) return bitwise(operands(expression["&"]), (a, b) => a & b);
    if ("^" in expression) return bitwise(operands(expression["^"]), (a, b) => a ^ b);
  }
  throw notEvaluable("this expression", expression);
}

/** Marks are unsigned, but JavaScript's bitwise operators return signed numbers. */
function bitwise(operands: readonly [number, number], operate: (a: number, b: number) => number): number {
  return operate(...operands) >>> 0;
}
