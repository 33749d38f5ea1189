import type { Clock } from "../base/clock.ts";

/** The longest timer of Node.js: one that is set to more fires at once. */
const LONGEST_TIMER = 2 ** 31 - 1;

/** The machine's own clock. A timer that is set to more than 24.8 days fires then. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(milliseconds, callback) {
    // A timer takes a millisecond at least.
    if (milliseconds <= 0) {
      const immediate = setImmediate(callback);
      return { cancel: () => clearImmediate(immediate) };
    }
    const timer = setTimeout(callback, Math.min(milliseconds, LONGEST_TIMER));
    timer.unref();
    return { cancel: () => clearTimeout(timer) };
  },
};
