/** A timer that was started; `cancel` is harmless when it has fired. */
export interface Timer {
  cancel(): void;
}

/** The only way to time for code that waits, so that tests can own it. */
export interface Clock {
  /** Wall clock, milliseconds since 1970-01-01 UTC: for times that are shown. It jumps when it is set, by NTP too. */
  now(): number;
  /** Milliseconds since some moment in the past: for lengths of time and for when something is due. Never jumps. */
  monotonic(): number;
  /** Runs `callback` once, `milliseconds` from now. Does not keep the process alive by itself. */
  after(milliseconds: number, callback: () => void): Timer;
}

/**
 * The wall-clock time of a moment on the monotonic clock, as the wall clock goes now: the length of time from it to now
 * is true even when the wall clock was set in between.
 * @param at milliseconds on the monotonic clock
 * @returns whole milliseconds since 1970
 */
export function wallTime(clock: Pick<Clock, "now" | "monotonic">, at: number): number {
  return Math.round(clock.now() - (clock.monotonic() - at));
}
