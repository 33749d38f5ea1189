import { type Clock, type Timer, wallTime } from "../base/clock.ts";

/**
 * Limits of the adaptive pause, milliseconds, and its length in durations of the run. With a longer pause, a
 * tenant with expensive changes delayed everybody by another second.
 */
const MIN_PAUSE = 10;
const MAX_PAUSE = 250;
const PAUSE_FACTOR = 4;

/** First and longest pause before a failed run is retried; the cause may be transient. Milliseconds. */
const FIRST_RETRY = 500;
const MAX_RETRY = 30_000;

/** Number of successful runs of which the shortest counts as the cost of a run. */
const JUDGED_RUNS = 3;

/** Does the work and returns whether it succeeded. Must not reject. */
export type Run = () => Promise<boolean>;

/** How to run. */
export interface RunRequest {
  /** Whether to run immediately, even within the configured interval; false if absent. */
  readonly isUrgent?: boolean;
}

/**
 * Runs something on request: immediately if idle, then at most once per period. All requests during a run
 * lead to one more run. A failed run is retried with back-off until one succeeds. After kube-proxy's
 * BoundedFrequencyRunner with retries (k8s.io/kubernetes/pkg/util/async).
 */
export class BoundedFrequencyRunner {
  readonly #clock: Clock;
  #run: Run | undefined;
  readonly #minPeriodMs: () => number;
  /**
   * The next run. All times except that of the last request are on the monotonic clock: health depends on
   * them.
   */
  #due: { readonly at: number; readonly timer: Timer } | undefined;
  /** The oldest request that no run has begun to answer. */
  #requestedAt: number | undefined;
  /** Whether such a request is urgent. */
  #isUrgent = false;
  /** On the wall clock, for display. */
  #lastRequestedAt: number | undefined;
  /** The oldest request that the current run answers. */
  #runningFor: number | undefined;
  /** Resolves when the last run has ended. */
  #ended: Promise<void> = Promise.resolve();
  #failures = 0;
  #lastRun = { startedAt: Number.NEGATIVE_INFINITY, endedAt: Number.NEGATIVE_INFINITY };
  /** Durations of the last successful runs, without the first one, which renders everything. Milliseconds. */
  #durations: readonly number[] = [];
  #hasSucceeded = false;

  /**
   * @param minPeriodMs returns the minimum time between the starts of two runs, milliseconds. With 0, the
   * pause after each run is four times the shortest of the last three durations, from 10 ms to 0.25 s, so
   * that runs take about 20 % of the time. The shortest one, because a run may have waited for a processor.
   * The first run renders everything and does not count.
   */
  constructor(clock: Clock, minPeriodMs: () => number) {
    this.#clock = clock;
    this.#minPeriodMs = minPeriodMs;
  }

  /** Sets the work to do. Requests before this are kept. */
  start(run: Run): void {
    this.#run = run;
    if (this.#requestedAt !== undefined) this.#schedule(this.#clock.monotonic());
  }

  /**
   * Time of the oldest request that waits for a successful run, milliseconds since 1970; undefined if none
   * waits. Derived from the monotonic clock: now minus this time is the wait, even if the wall clock was set
   * meanwhile.
   */
  get pendingSince(): number | undefined {
    const at = this.#runningFor ?? this.#requestedAt;
    return at === undefined ? undefined : wallTime(this.#clock, at);
  }

  /** When a run was last requested, milliseconds since 1970. */
  get lastRequestedAt(): number | undefined {
    return this.#lastRequestedAt;
  }

  /** Requests a run, as soon as the interval allows or urgently. After a failure, back-off applies. */
  request({ isUrgent = false }: RunRequest = {}): void {
    this.#requestedAt ??= this.#clock.monotonic();
    this.#lastRequestedAt = this.#clock.now();
    this.#isUrgent ||= isUrgent;
    if (this.#runningFor === undefined && this.#failures === 0) this.#schedule(this.#nextStart());
  }

  /** Starts no more runs; resolves when the current one has ended. */
  async stop(): Promise<void> {
    this.#run = undefined;
    this.#due?.timer.cancel();
    await this.#ended;
  }

  #schedule(at: number): void {
    const run = this.#run;
    if (run === undefined || (this.#due !== undefined && this.#due.at <= at)) return;
    this.#due?.timer.cancel();
    const timer = this.#clock.after(Math.max(0, at - this.#clock.monotonic()), () => {
      this.#due = undefined;
      this.#ended = this.#perform(run);
    });
    this.#due = { at, timer };
  }

  async #perform(run: Run): Promise<void> {
    const startedAt = this.#clock.monotonic();
    const requestedAt = this.#requestedAt ?? startedAt;
    this.#runningFor = requestedAt;
    this.#requestedAt = undefined;
    this.#isUrgent = false;
    const succeeded = await run();
    const endedAt = this.#clock.monotonic();
    this.#runningFor = undefined;
    this.#lastRun = { startedAt, endedAt };
    if (!succeeded) {
      this.#failures++;
      this.#requestedAt = requestedAt;
      this.#schedule(endedAt + Math.min(MAX_RETRY, FIRST_RETRY * 2 ** (this.#failures - 1)));
      return;
    }
    this.#failures = 0;
    if (this.#hasSucceeded) this.#durations = [...this.#durations, endedAt - startedAt].slice(-JUDGED_RUNS);
    this.#hasSucceeded = true;
    if (this.#requestedAt !== undefined) this.#schedule(this.#nextStart());
  }

  #nextStart(): number {
    if (this.#isUrgent) return this.#clock.monotonic();
    const { startedAt, endedAt } = this.#lastRun;
    const minPeriodMs = this.#minPeriodMs();
    if (minPeriodMs > 0) return startedAt + minPeriodMs;
    const shortest = this.#durations.length === 0 ? 0 : Math.min(...this.#durations);
    return endedAt + Math.min(MAX_PAUSE, Math.max(MIN_PAUSE, PAUSE_FACTOR * shortest));
  }
}
