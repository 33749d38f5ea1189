import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { inTurns } from "../../../src/sync/turns.ts";

let now = 0;
beforeEach(() => {
  vi.spyOn(performance, "now").mockImplementation(() => now);
});
afterEach(() => {
  vi.restoreAllMocks();
});

/** Pieces of so many milliseconds each. */
function* pieces(count: number, ms: number, work: () => void) {
  for (let n = 0; n < count; n++) {
    now += ms;
    work();
    yield;
  }
}

test("long work yields to the event loop between its pieces", async () => {
  let turns = 0;
  const seen: number[] = [];
  const work = () => {
    seen.push(turns);
    setImmediate(() => turns++);
  };
  await inTurns(pieces(6, 5, work));
  expect(seen).toEqual([0, 0, 2, 2, 4, 4]);
});

test("short work is done at once", () => {
  let done = 0;
  void inTurns(pieces(5, 1, () => done++));
  expect(done).toBe(5);
});
