import type { Chain, ElementSet, Table } from "./ast/ruleset.ts";
import { verdictTarget } from "./elements.ts";

/**
 * The part of a table that some elements need to stand by themselves: they, the chains that they lead to, and the
 * declarations of the sets that those chains look into.
 * @param isWanted whether an element is one of them
 */
export function selectElements(table: Table, isWanted: (set: string, key: string) => boolean): Table {
  const filled = new Map<string, ElementSet>();
  for (const [name, { spec, elements }] of table.sets) {
    const wanted = new Map([...elements].filter(([key]) => isWanted(name, key)));
    filled.set(name, { spec, elements: wanted });
  }
  const chains = reachedChains(table, [...filled.values()].flatMap(targetsOf));
  const looked = new Set(chains.flatMap(({ rules }) => referencesOf(rules).sets));
  return {
    ...withFlowtable(table, looked),
    chains: new Map(chains.map((chain) => [chain.name, chain])),
    sets: new Map([...filled].filter(([name, { elements }]) => elements.size > 0 || looked.has(name))),
  };
}

/** The part of a table that some chains need to stand by themselves: see {@link selectElements}; its sets are empty. */
export function selectChains(table: Table, names: readonly string[]): Table {
  const chains = reachedChains(table, names);
  const looked = new Set(chains.flatMap(({ rules }) => referencesOf(rules).sets));
  const sets = [...table.sets].filter(([name]) => looked.has(name));
  return {
    ...withFlowtable(table, looked),
    chains: new Map(chains.map((chain) => [chain.name, chain])),
    sets: new Map(sets.map(([name, { spec }]) => [name, { spec, elements: new Map() }])),
  };
}

/** A table's name, and its flow table if that is one of the objects that rules look into. */
function withFlowtable({ family, name, flowtable }: Table, looked: ReadonlySet<string>) {
  return { family, name, ...(flowtable !== undefined && looked.has(flowtable.name) && { flowtable }) };
}

function targetsOf({ spec, elements }: ElementSet): string[] {
  return spec.value === "verdict"
    ? [...elements.values()].flatMap((verdict) => verdictTarget(verdict) ?? [])
    : [];
}

/** In the order of the table. */
function reachedChains({ chains }: Table, from: readonly string[]): Chain[] {
  const reached = new Set<string>();
  const queue = [...from];
  for (let name = queue.pop(); name !== undefined; name = queue.pop()) {
    const chain = chains.get(name);
    if (chain === undefined || reached.has(name)) continue;
    reached.add(name);
    queue.push(...referencesOf(chain.rules).chains);
  }
  return [...chains.values()].filter(({ name }) => reached.has(name));
}

interface References {
  readonly chains: string[];
  readonly sets: string[];
}

/** The names in rules: `@set` wherever a constant may stand, and the targets of jumps. */
function referencesOf(value: unknown, found: References = { chains: [], sets: [] }): References {
  if (typeof value === "string") {
    if (value.startsWith("@")) found.sets.push(value.slice(1));
  } else if (Array.isArray(value)) {
    for (const item of value) referencesOf(item, found);
  } else if (typeof value === "object" && value !== null) {
    const { target } = value as { readonly target?: unknown };
    if (typeof target === "string") found.chains.push(target);
    for (const part of Object.values(value)) referencesOf(part, found);
  }
  return found;
}
