/** A started timer. `cancel` does nothing after it has fired. */
export interface Timer {
  cancel(): void;
}

/** The source of time for code that waits, so that tests can control it. */
export interface Clock {
  /**
   * Wall clock, milliseconds since 1970-01-01 UTC, for times that are displayed. Jumps when it is set, also
   * by NTP.
   */
  now(): number;
  /** Monotonic clock, milliseconds, for durations and deadlines. Never jumps. */
  monotonic(): number;
  /** Calls `callback` once after `milliseconds`. Does not keep the process running. */
  after(milliseconds: number, callback: () => void): Timer;
}

/**
 * Converts a time of the monotonic clock to the wall clock, so that its distance from now is correct even if
 * the wall clock was set in between.
 * @param at milliseconds on the monotonic clock
 * @returns whole milliseconds since 1970
 */
export function wallTime(clock: Pick<Clock, "now" | "monotonic">, at: number): number {
  return Math.round(clock.now() - (clock.monotonic() - at));
}
