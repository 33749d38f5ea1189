/**
 * Returns a copy of a list in memory of exactly its length. A list that was made by `push`, `flatMap` or with a spread has
 * room for up to 16 more items, 8 bytes each (V8): for the lists of 40,000 Services that is 20 MB.
 */
export function exactList<T>(list: readonly T[]): readonly T[] {
  return list.slice();
}
