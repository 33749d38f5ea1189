import type { AnyStatement } from "../nft/ast/any-table.ts";
import type { Verdict } from "../nft/ast/json.ts";
import { verdictText } from "../nft/elements.ts";
import { type Assumption, addStep, type Branch, currentPlace, stepsOf } from "./branch.ts";
import type { Ending, UndecidedRule } from "./outcome.ts";
import { setOf } from "./set-lookup.ts";

/**
 * Records the assumption that a rule that may match does not match.
 * @param statement the statement that has an effect if it matches
 */
export function assume(branch: Branch, statement: AnyStatement): void {
  const verdict = verdictOf(branch, statement);
  const rule: UndecidedRule = { ...currentPlace(branch), ...(verdict !== undefined && { verdict }) };
  const { base, changes } = branch;
  branch.assumptions = [...branch.assumptions, { rule, base, changes }];
  addStep(branch, { kind: "undecided", ...rule });
}

/** The only possible verdict of a statement. */
function verdictOf(branch: Branch, statement: AnyStatement): string | undefined {
  if ("reject" in statement) return "reject";
  if ("vmap" in statement) {
    const set = setOf(branch, statement.vmap.data);
    const verdicts = new Set([
      ...(set?.elements.values() ?? []),
      ...(set?.intervals?.map(({ value }) => value) ?? []),
    ]);
    return verdicts.size === 1 && !set?.spec.dynamic ? [...verdicts][0] : undefined;
  }
  return isVerdict(statement) ? verdictText(statement) : undefined;
}

function isVerdict(statement: AnyStatement): statement is Verdict {
  return ["accept", "drop", "return", "jump", "goto"].some((kind) => kind in statement);
}

/** Deletes assumed rules that accept, if their base chain accepted the packet unchanged anyway. */
export function dropIrrelevantAssumptions(branch: Branch): void {
  const { hook, base, changes } = branch;
  const isIrrelevant = (assumption: Assumption) =>
    assumption.rule.verdict === "accept" &&
    assumption.rule.hook === hook &&
    assumption.base === base &&
    assumption.changes === changes;
  if (branch.assumptions.some(isIrrelevant)) {
    branch.assumptions = branch.assumptions.filter((assumption) => !isIrrelevant(assumption));
  }
}

/** Adds the outcome of a branch. Ignores assumed rules with the same outcome. */
export function endBranch(branch: Branch, ending: Ending): false {
  const { probability, updates } = branch;
  const rules = branch.assumptions.flatMap(({ rule }) => (endsAs(rule) === ending.kind ? [] : [rule]));
  const common = { probability, updates, steps: stepsOf(branch.steps) };
  branch.evaluation.outcomes.push(
    rules.length === 0
      ? { ...ending, ...common }
      : { kind: "not-understood", rules, otherwise: ending, ...common },
  );
  return false;
}

function endsAs({ verdict }: UndecidedRule): Ending["kind"] | undefined {
  if (verdict === "drop") return "dropped";
  return verdict === "reject" ? "refused" : undefined;
}
