import type { AnonymousSet, AnyExpression, AnyStatement } from "../nft/ast/any-table.ts";
import { isRandomHash } from "./hash-value.ts";

/** The numbers that a `numgen`, or a hash over unknown facts, of a statement may give: `choices` of them, from `offset` on. */
export interface RandomNumber {
  readonly choices: number;
  readonly offset: number;
}

/** More values than this are not followed one by one. */
const MOST_CHOICES = 65_536;

const known = new WeakMap<AnyStatement, RandomNumber | null>();

/**
 * Returns the random number in a statement, whose values are as likely as each other; undefined when there is none, or
 * more than one.
 */
export function randomNumberOf(statement: AnyStatement): RandomNumber | undefined {
  let found = known.get(statement);
  if (found === undefined) {
    const [first, second] = expressionsOf(statement).flatMap(randomNumbersIn);
    found = first === undefined || second !== undefined || first.choices > MOST_CHOICES ? null : first;
    known.set(statement, found);
  }
  return found ?? undefined;
}

function expressionsOf(statement: AnyStatement): readonly (AnyExpression | AnonymousSet)[] {
  if ("vmap" in statement) return [statement.vmap.key];
  if ("mangle" in statement) return [statement.mangle.value];
  if ("match" in statement) return [statement.match.left];
  if ("snat" in statement) return [statement.snat.addr ?? ""];
  if ("dnat" in statement) return [statement.dnat.addr ?? "", statement.dnat.port ?? ""];
  return [];
}

function randomNumbersIn(expression: AnyExpression | AnonymousSet): RandomNumber[] {
  if (typeof expression !== "object") return [];
  if ("numgen" in expression) {
    const { mod: choices, offset } = expression.numgen;
    return [{ choices, offset }];
  }
  if ("jhash" in expression && isRandomHash(expression.jhash)) {
    const { mod: choices, offset } = expression.jhash;
    return [{ choices, offset }];
  }
  if ("map" in expression) return randomNumbersIn(expression.map.key);
  return "concat" in expression ? expression.concat.flatMap(randomNumbersIn) : [];
}
