/** The part of the affinity map beyond which clients are forgotten, and the part that is left then. */
const NEARLY_FULL = 0.9;
const ENOUGH_ROOM = 0.8;

/**
 * How many entries of each service port are to go from an affinity map that is nearly full: those with the most lose down to
 * a number that no other one exceeds, so that none with fewer loses any.
 * @param counts entries by service port, in any order
 * @param size the most entries that the map takes
 * @returns none for a map that has room
 */
export function excessEntries<Port>(
  counts: ReadonlyMap<Port, number>,
  size: number,
): ReadonlyMap<Port, number> {
  const sorted = [...counts].sort(([, a], [, b]) => b - a);
  const total = sorted.reduce((sum, [, count]) => sum + count, 0);
  if (total <= NEARLY_FULL * size) return new Map();
  // From the port with the fewest on, each is granted an equal part of what is left of the room.
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
