/** A timer that was started; `cancel` is harmless when it has fired. */
export interface Timer {
  cancel(): void;
}

/** The only way to time for code that waits, so that tests can own it. */
export interface Clock {
  /** Wall clock, milliseconds since 1970-01-01 UTC. */
  now(): number;
  /** Runs `callback` once, `milliseconds` from now. Does not keep the process alive by itself. */
  after(milliseconds: number, callback: () => void): Timer;
}
