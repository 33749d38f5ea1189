import { type Clock, type Timer, wallTime } from "../base/clock.ts";

/** The pace of a {@link BoundedFrequencyRunner}. Milliseconds. */
export interface SyncInterval {
  /**
   * At least between the starts of two runs. `adaptive`: after a run, four times as long as the shortest of the last
   * three took, within 10 ms and 0.25 s, so that runs take some 20 % of the time. One run alone may have waited for a
   * processor, and the first one of all does not count: it does everything at once.
   */
  readonly minPeriodMs: number | "adaptive";
  /** After a failed run; doubled for each further failure, up to `maxRetryMs`. */
  readonly firstRetryMs: number;
  readonly maxRetryMs: number;
}

/**
 * Limits of the adaptive pause after a run, and its length in lengths of the run. With a longer one, a tenant whose changes take
 * long made everybody wait for a second more.
 */
const MIN_PAUSE = 10;
const MAX_PAUSE = 250;
const PAUSE_FACTOR = 4;

/** Of so many runs that succeeded, the shortest tells what a run costs. */
const JUDGED_RUNS = 3;

/** Does the work; true when it succeeded. Must not reject. */
export type Run = () => Promise<boolean>;

/**
 * Runs something on request: at once when idle, then at most once per period. All requests during a run make one
 * more run. A failed run is retried with back-off until one succeeds. kube-proxy's BoundedFrequencyRunner with retries
 * (k8s.io/kubernetes/pkg/util/async).
 */
export class BoundedFrequencyRunner {
  readonly #clock: Clock;
  #run: Run | undefined;
  #interval: SyncInterval;
  #timer: Timer | undefined;
  /** When the timer fires, on the monotonic clock, as all times but the last request's: health is judged by them. */
  #timerAt = 0;
  #requestedAt: number | undefined;
  /** On the wall clock: it is shown. */
  #lastRequestedAt: number | undefined;
  /** The first request that the current run answers. */
  #runningFor: number | undefined;
  #running = false;
  #stopped = false;
  #failures = 0;
  #lastRun = { startedAt: Number.NEGATIVE_INFINITY, endedAt: Number.NEGATIVE_INFINITY };
  /** Of the last runs that succeeded, milliseconds. Without the first, which does everything at once. */
  #lengths: readonly number[] = [];
  #hasSucceeded = false;
  #onIdle: (() => void)[] = [];

  constructor(clock: Clock, interval: SyncInterval) {
    this.#clock = clock;
    this.#interval = interval;
  }

  /** Sets the work to do. Requests before this are kept. */
  start(run: Run): void {
    this.#run = run;
    if (this.#requestedAt !== undefined) this.#schedule(this.#clock.monotonic());
  }

  /** Takes effect with the next run. */
  setInterval(interval: SyncInterval): void {
    this.#interval = interval;
  }

  /**
   * Since when a request has waited for a successful run, milliseconds since 1970; undefined when none does. It has waited
   * for the time from then to now, also when the wall clock was set meanwhile.
   */
  get pendingSince(): number | undefined {
    return this.#wallTime(this.#runningFor ?? this.#requestedAt);
  }

  /** When a run was last requested, milliseconds since 1970. */
  get lastRequestedAt(): number | undefined {
    return this.#lastRequestedAt;
  }

  /** Requests a run as soon as the interval allows; `urgent`: at once. After a failure the back-off decides. */
  request(urgent = false): void {
    if (this.#stopped) return;
    this.#requestedAt ??= this.#clock.monotonic();
    this.#lastRequestedAt = this.#clock.now();
    if (this.#run === undefined || this.#running || this.#failures > 0) return;
    this.#schedule(urgent ? this.#clock.monotonic() : this.#nextStart());
  }

  /** Starts no more runs; resolves when the current one has ended. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#timer?.cancel();
    if (this.#running) await new Promise<void>((resolve) => this.#onIdle.push(resolve));
  }

  #wallTime(at: number | undefined): number | undefined {
    return at === undefined ? undefined : wallTime(this.#clock, at);
  }

  #schedule(at: number): void {
    if (this.#timer !== undefined && this.#timerAt <= at) return;
    this.#timer?.cancel();
    this.#timerAt = at;
    this.#timer = this.#clock.after(Math.max(0, at - this.#clock.monotonic()), () => {
      this.#timer = undefined;
      void this.#start();
    });
  }

  async #start(): Promise<void> {
    if (this.#stopped || this.#running || this.#run === undefined) return;
    this.#running = true;
    const startedAt = this.#clock.monotonic();
    this.#runningFor = this.#requestedAt ?? startedAt;
    this.#requestedAt = undefined;
    this.#ended(startedAt, await this.#run());
  }

  #ended(startedAt: number, succeeded: boolean): void {
    this.#running = false;
    this.#lastRun = { startedAt, endedAt: this.#clock.monotonic() };
    if (succeeded) this.#judge(this.#lastRun.endedAt - startedAt);
    if (!succeeded) this.#requestedAt = this.#runningFor;
    this.#runningFor = undefined;
    for (const resolve of this.#onIdle.splice(0)) resolve();
    if (this.#stopped) return;
    this.#failures = succeeded ? 0 : this.#failures + 1;
    if (!succeeded) this.#schedule(this.#clock.monotonic() + this.#retryDelay());
    else if (this.#requestedAt !== undefined) this.#schedule(this.#nextStart());
  }

  #judge(length: number): void {
    if (this.#hasSucceeded) this.#lengths = [...this.#lengths, length].slice(-JUDGED_RUNS);
    this.#hasSucceeded = true;
  }

  #nextStart(): number {
    const { startedAt, endedAt } = this.#lastRun;
    const { minPeriodMs } = this.#interval;
    if (minPeriodMs !== "adaptive") return startedAt + minPeriodMs;
    const shortest = this.#lengths.length === 0 ? 0 : Math.min(...this.#lengths);
    return endedAt + Math.min(MAX_PAUSE, Math.max(MIN_PAUSE, PAUSE_FACTOR * shortest));
  }

  #retryDelay(): number {
    return Math.min(this.#interval.maxRetryMs, this.#interval.firstRetryMs * 2 ** (this.#failures - 1));
  }
}
