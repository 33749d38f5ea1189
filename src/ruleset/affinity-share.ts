import { excessOver } from "../base/equal-shares.ts";

/** Fill of the affinity map at which entries are deleted, and fill after that. Fractions of its size. */
const NEARLY_FULL = 0.9;
const ENOUGH_ROOM = 0.8;

/**
 * Computes how many entries of each service port to delete from an affinity map that is nearly full. The
 * ports with the most entries are cut to a common maximum, so that ports with fewer entries lose none.
 * @param counts entries by service port, in any order
 * @param size maximum number of entries of the map
 * @returns an empty result if the map has room
 */
export function excessEntries<Port>(
  counts: ReadonlyMap<Port, number>,
  size: number,
): ReadonlyMap<Port, number> {
  let total = 0;
  for (const count of counts.values()) total += count;
  return total <= NEARLY_FULL * size ? new Map() : excessOver(counts, Math.floor(ENOUGH_ROOM * size));
}
