import { setImmediate as nextTurn } from "node:timers/promises";

/** For how long a piece of work may follow another one before everything else gets its turn, milliseconds. */
const TURN = 20;

/**
 * Does work piece by piece, and lets the event loop do everything else after each {@link TURN}: watches are
 * read and probes are answered meanwhile. Work that takes less is done when this returns.
 * @param pieces each is done when it is asked for
 */
export async function inTurns(pieces: Iterable<unknown>): Promise<void> {
  let since = performance.now();
  for (const _ of pieces) {
    if (performance.now() - since < TURN) continue;
    await nextTurn();
    since = performance.now();
  }
}
