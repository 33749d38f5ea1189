import { addressNumber } from "../base/address-interval.ts";
import type { Family } from "../base/family.ts";
import type { Expression, Statement } from "../nft/ast/json.ts";
import { addressInterval } from "../nft/canonical/address.ts";
import { addEffect, type Machine, type State, setOf, unknownToEvaluator } from "./state.ts";
import { expressionValue, type Value } from "./value.ts";

type Match = Extract<Statement, { readonly match: unknown }>["match"];

/** Whether a comparison holds for the packet as it is. */
export function matches(machine: Machine, state: State, { op, left, right }: Match): boolean {
  if (isStatus(left)) return statusMatches(state, right) === (op !== "!=");
  const value = expressionValue(machine, state, left);
  if (value === undefined) return false;
  return isIn(machine, state, value, right, isInterfaceName(left)) === (op !== "!=");
}

function isStatus(left: Expression): boolean {
  return typeof left === "object" && "ct" in left && left.ct.key === "status";
}

function isInterfaceName(left: Expression): boolean {
  return typeof left === "object" && "meta" in left && left.meta.key === "iifname";
}

/** A connection's status is a set of bits; the first packet has no other that rules of ours ask for. */
function statusMatches(state: State, right: Expression): boolean {
  if (right === "dnat") return state.translated;
  throw unknownToEvaluator("this conntrack status", right);
}

function isIn(machine: Machine, state: State, value: Value, right: Expression, wildcard: boolean): boolean {
  if (typeof right === "number") return value === right;
  if (typeof right === "string") {
    if (right.startsWith("@")) return isElement(machine, state, right, String(value));
    if (wildcard && right.endsWith("*")) return String(value).startsWith(right.slice(0, -1));
    return value === right;
  }
  if ("set" in right) return right.set.some((member) => isIn(machine, state, value, member, wildcard));
  if ("prefix" in right || "range" in right) return isBetween(machine.family, value, right);
  throw unknownToEvaluator("this side of a comparison", right);
}

/** Notes only what is found: most packets are in few of the sets. */
function isElement(machine: Machine, state: State, reference: string, key: string): boolean {
  const { spec, elements } = setOf(machine, reference);
  const value = elements.get(key);
  if (spec.dynamic) throw unknownToEvaluator("a comparison with a dynamic set", reference);
  if (value !== undefined) addEffect(state, { kind: "found", set: spec.name, key, value });
  return value !== undefined;
}

function isBetween(family: Family, value: Value, interval: Expression): boolean {
  if (typeof value === "number") {
    if (typeof interval !== "object" || !("range" in interval)) throw unknownToEvaluator("this range", interval);
    return value >= Number(interval.range[0]) && value <= Number(interval.range[1]);
  }
  const { first, last } = addressInterval(family, interval);
  const address = addressNumber(family, value);
  return first <= address && address <= last;
}
