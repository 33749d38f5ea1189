import type { Clock } from "../base/clock.ts";

/** The machine's own clock. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(milliseconds, callback) {
    // A timer takes a millisecond at least.
    if (milliseconds <= 0) {
      const immediate = setImmediate(callback);
      return { cancel: () => clearImmediate(immediate) };
    }
    const timer = setTimeout(callback, milliseconds);
    timer.unref();
    return { cancel: () => clearTimeout(timer) };
  },
};
