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
import {
  allElements,
  type ElementsDelta,
  nonEmpty,
  onlyElements,
  type TableDelta,
  tableBefore,
  withIntervalDeletion,
} from "../nft/delta.ts";
import type { Element } from "../nft/elements.ts";
import { changeOf, type ObjectChange, type ObjectKind, objectIn, sameChain } from "../nft/table-objects.ts";

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
  /**
   * The committed values of the elements written since the last commit, by set and key; undefined for new
   * ones.
   */
  readonly #elements = new Map<string, Map<string, string | undefined>>();
  #work = 0;
  /** Each chain, set or ct timeout written since the last commit, as it was committed. By kind and name. */
  readonly #objects = new Map<string, ObjectChange>();
  /** Sets that were deleted since the last commit, with their elements. */
  readonly #deletedSets = new Map<string, WritableSet>();

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

  /** Adds an element, or changes its value; deletes it if that is undefined. @param work what it costs */
  setElement(set: string, key: string, value: string | undefined, work = 1): void {
    const { elements } = this.#set(set);
    const known = elements.get(key);
    if (known === value) return;
    this.#noteElement(set, key, known, work);
    if (value === undefined) elements.delete(key);
    else elements.set(key, value);
  }

  /** Deletes an element, if it exists. */
  deleteElement(set: string, key: string, work?: number): void {
    this.setElement(set, key, undefined, work);
  }

  /** Adds a chain or changes it. */
  putChain(chain: Chain): void {
    const known = this.#table.chains.get(chain.name);
    if (known !== undefined && sameChain(known, chain)) return;
    this.#noteObject("chain", chain.name);
    this.#table.chains.set(chain.name, chain);
    if (this.#isCommitted && known === undefined)
      this.#work += walkedElements(chain, this.#table) / WALKED_PER_ELEMENT;
  }

  /** Deletes a chain, if it exists. */
  deleteChain(name: string): void {
    this.#noteObject("chain", name);
    this.#table.chains.delete(name);
  }

  /** Adds an empty set, unless it exists. */
  putSet(spec: SetSpec): void {
    if (this.#table.sets.has(spec.name)) return;
    this.#noteObject("set", spec.name);
    this.#table.sets.set(spec.name, { spec, elements: new Map() });
  }

  /** Deletes a set that was added by {@link DeltaTracker.putSet}, if it exists. */
  deleteSet(name: string): void {
    const known = this.#table.sets.get(name);
    // First: it tells `#isNew` whether the set was committed.
    this.#noteObject("set", name);
    if (known !== undefined && !this.#isNew("set", name) && !this.#deletedSets.has(name)) {
      this.#deletedSets.set(name, known);
      // If the set is added again before the next commit, `pending` still has to delete these.
      for (const [key, value] of known.elements) this.#noteElement(name, key, value, 0);
    }
    this.#table.sets.delete(name);
  }

  /** Adds a `ct timeout` object. Its name is a hash of its content, so it never changes. */
  putTimeouts(policy: TimeoutPolicy): void {
    this.#table.timeouts ??= new Map();
    this.#noteObject("ct timeout", policy.name);
    this.#table.timeouts.set(policy.name, policy);
  }

  /** Deletes a `ct timeout` object that was added by {@link DeltaTracker.putTimeouts}, if it exists. */
  deleteTimeouts(name: string): void {
    this.#noteObject("ct timeout", name);
    this.#table.timeouts?.delete(name);
  }

  /**
   * The changes since the last commit; undefined for none. Before the first one: all elements, and all
   * objects but those of the constructor.
   */
  pending(): TableDelta | undefined {
    const table = this.#table;
    const objects = sortedEntries(this.#objects).flatMap(([, change]) =>
      changeOf(change.kind, change.name, change.before, objectIn(table, change)),
    );
    const elements = this.#isCommitted
      ? [
          ...[...this.#elements].flatMap(([set, keys]) => this.#elementsDeltasOf(set, keys)),
          ...[...table.sets.values()]
            .filter(({ spec }) => this.#isNew("set", spec.name))
            .flatMap(allElements),
        ]
      : [...table.sets.values()].flatMap(allElements);
    return nonEmpty({ ...onlyElements({ family: table.family, table: table.name }, elements), objects })[0];
  }

  /** The table as of the last commit. What has not changed since is shared with the desired table. */
  committedTable(): Table {
    const table = { ...this.#table, sets: new Map([...this.#deletedSets, ...this.#table.sets]) };
    const pending = this.pending();
    return pending === undefined ? table : tableBefore(table, pending);
  }

  /** Records that the kernel has the whole table now. */
  markCommitted(): void {
    this.#isCommitted = true;
    this.#elements.clear();
    this.#work = 0;
    this.#objects.clear();
    this.#deletedSets.clear();
  }

  /** A new set is added with all of its elements; a deleted one is emptied first. */
  #elementsDeltasOf(name: string, keys: ReadonlyMap<string, string | undefined>): ElementsDelta[] {
    if (this.#isNew("set", name)) return [];
    const set = this.#table.sets.get(name) ?? this.#deletedSets.get(name);
    return set === undefined
      ? []
      : elementsDeltas(set, keys).map((delta) => withIntervalDeletion(delta, this.#table));
  }

  /** Remembers an object as it was committed, before it changes. */
  #noteObject(kind: ObjectKind, name: string): void {
    const key = `${kind} ${name}`;
    if (this.#objects.has(key)) return;
    this.#objects.set(key, { kind, name, before: objectIn(this.#table, { kind, name }) } as ObjectChange);
  }

  /** Whether an object was added since the last commit. */
  #isNew(kind: ObjectKind, name: string): boolean {
    const change = this.#objects.get(`${kind} ${name}`);
    return change !== undefined && change.before === undefined;
  }

  /** Remembers an element as it was committed, before it changes. */
  #noteElement(set: string, key: string, committed: string | undefined, work: number): void {
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
const WALKED_PER_ELEMENT = 250;

/**
 * Number of elements that the kernel walks for a new chain: those of each map that one of its rules looks
 * into (nf_tables_bind_set).
 */
function walkedElements({ rules }: Chain, { sets }: Table): number {
  let count = 0;
  // In nft's JSON, `data` names the map of a lookup.
  for (const [, map = ""] of JSON.stringify(rules).matchAll(/"data":"@([^"]+)"/g))
    count += sets.get(map)?.elements.size ?? 0;
  return count;
}

/** The changes of a set; none if they undo each other. @param committedValues by written key */
function elementsDeltas(
  { spec, elements }: ElementSet,
  committedValues: ReadonlyMap<string, string | undefined>,
): ElementsDelta[] {
  const deleted: Element[] = [];
  const added: Element[] = [];
  for (const [key, committed] of committedValues) {
    const value = elements.get(key);
    if (value === committed) continue;
    if (committed !== undefined) deleted.push({ key, value: committed });
    if (value !== undefined) added.push({ key, value });
  }
  return deleted.length + added.length === 0 ? [] : [{ spec, deleted, added }];
}
