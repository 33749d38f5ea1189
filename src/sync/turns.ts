import { setImmediate as nextTurn } from "node:timers/promises";
import { TURN } from "../base/pieces.ts";

/**
 * Does work piece by piece, and yields to the event loop after each {@link TURN}, so that watches are read
 * and probes answered. Work that takes less time is done when this returns its promise.
 * @param pieces an iterator that does one piece of work for each value
 */
export async function inTurns(pieces: Iterable<unknown>): Promise<void> {
  let since = performance.now();
  for (const _ of pieces) {
    if (performance.now() - since < TURN) continue;
    await nextTurn();
    since = performance.now();
  }
}
