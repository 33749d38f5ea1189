import type { Ruleset, SetSpec, Table } from "../../src/nft/ast/ruleset.ts";

/** A ruleset as text in which order has no meaning: one line for each chain, set and element, sorted. */
export function rulesetText(ruleset: Ruleset): string {
  return Object.values(ruleset).flatMap(tableLines).sort().join("\n");
}

function tableLines(table: Table): string[] {
  const chains = [...table.chains.values()].map(
    ({ name, base, rules }) => `chain ${name} ${JSON.stringify([base, rules])}`,
  );
  const sets = [...table.sets.values()].flatMap(({ spec, elements }) => [
    `set ${spec.name} ${specText(spec)}`,
    ...[...elements].map(([key, value]) => `set ${spec.name} ${key} : ${value}`),
  ]);
  return [...chains, ...sets].map((line) => `${table.family} ${line}`);
}

function specText({ key, value, dynamic, size, counter }: SetSpec): string {
  return JSON.stringify([key, value, dynamic, size, counter]);
}
