import { describe, expect, test } from "vitest";
import { PeriodicTask } from "../../../src/base/periodic-task.ts";
import { ManualClock } from "../../support/manual-clock.ts";

function setUp() {
  const clock = new ManualClock();
  const turns: number[] = [];
  const settings = { period: 1000, lengths: 0 };
  let end: () => void = () => {};
  const task = new PeriodicTask(
    clock,
    (took) => settings.period + settings.lengths * took,
    () => {
      turns.push(clock.now());
      return new Promise((resolve) => {
        end = resolve;
      });
    },
  );
  const ended = async () => {
    end();
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { clock, turns, settings, task, ended };
}

describe("PeriodicTask", () => {
  test("waits one period after each end", async () => {
    const { clock, turns, ended } = setUp();
    clock.advance(3000);
    expect(turns).toEqual([1000]);
    await ended();
    clock.advance(1000);
    expect(turns).toEqual([1000, 4000]);
  });

  test("derives the period from the duration of the last turn", async () => {
    const { clock, turns, settings, ended } = setUp();
    settings.lengths = 10;
    clock.advance(1000);
    clock.advance(200);
    await ended();
    clock.advance(2999);
    expect(turns).toEqual([1000]);
    clock.advance(1);
    expect(turns).toEqual([1000, 4200]);
  });

  test("uses a changed period at once, also during a turn", async () => {
    const { clock, turns, settings, task, ended } = setUp();
    settings.period = 100;
    task.periodChanged();
    clock.advance(100);
    settings.period = 10;
    task.periodChanged();
    clock.advance(50);
    expect(turns, "one turn at a time").toEqual([100]);
    await ended();
    clock.advance(10);
    expect(turns).toEqual([100, 160]);
  });

  test("does not restart the wait if the period stays", () => {
    const { clock, turns, task } = setUp();
    clock.advance(999);
    task.periodChanged();
    clock.advance(1);
    expect(turns).toEqual([1000]);
  });

  test("does nothing after stop()", async () => {
    const { clock, turns, task, ended } = setUp();
    clock.advance(1000);
    task.stop();
    await ended();
    task.periodChanged();
    clock.advance(60_000);
    expect([turns, clock.timers]).toEqual([[1000], 0]);
  });
});
