import { describe, expect, test } from "vitest";
import { BoundedFrequencyRunner } from "../../../src/sync/bounded-frequency-runner.ts";
import { ManualClock } from "../../support/manual-clock.ts";

/** A runner whose runs last until they are told how they ended. */
function setUp() {
  const clock = new ManualClock(50_000);
  const starts: number[] = [];
  let finish: (succeeded: boolean) => void = () => {};
  const options = { minPeriodMs: 1000 };
  const runner = new BoundedFrequencyRunner(clock, () => options.minPeriodMs);
  runner.start(() => {
    starts.push(clock.now() - 50_000);
    return new Promise((resolve) => {
      finish = resolve;
    });
  });
  const settle = () => new Promise((resolve) => setImmediate(resolve));
  return {
    clock,
    options,
    runner,
    starts,
    settle,
    end: async (succeeded: boolean) => {
      finish(succeeded);
      await settle();
    },
  };
}

describe("BoundedFrequencyRunner", () => {
  test("runs at once when idle, then at most once per period", async () => {
    const { clock, runner, starts, end } = setUp();
    runner.request();
    clock.advance(0);
    await end(true);
    clock.advance(200);
    runner.request();
    runner.request();
    clock.advance(799);
    expect(starts).toEqual([0]);
    clock.advance(1);
    await end(true);
    clock.advance(60_000);
    expect(starts).toEqual([0, 1000]);
    runner.request();
    clock.advance(0);
    expect(starts).toEqual([0, 1000, 61_000]);
  });

  test("makes one more run for all requests during a run", async () => {
    const { clock, runner, starts, end } = setUp();
    runner.request();
    clock.advance(0);
    for (let n = 0; n < 5; n++) runner.request();
    clock.advance(3000);
    expect(starts).toEqual([0]);
    await end(true);
    clock.advance(0);
    expect(starts).toEqual([0, 3000]);
    await end(true);
    clock.advance(60_000);
    expect(starts).toEqual([0, 3000]);
  });

  test("runs an urgent request at once, except during the back-off", async () => {
    const { clock, runner, starts, end } = setUp();
    runner.request();
    clock.advance(0);
    await end(true);
    runner.request();
    runner.request({ isUrgent: true });
    clock.advance(0);
    expect(starts).toEqual([0, 0]);
    runner.request({ isUrgent: true });
    runner.request();
    await end(true);
    clock.advance(0);
    expect(starts, "also one that came during a run").toEqual([0, 0, 0]);
    runner.request();
    await end(true);
    clock.advance(999);
    expect(starts).toEqual([0, 0, 0]);
    clock.advance(1);
    await end(false);
    runner.request({ isUrgent: true });
    clock.advance(499);
    expect(starts).toEqual([0, 0, 0, 1000]);
  });

  test("retries with back-off until a run succeeds, whatever is requested meanwhile", async () => {
    const { clock, runner, starts, end } = setUp();
    runner.request();
    clock.advance(0);
    for (const delay of [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]) {
      await end(false);
      runner.request();
      clock.advance(delay - 1);
      const before = starts.length;
      clock.advance(1);
      expect(starts.length).toBe(before + 1);
    }
    await end(true);
    clock.advance(60_000);
    expect(starts).toEqual([0, 500, 1500, 3500, 7500, 15_500, 31_500, 61_500, 91_500]);
    runner.request();
    clock.advance(0);
    await end(false);
    clock.advance(500);
    expect(starts.slice(9), "the back-off begins anew").toEqual([151_500, 152_000]);
  });

  test.each([
    ["four times the length of the last run", 50, 200],
    ["at least 10 ms", 1, 10],
    ["at most 0.25 s", 600, 250],
  ])("pauses with an adaptive interval for %s", async (_rule, length, pause) => {
    const { clock, runner, starts, end } = await adaptive();
    runner.request();
    clock.advance(0);
    clock.advance(length);
    runner.request();
    await end(true);
    clock.advance(pause - 1);
    expect(starts).toHaveLength(2);
    clock.advance(1);
    expect(starts).toHaveLength(3);
    await end(true);
    clock.advance(5000);
    runner.request();
    clock.advance(0);
    expect(starts, "at once when idle").toHaveLength(4);
  });

  /** A runner after its first run, which took 2 s, and the shortest pause. */
  async function adaptive() {
    const { clock, options, runner, starts, end } = setUp();
    options.minPeriodMs = 0;
    runner.request();
    clock.advance(0);
    clock.advance(2000);
    await end(true);
    clock.advance(10);
    return { clock, runner, starts, end };
  }

  test("pauses with an adaptive interval by the shortest of the last three runs that succeeded", async () => {
    const { clock, runner, starts, end } = await adaptive();
    for (const [length, pause] of [
      [50, 200],
      [10, 40],
      [80, 40],
      [55, 40],
      [60, 220],
    ] as const) {
      runner.request();
      clock.advance(0);
      const before = starts.length;
      clock.advance(length);
      runner.request();
      await end(true);
      clock.advance(pause - 1);
      expect(starts).toHaveLength(before);
      clock.advance(1);
      expect(starts).toHaveLength(before + 1);
    }
  });

  test("uses a changed interval", async () => {
    const { clock, options, runner, starts, end } = setUp();
    runner.request();
    clock.advance(0);
    await end(true);
    options.minPeriodMs = 5000;
    runner.request();
    clock.advance(4999);
    expect(starts).toEqual([0]);
    clock.advance(1);
    expect(starts).toEqual([0, 5000]);
  });

  test.each([
    ["a period", 1000, 1000],
    ["an adaptive interval", 0, 10],
  ])("a wall clock that is set back holds up no run: %s", async (_, minPeriodMs, wait) => {
    const { clock, options, runner, starts, end } = setUp();
    options.minPeriodMs = minPeriodMs;
    runner.request();
    clock.advance(0);
    await end(true);
    clock.set(clock.now() - 3_600_000);
    runner.request();
    clock.advance(wait);
    expect(starts).toHaveLength(2);
    await end(false);
    clock.set(clock.now() - 3_600_000);
    clock.advance(500);
    expect(starts).toHaveLength(3);
  });

  test("reports how long a request has waited although the wall clock is set meanwhile", () => {
    const { clock, runner } = setUp();
    runner.request();
    clock.advance(300);
    clock.set(clock.now() + 3_600_000);
    expect(clock.now() - (runner.pendingSince ?? 0)).toBe(300);
  });

  test("reports since when a request has waited, through failures", async () => {
    const { clock, runner, end } = setUp();
    expect(runner.pendingSince).toBeUndefined();
    runner.request();
    clock.advance(0);
    clock.advance(300);
    runner.request();
    expect(runner.pendingSince).toBe(50_000);
    await end(false);
    expect(runner.pendingSince, "the first request still waits").toBe(50_000);
    clock.advance(500);
    await end(true);
    expect([runner.pendingSince, runner.lastRequestedAt]).toEqual([undefined, 50_300]);
  });

  test("keeps requests made before start()", () => {
    const clock = new ManualClock();
    const runner = new BoundedFrequencyRunner(clock, () => 1000);
    runner.request();
    let runs = 0;
    runner.start(async () => ++runs > 0);
    clock.advance(0);
    expect(runs).toBe(1);
  });

  test("stop() waits for the run under way, and nothing runs after it", async () => {
    const { clock, runner, starts, end, settle } = setUp();
    runner.request();
    clock.advance(0);
    runner.request();
    let stopped = false;
    const stopping = runner.stop().then(() => {
      stopped = true;
    });
    await settle();
    expect(stopped).toBe(false);
    await end(true);
    await stopping;
    runner.request();
    clock.advance(60_000);
    expect([starts, clock.timers]).toEqual([[0], 0]);
    await runner.stop();
  });
});
