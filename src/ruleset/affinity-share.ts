/** Fill of the affinity map at which entries are deleted, and fill after that. Fractions of its size. */
const NEARLY_FULL = 0.9;
const ENOUGH_ROOM = 0.8;

/**
 * Computes how many entries of each service port to delete from an affinity map that is nearly full. The
 * ports with the most entries are cut to a common maximum, so that no port with fewer loses any.
 * @param counts entries by service port, in any order
 * @param size maximum number of entries of the map
 * @returns none for a map with room
 */
export function excessEntries<Port>(
  counts: ReadonlyMap<Port, number>,
  size: number,
): ReadonlyMap<Port, number> {
  const sorted = [...counts].sort(([, a], [, b]) => b - a);
  const total = sorted.reduce((sum, [, count]) => sum + count, 0);
  if (total <= NEARLY_FULL * size) return new Map();
  // Starts with the smallest port: each may have an equal part of the remaining room.
  let room = Math.floor(ENOUGH_ROOM * size);
  const excess = new Map<Port, number>();
  for (let ports = sorted.length; ports > 0; ports--) {
    const [port, count] = sorted[ports - 1] as readonly [Port, number];
    const granted = Math.min(count, Math.floor(room / ports));
    room -= granted;
    if (granted < count) excess.set(port, count - granted);
  }
  return excess;
}
