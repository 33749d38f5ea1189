/**
 * The first of some items in the order of their keys: of 100,000 the first 20, without sorting all of them.
 * @param most how many
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
