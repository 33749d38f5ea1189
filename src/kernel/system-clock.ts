import type { Clock } from "../base/clock.ts";

/** Maximum timer of Node.js, milliseconds; a longer one fires immediately. */
const LONGEST_TIMER = 2 ** 31 - 1;

/** The clock of this machine. Timers of more than 24.8 days fire after 24.8 days. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(milliseconds, callback) {
    // A timer takes at least a millisecond.
    if (milliseconds <= 0) {
      const immediate = setImmediate(callback);
      return { cancel: () => clearImmediate(immediate) };
    }
    const timer = setTimeout(callback, Math.min(milliseconds, LONGEST_TIMER));
    timer.unref();
    return { cancel: () => clearTimeout(timer) };
  },
};
