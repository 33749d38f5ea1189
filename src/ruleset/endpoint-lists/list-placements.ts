import type { Table } from "../../nft/ast/ruleset.ts";
import type { DeltaTracker } from "../delta-tracker.ts";
import {
  type BalancedList,
  type Frontend,
  idElementOf,
  indexedSet,
  indexedValues,
  indexKey,
  isPlaceable,
} from "./endpoint-lists.ts";
import { placed } from "./placement.ts";

/** A frontend with its lists. */
interface ListedFrontend extends Frontend {
  readonly lists: readonly BalancedList[];
}

/**
 * The index of each endpoint in the lists of frontends, and the elements that say so. The indexes of a list are 0 to
 * N-1; which endpoint has which is free, so that a change within a long list changes few elements. A new list is sorted.
 */
export class ListPlacements {
  readonly #tracker: DeltaTracker;
  /** By frontend and list, the placements that are not the sorted ones. */
  readonly #moved = new Map<string, readonly string[]>();

  constructor(tracker: DeltaTracker) {
    this.#tracker = tracker;
  }

  /** Replaces the lists of a frontend; both have its key. */
  replace(before: ListedFrontend | undefined, after: ListedFrontend | undefined): void {
    for (const shortcut of [true, false]) this.#replaceList(listOf(before, shortcut), listOf(after, shortcut));
  }

  /** Places the lists of a frontend as another table has them, as far as that has their endpoints. */
  adopt(frontend: ListedFrontend, actual: Table): void {
    for (const list of frontend.lists.filter(isPlaceable)) {
      const elements = actual.sets.get(indexedSet(frontend.kind, list))?.elements ?? new Map<string, string>();
      const known: string[] = [];
      for (
        let value = elements.get(indexKey(frontend, list, 0));
        value !== undefined;
        value = elements.get(indexKey(frontend, list, known.length))
      ) {
        known.push(value);
      }
      const from = this.#placementOf(frontend, list);
      const values = indexedValues(list);
      this.#place({ frontend, list }, from, placed(known, values), values);
    }
  }

  #replaceList(before: PlacedList | undefined, after: PlacedList | undefined): void {
    const from = before === undefined ? [] : this.#placementOf(before.frontend, before.list);
    const isSameMap = (before?.list.ids === undefined) === (after?.list.ids === undefined);
    if (before !== undefined && (after === undefined || !isSameMap)) this.#place(before, from, []);
    this.#replaceIds(before, after);
    if (after === undefined) return;
    const kept = isSameMap ? from : [];
    const values = indexedValues(after.list);
    this.#place(after, kept, isPlaceable(after.list) ? placed(kept, values) : values, values);
  }

  #replaceIds(before: PlacedList | undefined, after: PlacedList | undefined): void {
    const { removed, added } = changedIds(before?.list, after?.list);
    for (const id of removed) {
      if (before === undefined) continue;
      const { set, key } = idElementOf(before.frontend, id);
      this.#tracker.deleteElement(set, key);
    }
    for (const { id, target } of added) {
      if (after === undefined) continue;
      const { set, key } = idElementOf(after.frontend, id);
      this.#tracker.putElement(set, key, target);
    }
  }

  /** Writes what differs between two placements of a list. @param sorted the placement that need not be kept */
  #place({ frontend, list }: PlacedList, from: readonly string[], to: readonly string[], sorted = to): void {
    const set = indexedSet(frontend.kind, list);
    for (let i = 0; i < Math.max(from.length, to.length); i++) {
      const value = to[i];
      if (value === from[i]) continue;
      if (value === undefined) this.#tracker.deleteElement(set, indexKey(frontend, list, i));
      else this.#tracker.putElement(set, indexKey(frontend, list, i), value);
    }
    const id = placementId(frontend, list);
    if (to.length === 0 || to === sorted) this.#moved.delete(id);
    else this.#moved.set(id, to);
  }

  #placementOf(frontend: Frontend, list: BalancedList): readonly string[] {
    return this.#moved.get(placementId(frontend, list)) ?? indexedValues(list);
  }
}

interface PlacedList {
  readonly frontend: Frontend;
  readonly list: BalancedList;
}

interface ChangedIds {
  readonly removed: readonly string[];
  readonly added: readonly { readonly id: string; readonly target: string }[];
}

const NO_LIST: Pick<BalancedList, "targets" | "ids"> = { targets: [] };

/** Compares the ids of two lists in one pass, for both are sorted by target. */
function changedIds(before = NO_LIST, after = NO_LIST): ChangedIds {
  const removed: string[] = [];
  const added: { id: string; target: string }[] = [];
  const [known, wanted] = [
    before.ids === undefined ? [] : before.targets,
    after.ids === undefined ? [] : after.targets,
  ];
  for (let i = 0, j = 0; i < known.length || j < wanted.length; ) {
    const [old, target] = [known[i], wanted[j]];
    const isSame = old === target && before.ids?.[i] === after.ids?.[j];
    const isOld = old !== undefined && (target === undefined || old <= target);
    const isNew = target !== undefined && (old === undefined || target <= old);
    if (isOld && !isSame) removed.push(before.ids?.[i] as string);
    if (isNew && !isSame) added.push({ id: after.ids?.[j] as string, target });
    if (isOld) i++;
    if (isNew) j++;
  }
  return { removed, added };
}

function placementId({ key }: Frontend, { balancer }: BalancedList): string {
  return balancer.shortcut ? `${key} shortcut` : key;
}

function listOf(frontend: ListedFrontend | undefined, shortcut: boolean): PlacedList | undefined {
  const list = frontend?.lists.find(({ balancer }) => balancer.shortcut === shortcut);
  return frontend === undefined || list === undefined ? undefined : { frontend, list };
}
