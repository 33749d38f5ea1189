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

function specText({ key, value, dynamic, size, timeout, counter, byTypeNames }: SetSpec): string {
  return JSON.stringify({ key, value, dynamic, size, timeout, counter, byTypeNames });
}

/** {@link rulesetText} in which it makes no difference which endpoint of a list has which index. */
export function textWithoutPlacement(ruleset: Ruleset): string {
  return rulesetText(ruleset).split("\n").flatMap(withoutIndex).sort().join("\n");
}

const INDEXED = /^(ip6? set (?:nodeport-)?(?:endpoints|affinity-ids) .* \. )(\d+) : (.*)$/;

/** The index apart from the endpoint, and of that only in which list it is. */
function withoutIndex(line: string): string[] {
  const [, frontend, number, value] = INDEXED.exec(line) ?? [];
  if (frontend === undefined || Number(number) >= 0xc000_0000) return [line];
  const list = Number(number) < 0x8001_0000 ? "list" : "shortcut list";
  return [`${frontend}${number}`, `${frontend}${list} : ${value}`];
}
