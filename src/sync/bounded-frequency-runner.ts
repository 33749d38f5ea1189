import type { Clock, Timer } from "../base/clock.ts";

/** When a {@link BoundedFrequencyRunner} runs. Milliseconds. */
export interface SyncInterval {
  /** Between the starts of two runs, at least. */
  readonly minPeriodMs: number;
  /** After a failed run; doubled for each further failure, up to `maxRetryMs`. */
  readonly firstRetryMs: number;
  readonly maxRetryMs: number;
}

/**
 * Runs something when asked: at once when idle, then at most once per period; what is asked for during a run is
 * one more run. A run that fails is retried with back-off until one succeeds.
 */
export class BoundedFrequencyRunner {
  readonly #clock: Clock;
  readonly #run: () => Promise<boolean>;
  #rhythm: SyncInterval;
  #timer: Timer | undefined;
  #timerAt = 0;
  #running = false;
  #wanted = false;
  #stopped = false;
  #failures = 0;
  #lastStart = Number.NEGATIVE_INFINITY;
  #idle: (() => void)[] = [];

  /** @param run true when it succeeded; must not reject */
  constructor(clock: Clock, rhythm: SyncInterval, run: () => Promise<boolean>) {
    this.#clock = clock;
    this.#rhythm = rhythm;
    this.#run = run;
  }

  /** Takes over another rhythm, from the next run on. */
  setSyncInterval(rhythm: SyncInterval): void {
    this.#rhythm = rhythm;
  }

  /** Asks for a run, as soon as the rhythm allows one; `urgent`: at once. While runs fail, the back-off decides. */
  request(urgent = false): void {
    if (this.#stopped) return;
    this.#wanted = true;
    if (this.#running || this.#failures > 0) return;
    this.#schedule(urgent ? this.#clock.now() : this.#lastStart + this.#rhythm.minPeriodMs);
  }

  /** No run starts any more; resolves when the one that is under way has ended. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#timer?.cancel();
    if (this.#running) await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  #schedule(at: number): void {
    if (this.#timer !== undefined && this.#timerAt <= at) return;
    this.#timer?.cancel();
    this.#timerAt = at;
    this.#timer = this.#clock.after(Math.max(0, at - this.#clock.now()), () => {
      this.#timer = undefined;
      void this.#start();
    });
  }

  async #start(): Promise<void> {
    if (this.#stopped || this.#running) return;
    this.#running = true;
    this.#wanted = false;
    this.#lastStart = this.#clock.now();
    const succeeded = await this.#run();
    this.#running = false;
    for (const resolve of this.#idle.splice(0)) resolve();
    if (this.#stopped) return;
    this.#failures = succeeded ? 0 : this.#failures + 1;
    if (!succeeded) this.#schedule(this.#clock.now() + this.#retryDelay());
    else if (this.#wanted) this.#schedule(this.#lastStart + this.#rhythm.minPeriodMs);
  }

  #retryDelay(): number {
    return Math.min(this.#rhythm.maxRetryMs, this.#rhythm.firstRetryMs * 2 ** (this.#failures - 1));
  }
}
