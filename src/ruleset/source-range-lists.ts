import { addToGroup } from "../base/group-by.ts";
import type { Table } from "../nft/ast/ruleset.ts";
import { splitParts } from "../nft/elements.ts";
import type { DeltaTracker } from "./delta-tracker.ts";
import { IdPool } from "./list-ids.ts";
import { SOURCE_RANGES } from "./sets.ts";
import {
  FIRST_SOURCE_RANGE_LIST,
  isListNumber,
  listIdentity,
  MOST_SOURCE_RANGE_LISTS,
  type SourceRanges,
  sourceRangeKey,
} from "./source-ranges.ts";

/** A list in the table. */
interface KnownList extends SourceRanges {
  number: number;
  /** Number of frontends; 0 for a stale list. */
  users: number;
  /** Number of its prefixes that the table still has, if it is being deleted. */
  left: number;
}

/** Maximum number of stale elements that are deleted at a time. */
const MOST_DELETED = 4000;

/**
 * An added element counts twice, because it has to be deleted some day. So a sync adds at most half as many
 * elements as the next one deletes, and stale ones do not pile up.
 */
const WORK_OF_RANGE = 2;

/**
 * The lists of source ranges of one family, by number. A list that no frontend uses is stale: its elements
 * leave the table later, a few at a time, and the list is used again if its frontends return before.
 */
export class SourceRangeLists {
  readonly #tracker: DeltaTracker;
  readonly #lists = new Map<string, KnownList>();
  /** The stale lists, in the order in which they became stale. */
  readonly #stale = new Set<KnownList>();
  readonly #numbers = new IdPool(FIRST_SOURCE_RANGE_LIST, 1, MOST_SOURCE_RANGE_LISTS);

  /** @param tracker the writer of the table */
  constructor(tracker: DeltaTracker) {
    this.#tracker = tracker;
  }

  /** Whether the table has no list, stale ones included. */
  get isEmpty(): boolean {
    return this.#lists.size + this.#stale.size === 0;
  }

  /** Number of elements of stale lists, which wait to be deleted. */
  get stale(): number {
    let count = 0;
    for (const { left } of this.#stale) count += left;
    return count;
  }

  /** The number of a list that a frontend uses, as the value of an element. */
  numberOf(id: string): string | undefined {
    const list = this.#lists.get(id);
    return list && String(list.number);
  }

  /** Adds a frontend. @returns the number of its list, as the value of an element */
  add(ranges: SourceRanges): string {
    const list = this.#lists.get(ranges.id) ?? this.#addList(ranges);
    list.users += 1;
    this.#stale.delete(list);
    return String(list.number);
  }

  /** Removes a frontend. */
  remove({ id }: SourceRanges): void {
    const list = this.#lists.get(id);
    if (list === undefined) return;
    list.users -= 1;
    if (list.users === 0) this.#stale.add(list);
  }

  /** Deletes up to {@link MOST_DELETED} elements of stale lists. */
  deleteStale(): void {
    let room = MOST_DELETED;
    for (const list of this.#stale) {
      if (room === 0) return;
      // From now on, frontends with these ranges get a new list.
      if (this.#lists.get(list.id) === list) this.#lists.delete(list.id);
      const until = Math.max(0, list.left - room);
      room -= list.left - until;
      this.#delete(list, until);
      if (until > 0) return;
      this.#stale.delete(list);
      this.#numbers.release(list.number, false);
    }
  }

  /** Records that the kernel has the whole table. */
  committed(): void {
    this.#numbers.committed();
  }

  /**
   * Gives lists the numbers that another table has for them, and others numbers that it does not have. Its
   * other lists become stale here, beyond those that can be deleted immediately.
   * @returns whether any number changed: then the caller writes the elements of frontends again
   */
  adopt({ sets }: Table): boolean {
    if (this.#lists.size === 0) return false;
    for (const list of this.#stale) {
      if (this.#lists.get(list.id) === list) continue;
      this.#delete(list, 0);
      this.#stale.delete(list);
    }
    const kernel = listsIn(sets);
    const byId = new Map(kernel.map((list) => [list.id, list]));
    const taken = new Set<number>();
    const moved: KnownList[] = [];
    for (const list of this.#lists.values()) {
      const number = byId.get(list.id)?.number;
      if (number !== undefined) taken.add(number);
      if (number !== list.number) moved.push(list);
    }
    for (const list of moved) this.#delete(list, 0);
    this.#numbers.reset(taken, new Set(kernel.map(({ number }) => number)));
    for (const list of moved) list.number = byId.get(list.id)?.number ?? this.#take();
    for (const list of moved) this.#put(list);
    let deleted = 0;
    for (const list of kernel) {
      if (this.#lists.get(list.id)?.number === list.number) continue;
      deleted += list.prefixes.length;
      if (deleted <= MOST_DELETED || !this.#numbers.reclaim(list.number)) continue;
      this.#stale.add(list);
      this.#put(list);
    }
    return moved.length > 0;
  }

  #addList({ id, prefixes }: SourceRanges): KnownList {
    const list: KnownList = { id, prefixes, number: this.#take(), users: 0, left: 0 };
    this.#lists.set(id, list);
    this.#put(list);
    return list;
  }

  #take(): number {
    const number = this.#numbers.take();
    if (number === undefined) throw new Error("no number is left for a list of source ranges");
    return number;
  }

  #put(list: KnownList): void {
    const { number, prefixes } = list;
    for (const prefix of prefixes)
      this.#tracker.putElement(SOURCE_RANGES, sourceRangeKey(number, prefix), "", WORK_OF_RANGE);
    list.left = prefixes.length;
  }

  /** @param until number of prefixes to keep */
  #delete(list: KnownList, until: number): void {
    for (const prefix of list.prefixes.slice(until, list.left))
      this.#tracker.deleteElement(SOURCE_RANGES, sourceRangeKey(list.number, prefix), 0);
    list.left = until;
  }
}

/** The lists of a table with their numbers. */
function listsIn(sets: Table["sets"]): readonly KnownList[] {
  const byNumber = new Map<number, string[]>();
  for (const key of sets.get(SOURCE_RANGES)?.elements.keys() ?? []) {
    const [address = "", number = "", length = ""] = splitParts(key);
    addToGroup(byNumber, Number(number), `${address}/${length}`);
  }
  return [...byNumber]
    .filter(([number]) => isListNumber(number))
    .map(([number, prefixes]) => ({ id: listIdentity(prefixes), prefixes, number, users: 0, left: 0 }));
}
