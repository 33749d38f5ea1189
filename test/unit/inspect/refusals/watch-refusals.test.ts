import { setImmediate } from "node:timers/promises";
import { describe, expect, test, vi } from "vitest";
import type { ExplainInput } from "../../../../src/inspect/explain/explain-input.ts";
import type { LoadRequest } from "../../../../src/inspect/load/load-request.ts";
import type { SeenRefusals } from "../../../../src/inspect/refusals/refused-destinations.ts";
import { latestInput, watchRefusals } from "../../../../src/inspect/refusals/watch-refusals.ts";
import { collectGarbage } from "../../../support/collect-garbage.ts";
import { ManualClock } from "../../../support/manual-clock.ts";

test("keeps no earlier reading, however long it watches", async () => {
  const readings: WeakRef<SeenRefusals>[] = [];
  let stop: () => void = () => {};
  const stopped = new Promise<void>((resolve) => {
    stop = resolve;
  });
  let kept = 0;
  const read = async (): Promise<SeenRefusals> => {
    // While it watches, as its end releases all of them.
    if (readings.length === 20) {
      await collectGarbage();
      kept = readings.slice(0, 10).filter((one) => one.deref() !== undefined).length;
      stop();
    }
    const seen = { entries: [], isWatched: true };
    readings.push(new WeakRef(seen));
    return seen;
  };
  const explained = async () => ({ destinations: [], now: 0, isWatched: true });
  const first = { entries: [], isWatched: true };
  for await (const _ of watchRefusals(
    first,
    read,
    explained,
    () => stopped,
    () => setImmediate(),
  ));
  expect(kept).toBe(0);
});

test("waits for its end from the first refusals on, as nothing handles signals before they are printed", async () => {
  const stop = vi.fn(async () => {});
  const seen = { entries: [], isWatched: true };
  const explained = async () => ({ destinations: [], now: 0, isWatched: true });
  const watched = watchRefusals(seen, async () => seen, explained, stop);
  expect(stop).not.toHaveBeenCalled();
  await watched.next();
  expect(stop).toHaveBeenCalledOnce();
});

describe("the objects that explain refusals", () => {
  /** Objects of a daemon; each loading takes some time. */
  function watching(took = 0, request = { daemon: {}, paths: [] as string[] }) {
    const clock = new ManualClock();
    const first = {} as ExplainInput;
    const load = vi.fn(async () => {
      clock.advance(took);
      return { input: {} as ExplainInput };
    });
    return { clock, first, load, latest: latestInput(first, request as unknown as LoadRequest, clock, load) };
  }

  test("are those of the start for 2 s, and are then loaded once for all refusals", async () => {
    const { clock, first, load, latest } = watching();
    clock.advance(1999);
    for (const _ of "123") expect(await latest()).toBe(first);
    expect(load).not.toHaveBeenCalled();
    clock.advance(1);
    const [second, third] = await Promise.all([latest(), latest()]);
    expect(second).not.toBe(first);
    expect([third, await latest()]).toEqual([second, second]);
    expect(load).toHaveBeenCalledOnce();
  });

  test("are loaded for at most a twentieth of the time", async () => {
    const { clock, latest } = watching(1000);
    clock.advance(10_000);
    const loaded = await latest();
    clock.advance(19_999);
    expect(await latest()).toBe(loaded);
    clock.advance(1);
    expect(await latest()).not.toBe(loaded);
  });

  test("stay if the daemon has ended, and without a daemon", async () => {
    const { clock, first, load, latest } = watching();
    const alone = watching(0, { daemon: {}, paths: ["objects.yaml"] });
    load.mockRejectedValue(new Error("ECONNREFUSED"));
    for (const _ of "12") {
      for (const each of [clock, alone.clock]) each.advance(10_000);
      expect(await latest()).toBe(first);
      expect(await alone.latest()).toBe(alone.first);
    }
  });
});
