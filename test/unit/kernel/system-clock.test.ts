import { afterEach, expect, test, vi } from "vitest";
import { systemClock } from "../../../src/kernel/system-clock.ts";

afterEach(() => {
  vi.useRealTimers();
});

test("a timer beyond the maximum of Node.js does not fire at once", () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  let fired = 0;
  systemClock.after(3_000_000_000, () => fired++);
  vi.advanceTimersByTime(2_000_000_000);
  expect(fired).toBe(0);
  vi.advanceTimersByTime(1_000_000_000);
  expect(fired).toBe(1);
});
