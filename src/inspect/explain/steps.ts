import type { Table } from "../../nft/ast/ruleset.ts";
import { elementText } from "../../nft/text/table-text.ts";
import type { Effect, Outcome } from "../../trace/outcome.ts";
import type { ExplainedStep } from "./explanation.ts";
import { type RuleStep, stepRuleText, stepWords } from "./step-words.ts";

interface MergedStep {
  readonly step: RuleStep;
  readonly message: string;
  readonly elements: Set<string>;
  probability: number;
}

/**
 * The rules that decided something, over all ways that the connection may take: a rule that several ways have in
 * common is there once, with all elements that it finds on them.
 * @param table the table that was followed
 */
export function explainSteps(outcomes: readonly Outcome[], table: Table): ExplainedStep[] {
  const order: string[] = [];
  const merged = new Map<string, MergedStep>();
  for (const { steps, probability } of outcomes) {
    let at = 0;
    for (const step of steps) {
      if (step.kind !== "rule") continue;
      const message = stepWords(step);
      if (message === undefined) continue;
      const key = `${step.hook} ${step.chain} ${step.index} ${message}`;
      const known = merged.get(key);
      if (known === undefined) order.splice(at, 0, key);
      at = order.indexOf(key) + 1;
      const entry = known ?? { step, message, elements: new Set<string>(), probability: 0 };
      entry.probability += probability;
      for (const effect of step.effects) for (const text of elementTexts(effect, table)) entry.elements.add(text);
      merged.set(key, entry);
    }
  }
  return order.flatMap((key) => {
    const entry = merged.get(key);
    return entry === undefined ? [] : [explained(entry)];
  });
}

function explained({ step, message, elements, probability }: MergedStep): ExplainedStep {
  const { hook, chain } = step;
  return {
    hook,
    chain,
    rule: stepRuleText(step),
    elements: [...elements],
    message,
    probability: rounded(probability),
  };
}

function elementTexts(effect: Effect, table: Table): string[] {
  if (effect.kind !== "found") return [];
  const set = table.sets.get(effect.set);
  return set === undefined ? [] : [`${effect.set} { ${elementText(set.spec, effect.key, effect.value)} }`];
}

/** Sums of fractions are rarely round. */
export function rounded(probability: number): number {
  return Math.round(probability * 1e6) / 1e6;
}
