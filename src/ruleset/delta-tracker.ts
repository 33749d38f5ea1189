import type { Family } from "../base/family.ts";
import { sortedEntries } from "../base/first-sorted.ts";
import {
  type Chain,
  type ElementSet,
  type Flowtable,
  type SetSpec,
  TABLE_NAME,
  type Table,
  type TimeoutPolicy,
} from "../nft/ast/ruleset.ts";
import { allElements, type ElementsDelta, sameChain, type TableDelta, withIntervals } from "../nft/delta.ts";
import type { Element } from "../nft/elements.ts";

interface WritableSet extends ElementSet {
  readonly elements: Map<string, string>;
}

interface WritableTable extends Table {
  readonly chains: Map<string, Chain>;
  readonly sets: Map<string, WritableSet>;
  timeouts?: Map<string, TimeoutPolicy>;
}

/**
 * Owns a desired table as its only writer. After the first commit, it keeps the committed value of each
 * element, chain and set that it changes. So the cost of the pending delta grows with the changes, not with
 * the table.
 */
export class DeltaTracker {
  readonly #table: WritableTable;
  /** False until the first commit. */
  #isCommitted = false;
  /** Set name to key to committed value, undefined for none; only for keys written since the last commit. */
  readonly #elements = new Map<string, Map<string, string | undefined>>();
  #work = 0;
  /** Chain name to the committed chain, undefined for none; only for chains that were written. */
  readonly #chains = new Map<string, Chain | undefined>();
  /** Set name to the committed set, undefined for none; only for sets that were added or deleted. */
  readonly #sets = new Map<string, WritableSet | undefined>();
  /** Name to the committed object with timeouts, undefined for none; only for those added or deleted. */
  readonly #timeouts = new Map<string, TimeoutPolicy | undefined>();

  /**
   * @param specs the sets and maps to begin with, all empty
   * @param flowtable the flow table to begin with
   */
  constructor(family: Family, specs: readonly SetSpec[], flowtable?: Flowtable) {
    const sets = new Map(specs.map((spec) => [spec.name, { spec, elements: new Map<string, string>() }]));
    this.#table = { family, name: TABLE_NAME, ...(flowtable && { flowtable }), chains: new Map(), sets };
  }

  /** The desired table; live: it changes with every write. */
  get table(): Table {
    return this.#table;
  }

  /**
   * What the changes since the last commit cost nft and the kernel, as a number of elements of a hash map; 0
   * before the first commit.
   */
  get work(): number {
    return this.#work;
  }

  /** Adds an element or changes its value. @param work what it costs, as a number of elements */
  putElement(set: string, key: string, value: string, work = 1): void {
    const { elements } = this.#set(set);
    const known = elements.get(key);
    if (known === value) return;
    this.#remember(set, key, known, work);
    elements.set(key, value);
  }

  /** Deletes an element, if it exists. @param work what it costs, as a number of elements */
  deleteElement(set: string, key: string, work = 1): void {
    const { elements } = this.#set(set);
    const known = elements.get(key);
    if (known === undefined) return;
    this.#remember(set, key, known, work);
    elements.delete(key);
  }

  /** Adds an element, changes its value, or deletes it where the value is undefined. */
  setElement(set: string, key: string, value: string | undefined): void {
    if (value === undefined) this.deleteElement(set, key);
    else this.putElement(set, key, value);
  }

