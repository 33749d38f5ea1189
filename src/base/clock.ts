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
