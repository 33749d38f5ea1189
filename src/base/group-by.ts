/** Groups items by key; keys and items keep their order (Node 20 has no `Map.groupBy`). */
export function groupBy<K, T>(items: Iterable<T>, keyOf: (item: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  for (const item of items) addToGroup(groups, keyOf(item), item);
  return groups;
}

/** Adds an item to the group of a key. For items with several keys, or groups of parts of items. */
export function addToGroup<K, T>(groups: Map<K, T[]>, key: K, item: T): void {
  const group = groups.get(key);
  if (group === undefined) groups.set(key, [item]);
  else group.push(item);
}

/** Adds to the count of a key, which is absent when it is 0. @returns the new count */
export function addToCount<K>(counts: Map<K, number>, key: K, added: number): number {
  const count = (counts.get(key) ?? 0) + added;
  if (count > 0) counts.set(key, count);
  else counts.delete(key);
  return count;
}

/** Sets the value of a key as the newest entry, and deletes the oldest one beyond a number of entries. */
export function setNewest<K, T>(entries: Map<K, T>, key: K, value: T, most: number): void {
  entries.delete(key);
  entries.set(key, value);
  const [oldest] = entries.keys();
  if (entries.size > most && oldest !== undefined) entries.delete(oldest);
}

/** Adds an item to the set of a key. */
export function addToSet<K, T>(sets: Map<K, Set<T>>, key: K, item: T): void {
  sets.set(key, (sets.get(key) ?? new Set()).add(item));
}

/** Removes an item from the set of a key, which is absent when it is empty. @returns whether it was there */
export function removeFromSet<K, T>(sets: Map<K, Set<T>>, key: K, item: T): boolean {
  const set = sets.get(key);
  const wasThere = set?.delete(item) === true;
  if (set?.size === 0) sets.delete(key);
  return wasThere;
}
