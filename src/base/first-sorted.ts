/**
 * Returns the first items in the order of their keys without sorting all, for example 20 of 100,000.
 * @param most maximum number of items
 */
export function firstSorted<T>(items: Iterable<T>, most: number, keyOf: (item: T) => string): T[] {
  if (most === Number.POSITIVE_INFINITY) {
    return [...items].sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
  }
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
