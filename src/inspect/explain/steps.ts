import type { Table } from "../../nft/ast/ruleset.ts";
import { elementText } from "../../nft/text/table-text.ts";
import type { Effect, Outcome, Step } from "../../trace/outcome.ts";
import type { ExplainedStep } from "./explanation.ts";
import { isOtherTable, ruleAsItStands } from "./other-tables.ts";
import { type ListNames, otherStepWords, stepRuleText, stepWords } from "./step-words.ts";

type PlacedStep = Extract<Step, { readonly chain: string }>;

interface MergedStep {
  readonly step: PlacedStep;
  readonly message: string;
  readonly elements: Set<string>;
  probability: number;
}

/**
 * The rules that decided something, over all ways that the connection may take: a rule that several ways have in
 * common is there once, with all elements that it finds on them.
 * @param table nft-proxy's table; undefined when the kernel has none
 * @param listName names the lists of this table
 */
export function explainSteps(
  outcomes: readonly Outcome[],
  table: Table | undefined,
  listName: ListNames,
): ExplainedStep[] {
  const order: string[] = [];
  const merged = new Map<string, MergedStep>();
  for (const { steps, probability } of outcomes) {
    let at = 0;
    for (const step of steps) {
      if (!("chain" in step)) continue;
      const message = messageOf(step, listName);
      if (message === undefined) continue;
      const index = step.kind === "policy" ? "policy" : step.index;
      const key = `${step.hook} ${step.table.family} ${step.table.name} ${step.chain} ${index} ${message}`;
      const known = merged.get(key);
      if (known === undefined) order.splice(at, 0, key);
      at = order.indexOf(key) + 1;
      const entry = known ?? { step, message, elements: new Set<string>(), probability: 0 };
      entry.probability += probability;
      for (const text of elementTexts(step, table)) entry.elements.add(text);
      merged.set(key, entry);
    }
  }
  return order.flatMap((key) => {
    const entry = merged.get(key);
    return entry === undefined ? [] : [explained(entry)];
  });
}

function messageOf(step: PlacedStep, listName: ListNames): string | undefined {
  return step.kind === "rule" && !isOtherTable(step.table) ? stepWords(step, listName) : otherStepWords(step);
}

function explained({ step, message, elements, probability }: MergedStep): ExplainedStep {
  const { hook, table, chain } = step;
  return {
    hook,
    ...(isOtherTable(table) ? { table: `${table.family} ${table.name}` } : {}),
    chain,
    rule: textOf(step),
    elements: [...elements],
    message,
    probability: rounded(probability),
  };
}

function textOf(step: PlacedStep): string {
  if (step.kind === "policy") return `policy ${step.policy}`;
  return step.kind === "rule" && !isOtherTable(step.table) ? stepRuleText(step) : ruleAsItStands(step);
}

function elementTexts(step: PlacedStep, table: Table | undefined): string[] {
  if (step.kind !== "rule" || isOtherTable(step.table)) return [];
  return step.effects.flatMap((effect) => foundText(effect, table));
}

function foundText(effect: Effect, table: Table | undefined): string[] {
  if (effect.kind !== "found") return [];
  const set = table?.sets.get(effect.set);
  return set === undefined ? [] : [`${effect.set} { ${elementText(set.spec, effect.key, effect.value)} }`];
}

/** Sums of fractions are rarely round. */
export function rounded(probability: number): number {
  return Math.round(probability * 1e6) / 1e6;
}
