import { addressNumber, addressText } from "../base/address-interval.ts";
import type { AnonymousSet, AnyExpression } from "../nft/ast/any-table.ts";
import { joinParts } from "../nft/elements.ts";
import { addEffect, type Branch, type Evaluation } from "./branch.ts";
import { hashValue, isRandomHash } from "./hash-value.ts";
import { ctValue, fibValue, metaValue, payloadValue } from "./packet-fields.ts";
import { lookUp } from "./set-lookup.ts";
import { type Evaluated, UNKNOWN, type Value } from "./value.ts";

/**
 * Returns the value of an expression for the current packet: undefined where the kernel finds none (a failed lookup, a
 * field of another protocol), which ends the rule; `UNKNOWN` where it cannot be told.
 */
export function expressionValue(evaluation: Evaluation, branch: Branch, expression: AnyExpression): Evaluated {
  if (typeof expression !== "object") return expression;
  if ("payload" in expression) return payloadValue(evaluation, branch, expression.payload);
  if ("meta" in expression) return metaValue(evaluation, branch, expression.meta.key);
  if ("fib" in expression) return fibValue(evaluation, branch, expression.fib);
  if ("concat" in expression) return concatValue(evaluation, branch, expression.concat);
  if ("map" in expression) return mapValue(evaluation, branch, expression.map);
  if ("ct" in expression) return ctValue(evaluation, branch, expression.ct);
  if ("numgen" in expression) return branch.random ?? UNKNOWN;
  if ("jhash" in expression) {
    const { jhash } = expression;
    if (isRandomHash(jhash)) return branch.random ?? UNKNOWN;
    const value = hashValue(evaluation, branch, jhash);
    if (typeof value === "number") addEffect(branch, { kind: "hash", value: value - jhash.offset, choices: jhash.mod });
    return value;
  }
  return bitwiseValue(evaluation, branch, expression);
}

/** One unknown part makes the whole unknown, unless another part ends the rule. */
function concatValue(evaluation: Evaluation, branch: Branch, parts: readonly AnyExpression[]): Evaluated {
  const values: Value[] = [];
  for (const part of parts) {
    const value = expressionValue(evaluation, branch, part);
    if (value === undefined) return undefined;
    if (value !== UNKNOWN) values.push(value);
  }
  return values.length < parts.length ? UNKNOWN : joinParts(...values);
}

function mapValue(
  evaluation: Evaluation,
  branch: Branch,
  { key, data }: { readonly key: AnyExpression; readonly data: AnyExpression | AnonymousSet },
): Evaluated {
  const found = lookUp(evaluation, branch, data, expressionValue(evaluation, branch, key));
  return typeof found === "string" && /^\d+$/.test(found) ? Number(found) : found;
}

function bitwiseValue(evaluation: Evaluation, branch: Branch, expression: AnyExpression): Evaluated {
  if (typeof expression !== "object") return UNKNOWN;
  if ("|" in expression) return bitwise(evaluation, branch, expression["|"], (a, b) => a | b);
  if ("&" in expression) return bitwise(evaluation, branch, expression["&"], (a, b) => a & b);
  if ("^" in expression) return bitwise(evaluation, branch, expression["^"], (a, b) => a ^ b);
  return UNKNOWN;
}

/** Marks, priorities and addresses; a big integer has no sign. */

function bitwise(
  evaluation: Evaluation,
  branch: Branch,
  operands: readonly [AnyExpression, AnyExpression],
  operate: (a: bigint, b: bigint) => bigint,
): Evaluated {
  const [left, right] = operands.map((operand) => expressionValue(evaluation, branch, operand));
  if (left === undefined || right === undefined) return undefined;
  if (typeof left === "number" && typeof right === "number") return Number(operate(BigInt(left), BigInt(right)));
  if (!isAddress(left) || !isAddress(right)) return UNKNOWN;
  const { family } = evaluation;
  return addressText(family, operate(addressNumber(family, left), addressNumber(family, right)));
}

function isAddress(value: Value | typeof UNKNOWN): value is string {
  return typeof value === "string" && /^(?:[\d.]+|[\da-f:.]*:[\da-f:.]*)$/.test(value);
}
