import type { Clock } from "../base/clock.ts";

/** The machine's own clock. */
export const systemClock: Clock = {
  now: () => Date.now(),
  after(milliseconds, callback) {
    const timer = setTimeout(callback, milliseconds);
    timer.unref();
    return { cancel: () => clearTimeout(timer) };
  },
};
