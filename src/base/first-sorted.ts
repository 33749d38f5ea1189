/**
 * Returns the first items in the order of their keys without sorting all, for example 20 of 100,000.
 * @param most maximum number of items
 */
export function firstSorted<T>(items: Iterable<T>, most: number, keyOf: (item: T) => string): T[] {
  if (most === Number.POSITIVE_INFINITY) return [...items].sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
  const first: { readonly key: string; readonly item: T }[] = [];
  for (const item of items) {
    const key = keyOf(item);
    const last = first.at(-1);
    if (first.length >= most && (last === undefined || key >= last.key)) continue;
    const after = first.findIndex((other) => other.key > key);
    first.splice(after === -1 ? first.length : after, 0, { key, item });
    first.length = Math.min(first.length, most);
  }
  return first.map(({ item }) => item);
}

/** Returns the entries of a map in the order of their keys. */
export function sortedEntries<K extends string, T>(entries: ReadonlyMap<K, T>): [K, T][] {
  return [...entries].sort(([a], [b]) => (a < b ? -1 : 1));
}

/** Compares by the first of several keys that differs. */
export function compareKeys(a: readonly (string | number)[], b: readonly (string | number)[]): number {
  const index = a.findIndex((key, at) => key !== b[at]);
  if (index < 0) return 0;
  return (a[index] ?? "") < (b[index] ?? "") ? -1 : 1;
}

/** The index of the first of some sorted items that is not before the searched one: a binary search. */
export function lowerBound<T>(items: readonly T[], isBefore: (item: T) => boolean): number {
  let [from, to] = [0, items.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if (isBefore(items[middle] as T)) from = middle + 1;
    else to = middle;
  }
  return from;
}
