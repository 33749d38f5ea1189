import type { Chain, ElementSet, Table } from "../nft/ast/ruleset.ts";
import { type ElementsDelta, sameChain, type TableDelta } from "../nft/delta.ts";
import type { Element } from "../nft/elements.ts";

/**
 * The only hand that writes into a desired table. It remembers, of what it touched, how the kernel has it, so
 * that what is pending costs as much as what changed, not as much as there is.
 */
export class DeltaTracker {
  readonly #table: Table;
  /** Set name to key to the committed value, undefined for none; only of what was touched. */
  readonly #elements = new Map<string, Map<string, string | undefined>>();
  readonly #chains = new Map<string, Chain | undefined>();

  constructor(table: Table) {
    this.#table = table;
  }

  /** Adds an element or changes its value. */
  putElement(set: string, key: string, value: string): void {
    const { elements } = this.#set(set);
    const known = elements.get(key);
    if (known === value) return;
    this.#remember(set, key, known);
    elements.set(key, value);
  }

  /** Takes an element out, if it is there. */
  deleteElement(set: string, key: string): void {
    const { elements } = this.#set(set);
    const known = elements.get(key);
    if (known === undefined) return;
    this.#remember(set, key, known);
    elements.delete(key);
  }

  /** Adds a chain or changes it. */
  putChain(chain: Chain): void {
    const known = this.#table.chains.get(chain.name);
    if (sameChain(known, chain)) return;
    if (!this.#chains.has(chain.name)) this.#chains.set(chain.name, known);
    this.#table.chains.set(chain.name, chain);
  }

  /** Takes a chain out, if it is there. */
  deleteChain(name: string): void {
    const known = this.#table.chains.get(name);
    if (known === undefined) return;
    if (!this.#chains.has(name)) this.#chains.set(name, known);
    this.#table.chains.delete(name);
  }

  /** What the kernel does not have yet; undefined when it has everything. Assumes that it has the table. */
  pending(): TableDelta | undefined {
    const { family, name: table, chains } = this.#table;
    const touched = [...this.#chains].sort(([a], [b]) => (a < b ? -1 : 1));
    const written = touched.flatMap(([name, committed]) => {
      const chain = chains.get(name);
      return chain === undefined || sameChain(committed, chain) ? [] : [chain];
    });
    const deletedChains = touched.flatMap(([name, committed]) =>
      committed !== undefined && !chains.has(name) ? [name] : [],
    );
    const elements = [...this.#elements].flatMap(([set, keys]) => pendingElements(this.#set(set), keys));
    if (written.length + deletedChains.length + elements.length === 0) return undefined;
    return {
      family,
      table,
      mode: "change",
      addedSets: [],
      deletedSets: [],
      writtenChains: written,
      replacedChains: [],
      deletedChains,
      elements,
    };
  }

  /** The table as it was when everything was last committed, a copy. */
  committedTable(): Table {
    const sets = new Map<string, ElementSet>();
    for (const [name, { spec, elements }] of this.#table.sets) {
      sets.set(name, { spec, elements: overlaid(elements, this.#elements.get(name)) });
    }
    return { ...this.#table, chains: overlaid(this.#table.chains, this.#chains), sets };
  }

  /** The kernel has everything now. */
  committed(): void {
    this.#elements.clear();
    this.#chains.clear();
  }

  #remember(set: string, key: string, committed: string | undefined): void {
    let keys = this.#elements.get(set);
    if (keys === undefined) {
      keys = new Map();
      this.#elements.set(set, keys);
    }
    if (!keys.has(key)) keys.set(key, committed);
  }

  #set(name: string): ElementSet {
    const set = this.#table.sets.get(name);
    if (set === undefined) throw new Error(`no set ${name}`);
    return set;
  }
}

function pendingElements(
  { spec, elements }: ElementSet,
  touched: ReadonlyMap<string, string | undefined>,
): ElementsDelta[] {
  const deleted: string[] = [];
  const added: Element[] = [];
  for (const [key, committed] of touched) {
    const value = elements.get(key);
    if (value === committed) continue;
    if (committed !== undefined) deleted.push(key);
    if (value !== undefined) added.push({ key, value });
  }
  return deleted.length + added.length === 0 ? [] : [{ spec, deleted, added }];
}

function overlaid<T>(now: ReadonlyMap<string, T>, before: ReadonlyMap<string, T | undefined> | undefined) {
  const result = new Map(now);
  for (const [key, value] of before ?? []) {
    if (value === undefined) result.delete(key);
    else result.set(key, value);
  }
  return result;
}
