import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test, vi } from "vitest";
import type { SeenRefusals } from "../../../../src/inspect/refusals/refused-destinations.ts";
import { watchRefusals } from "../../../../src/inspect/refusals/watch-refusals.ts";

vi.mock("node:timers/promises", () => ({
  setTimeout: () => new Promise((resolve) => setImmediate(resolve)),
}));

test("keeps no earlier reading, however long it watches", async () => {
  setFlagsFromString("--expose-gc");
  const collect: () => void = runInNewContext("gc");
  const readings: WeakRef<SeenRefusals>[] = [];
  let stop: () => void = () => {};
  const stopped = new Promise<void>((resolve) => {
    stop = resolve;
  });
  let kept = 0;
  const read = async (): Promise<SeenRefusals> => {
    // While it watches, as its end releases all of them.
    if (readings.length === 20) {
      collect();
      kept = readings.slice(0, 10).filter((one) => one.deref() !== undefined).length;
      stop();
    }
    const seen = { entries: [], isWatched: true };
    readings.push(new WeakRef(seen));
    return seen;
  };
  const explained = async () => ({ destinations: [], now: 0, isWatched: true });
  for await (const _ of watchRefusals({ entries: [], isWatched: true }, read, explained, stopped));
  expect(kept).toBe(0);
});