  /** Adds a chain or changes it. */
  putChain(chain: Chain): void {
    const known = this.#table.chains.get(chain.name);
    if (sameChain(known, chain)) return;
    if (!this.#chains.has(chain.name)) this.#chains.set(chain.name, known);
    this.#table.chains.set(chain.name, chain);
    if (this.#isCommitted && known === undefined) this.#work += walkedElements(chain, this.#table) / WALKED;
  }

  /** Deletes a chain, if it exists. */
  deleteChain(name: string): void {
    const known = this.#table.chains.get(name);
    if (known === undefined) return;
    if (!this.#chains.has(name)) this.#chains.set(name, known);
    this.#table.chains.delete(name);
  }

  putSet(spec: SetSpec, keys: readonly string[] = []): void {
    if (this.#table.sets.has(spec.name)) return;
    if (!this.#sets.has(spec.name)) this.#sets.set(spec.name, undefined);
    if (this.#isCommitted) this.#work += keys.length;
    this.#table.sets.set(spec.name, { spec, elements: new Map(keys.map((key) => [key, ""])) });
  }

  /** Deletes a set that was added by {@link DeltaTracker.putSet}, if it exists. */
  deleteSet(name: string): void {
    const known = this.#table.sets.get(name);
    if (known === undefined) return;
    if (!this.#sets.has(name)) this.#sets.set(name, known);
    this.#table.sets.delete(name);
  }

  /** Adds an object with timeouts. Its name identifies its content. */
  putTimeouts(policy: TimeoutPolicy): void {
    this.#table.timeouts ??= new Map();
    if (!this.#timeouts.has(policy.name)) this.#timeouts.set(policy.name, undefined);
    this.#table.timeouts.set(policy.name, policy);
  }

  /** Deletes an object with timeouts that was added by {@link DeltaTracker.putTimeouts}, if it exists. */
  deleteTimeouts(name: string): void {
    const known = this.#table.timeouts?.get(name);
    if (known === undefined) return;
    if (!this.#timeouts.has(name)) this.#timeouts.set(name, known);
    this.#table.timeouts?.delete(name);
  }

  /** The changes since the last commit; undefined for none. */
  pending(): TableDelta | undefined {
    const { family, name: table, chains, sets, timeouts } = this.#table;
    const touched = sortedEntries(this.#chains);
    const written = touched.flatMap(([name, committed]) => {
      const chain = chains.get(name);
      return chain === undefined || sameChain(committed, chain) ? [] : [chain];
    });
    const deletedChains = touched.flatMap(([name, committed]) =>
      committed !== undefined && !chains.has(name) ? [name] : [],
    );
    const touchedSets = this.#isCommitted ? sortedEntries(this.#sets) : [];
    const added = touchedSets.flatMap(([name, committed]) =>
      committed === undefined ? (sets.get(name) ?? []) : [],
    );
    const deletedSets = touchedSets.flatMap(([name, committed]) =>
      committed === undefined || sets.has(name) ? [] : [committed.spec],
    );
    // Each has a chain of the same name, which is added and deleted with it.
    const touchedTimeouts = sortedEntries(this.#timeouts);
    const elements = this.#isCommitted
      ? [
          ...[...this.#elements].flatMap(([set, keys]) => this.#pendingElements(set, keys)),
          ...added.flatMap(allElements),
        ]
      : [...sets.values()].flatMap(allElements);
    const count = written.length + deletedChains.length + added.length + deletedSets.length + elements.length;
    if (count === 0) return undefined;
    return {
      family,
      table,
      mode: "change",
      addedSets: added.map(({ spec }) => spec),
      deletedSets,
      ...(touchedTimeouts.length > 0 && {
        addedTimeouts: touchedTimeouts.flatMap(([name, before]) =>
          before ? [] : (timeouts?.get(name) ?? []),
        ),
        deletedTimeouts: touchedTimeouts.flatMap(([name, before]) =>
          before && !timeouts?.has(name) ? [name] : [],
        ),
      }),
      writtenChains: written,
      changedChains: written.map(({ name }) => name).filter((name) => this.#chains.get(name) !== undefined),
      replacedChains: [],
      deletedChains,
      elements,
    };
  }

  /** A copy of the table as of the last commit. */
  committedTable(): Table {
    const sets = new Map<string, ElementSet>();
    for (const [name, { spec, elements }] of overlaid(
      this.#table.sets,
      this.#isCommitted ? this.#sets : undefined,
    )) {
      const committed = this.#isCommitted
        ? overlaid(elements, this.#elements.get(name))
        : new Map<string, string>();
      sets.set(name, { spec, elements: committed });
    }
    const { timeouts, ...table } = this.#table;
    const committed = overlaid(timeouts ?? new Map<string, TimeoutPolicy>(), this.#timeouts);
    return {
      ...table,
      ...(committed.size > 0 && { timeouts: committed }),
      chains: overlaid(table.chains, this.#chains),
      sets,
    };
  }

  /** Records that the kernel has the whole table now. */
  committed(): void {
    this.#isCommitted = true;
    this.#elements.clear();
    this.#work = 0;
    this.#chains.clear();
    this.#sets.clear();
    this.#timeouts.clear();
  }

  /** A new set is added with all of its elements; a deleted one is emptied first. */
  #pendingElements(name: string, keys: ReadonlyMap<string, string | undefined>): ElementsDelta[] {
    const known = this.#sets.get(name);
    if (this.#sets.has(name) && known === undefined) return [];
    const set = this.#table.sets.get(name) ?? known;
    return set === undefined
      ? []
      : pendingElements(set, keys).map((delta) => withIntervals(delta, this.#table));
  }

  #remember(set: string, key: string, committed: string | undefined, work: number): void {
    if (!this.#isCommitted) return;
    let keys = this.#elements.get(set);
    if (keys === undefined) {
      keys = new Map();
      this.#elements.set(set, keys);
    }
    if (keys.has(key)) return;
    keys.set(key, committed);
    this.#work += work;
  }

  #set(name: string): WritableSet {
    const set = this.#table.sets.get(name);
    if (set === undefined) throw new Error(`no set ${name}`);
    return set;
  }
}

/** Elements that the kernel walks in the time in which nft and the kernel add one (6.18: 0.3 and 75 us). */
const WALKED = 250;

/**
 * Number of elements that the kernel walks for a new chain: those of each map that one of its rules looks
 * into (nf_tables_bind_set).
 */
function walkedElements({ rules }: Chain, { sets }: Table): number {
  let count = 0;
  for (const [, map = ""] of JSON.stringify(rules).matchAll(/"data":"@([^"]+)"/g))
    count += sets.get(map)?.elements.size ?? 0;
  return count;
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
