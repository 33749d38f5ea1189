import { addToGroup } from "../base/group-by.ts";
import type { Table } from "../nft/ast/ruleset.ts";
import { splitParts } from "../nft/elements.ts";
import type { DeltaTracker } from "./delta-tracker.ts";
import type { SourceRanges } from "./frontend-rules.ts";
import { IdPool } from "./list-ids.ts";
import { SOURCE_RANGES } from "./sets.ts";
import {
  FIRST_SOURCE_RANGE_LIST,
  isListNumber,
  listIdentity,
  MOST_SOURCE_RANGE_LISTS,
  sourceRangeKey,
} from "./source-ranges.ts";
import { MOST_DELETED } from "./stale-elements.ts";

/** A list in the table. */
interface KnownList extends SourceRanges {
  number: number;
  /** How many frontends use it: 0 if it is stale or still being written. */
  users: number;
  /** Number of its prefixes that the table has: the first ones. */
  written: number;
  /** Whether a frontend waits for the list to become whole. */
  isAwaited: boolean;
}

/**
 * An added element counts twice, because it has to be deleted some day. So a sync adds at most half as many
 * elements as the next one deletes, and stale ones do not pile up.
 */
const WORK_OF_RANGE = 2;

/**
 * The lists of source ranges of one family, by number. A list is whole before a frontend uses it. One that no
 * frontend uses or waits for is stale: its elements leave the table later, a few at a time, and it is used
 * again if its frontends return before.
 */
export class SourceRangeLists {
  readonly #tracker: DeltaTracker;
  readonly #lists = new Map<string, KnownList>();
  /** The lists without frontends, in the order in which they lost them. */
  readonly #stale = new Set<KnownList>();
  readonly #numbers = new IdPool(FIRST_SOURCE_RANGE_LIST, 1, MOST_SOURCE_RANGE_LISTS);

  /** @param tracker the writer of the table */
  constructor(tracker: DeltaTracker) {
    this.#tracker = tracker;
  }

  /** Whether the table has a list, if only a stale one. */
  get isAny(): boolean {
    return this.#lists.size + this.#stale.size > 0;
  }

  /** Number of elements of lists without frontends. */
  get stale(): number {
    let count = 0;
    for (const { written } of this.#stale) count += written;
    return count;
  }

  /** The number of a list that a frontend uses, as the value of an element. */
  numberOf(id: string): string | undefined {
    const list = this.#lists.get(id);
    return list && String(list.number);
  }

  /**
   * Writes a part of a list for a frontend that waits for it, unless all of it fits.
   * @param most maximum work, as {@link DeltaTracker.work}
   * @returns whether {@link SourceRangeLists.add} causes no more work than that
   */
  prepare(ranges: SourceRanges, most: number): boolean {
    const known = this.#lists.get(ranges.id);
    const missing = ranges.prefixes.length - (known?.written ?? 0);
    if (missing * WORK_OF_RANGE <= most) return true;
    const list = known ?? this.#addList(ranges);
    this.#put(list, list.written + Math.ceil(most / WORK_OF_RANGE));
    list.isAwaited = true;
    return false;
  }

  /** Adds a frontend. @returns the number of its list, as the value of an element */
  add(ranges: SourceRanges): string {
    const list = this.#lists.get(ranges.id) ?? this.#addList(ranges);
    this.#put(list);
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

  /**
   * Deletes up to {@link MOST_DELETED} elements of stale lists. A list that is not whole is stale, too, if no
   * frontend has asked for it since the last call.
   */
  deleteStale(): void {
    let room = MOST_DELETED;
    for (const list of this.#stale) {
      if (room === 0) return;
      if (list.isAwaited) {
        list.isAwaited = false;
        continue;
      }
      // From now on, frontends with these ranges get a new list.
      if (this.#lists.get(list.id) === list) this.#lists.delete(list.id);
      const until = Math.max(0, list.written - room);
      room -= list.written - until;
      this.#delete(list, until);
      if (until > 0) return;
      this.#stale.delete(list);
      this.#numbers.release(list.number, false);
    }
  }

  /** Records that the kernel has the whole table. */
  markCommitted(): void {
    this.#numbers.markCommitted();
  }

  /**
   * Gives lists the numbers that the kernel's table has for them, and others numbers that it does not have.
   * Of the lists that only the table has, up to {@link MOST_DELETED} elements are deleted at once; the other
   * lists become stale.
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
    const list: KnownList = { id, prefixes, number: this.#take(), users: 0, written: 0, isAwaited: false };
    this.#lists.set(id, list);
    this.#stale.add(list);
    return list;
  }

  #take(): number {
    const number = this.#numbers.take();
    if (number === undefined) throw new Error("no number is left for a list of source ranges");
    return number;
  }

  /** @param until number of prefixes to have; all if absent */
  #put(list: KnownList, until = list.prefixes.length): void {
    const { number, prefixes, written } = list;
    for (const prefix of prefixes.slice(written, until))
      this.#tracker.setElement(SOURCE_RANGES, sourceRangeKey(number, prefix), "", WORK_OF_RANGE);
    list.written = Math.min(until, prefixes.length);
  }

  /** @param until number of prefixes to keep */
  #delete(list: KnownList, until: number): void {
    for (const prefix of list.prefixes.slice(until, list.written))
      this.#tracker.deleteElement(SOURCE_RANGES, sourceRangeKey(list.number, prefix), 0);
    list.written = until;
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
    .map(([number, prefixes]) => ({
      ...{ id: listIdentity(prefixes), prefixes, number },
      ...{ users: 0, written: 0, isAwaited: false },
    }));
}
