import type { Chain, ElementSet, Table } from "./ast/ruleset.ts";
import { verdictTarget } from "./elements.ts";

/**
 * The part of a table that makes some elements valid: these, their target chains, and the declarations of the
 * sets that those chains use.
 * @param isWanted whether to select an element
 * @param constant the set whose elements never change: selected as a whole if those chains use it
 */
export function selectElements(
  table: Table,
  isWanted: (set: string, key: string) => boolean,
  constant?: string,
): Table {
  const filled = new Map<string, ElementSet>();
  for (const [name, { spec, elements }] of table.sets) {
    const wanted = new Map([...elements].filter(([key]) => isWanted(name, key)));
    filled.set(name, { spec, elements: wanted });
  }
  const part = reachedPart(table, filled, [...filled.values()].flatMap(targetsOf));
  const sets = [...part.sets].map(([name, set]): [string, ElementSet] => {
    return [name, name === constant ? (table.sets.get(name) ?? set) : set];
  });
  return { ...part, sets: new Map(sets) };
}

/** Some chains of a table with all that they need, as {@link selectElements} for elements. Sets are empty. */
export function selectChains(table: Table, names: readonly string[]): Table {
  for (const name of names) if (!table.chains.has(name)) throw new Error(`no chain ${name}`);
  const empty = [...table.sets].map(([name, { spec }]) => [name, { spec, elements: new Map() }] as const);
  return reachedPart(table, new Map(empty), names);
}

/** The chains reached from some, the sets and other objects that these use, and the sets with elements. */
function reachedPart(table: Table, sets: ReadonlyMap<string, ElementSet>, from: readonly string[]): Table {
  const { family, name, flowtable, timeouts } = table;
  const chains = reachedChains(table, from);
  const looked = new Set(chains.flatMap(({ rules }) => referencesOf(rules).sets));
  const assigned = [...(timeouts ?? [])].filter(([object]) => looked.has(object));
  return {
    ...{ family, name, ...(flowtable !== undefined && looked.has(flowtable.name) && { flowtable }) },
    ...(assigned.length > 0 && { timeouts: new Map(assigned) }),
    chains: new Map(chains.map((chain) => [chain.name, chain])),
    sets: new Map([...sets].filter(([set, { elements }]) => elements.size > 0 || looked.has(set))),
  };
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
  /** Sets, maps, flow tables and objects with timeouts. */
  readonly sets: string[];
}

/** The names in rules: `@set` in place of any constant, objects, and the targets of jumps. */
function referencesOf(value: unknown, found: References = { chains: [], sets: [] }): References {
  if (typeof value === "string") {
    if (value.startsWith("@")) found.sets.push(value.slice(1));
  } else if (Array.isArray(value)) {
    for (const item of value) referencesOf(item, found);
  } else if (typeof value === "object" && value !== null) {
    const { target, "ct timeout": object } = value as Readonly<Record<string, unknown>>;
    if (typeof target === "string") found.chains.push(target);
    if (typeof object === "string") found.sets.push(object);
    for (const part of Object.values(value)) referencesOf(part, found);
  }
  return found;
}
