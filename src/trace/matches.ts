import { addressNumber } from "../base/address-interval.ts";
import type { Family } from "../base/family.ts";
import type { Expression, Statement } from "../nft/ast/json.ts";
import { addressInterval } from "../nft/canonical/address.ts";
import { addEffect, type Branch, type Evaluation, notEvaluable, setOf } from "./branch.ts";
import { expressionValue, type Value } from "./expression-value.ts";

type Match = Extract<Statement, { readonly match: unknown }>["match"];

/**
 * Whether a comparison holds for the current packet.
 * @throws AppError NFT_OUTPUT for an operand that the evaluator does not know
 */
export function matches(evaluation: Evaluation, branch: Branch, { op, left, right }: Match): boolean {
  if (isStatus(left)) return statusMatches(branch, right) === (op !== "!=");
  const value = expressionValue(evaluation, branch, left);
  if (value === undefined) return false;
  return isIn(evaluation, branch, value, right, isInterfaceName(left)) === (op !== "!=");
}

function isStatus(left: Expression): boolean {
  return typeof left === "object" && "ct" in left && left.ct.key === "status";
}

function isInterfaceName(left: Expression): boolean {
  return typeof left === "object" && "meta" in left && left.meta.key === "iifname";
}

/** A connection's status is a set of bits. Only `dnat` is known of the first packet. */
function statusMatches(branch: Branch, right: Expression): boolean {
  if (right === "dnat") return branch.translated;
  throw notEvaluable("this conntrack status", right);
}

function isIn(evaluation: Evaluation, branch: Branch, value: Value, right: Expression, wildcard: boolean): boolean {
  if (typeof right === "number") return value === right;
  if (typeof right === "string") {
    if (right.startsWith("@")) return isElement(evaluation, branch, right, String(value));
    if (wildcard && right.endsWith("*")) return String(value).startsWith(right.slice(0, -1));
    return value === right;
  }
  if ("set" in right) return right.set.some((member) => isIn(evaluation, branch, value, member, wildcard));
  if ("prefix" in right || "range" in right) return isBetween(evaluation.family, value, right);
  throw notEvaluable("this side of a comparison", right);
}

/** Records only elements that are found: a packet is in few of the sets. */
function isElement(evaluation: Evaluation, branch: Branch, reference: string, key: string): boolean {
  const { spec, elements } = setOf(evaluation, reference);
  const value = elements.get(key);
  if (spec.dynamic) throw notEvaluable("a comparison with a dynamic set", reference);
  if (value !== undefined) addEffect(branch, { kind: "found", set: spec.name, key, value });
  return value !== undefined;
}

function isBetween(family: Family, value: Value, interval: Expression): boolean {
  if (typeof value === "number") {
    if (typeof interval !== "object" || !("range" in interval)) throw notEvaluable("this range", interval);
    return value >= Number(interval.range[0]) && value <= Number(interval.range[1]);
  }
  const { first, last } = addressInterval(family, interval);
  const address = addressNumber(family, value);
  return first <= address && address <= last;
}
