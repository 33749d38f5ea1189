/**
 * Computes the excess of groups over a shared capacity. The largest groups are cut to a common maximum, so
 * that smaller ones lose nothing.
 * @param counts the size of each group, in any order
 * @param room maximum total size of all groups
 * @returns the amount to take from each group; none if all fit
 */
export function excessOver<Group>(
  counts: ReadonlyMap<Group, number>,
  room: number,
): ReadonlyMap<Group, number> {
  const sorted = [...counts].sort(([, a], [, b]) => b - a);
  // Starts with the smallest group: each may have an equal part of the remaining capacity.
  let left = room;
  const excess = new Map<Group, number>();
  for (let groups = sorted.length; groups > 0; groups--) {
    const [group, count] = sorted[groups - 1] as readonly [Group, number];
    const granted = Math.min(count, Math.floor(left / groups));
    left -= granted;
    if (granted < count) excess.set(group, count - granted);
  }
  return excess;
}
