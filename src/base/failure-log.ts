import type { Clock } from "./clock.ts";
import type { LogFields, Logger } from "./logger.ts";

/** So many reasons are logged until a success: some messages have a part that differs each time. */
const MOST_REASONS = 10;

/**
 * Logs the failures of something that is tried again and again: until it succeeds, each reason once; then how many
 * failures there were and for how long.
 */
export class FailureLog {
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #failed: string;
  readonly #recovered: string;
  readonly #level: "warn" | "error";
  readonly #reasons = new Set<string>();
  #count = 0;
  /** When the first failure came, on the monotonic clock. */
  #since = 0;

  /**
   * @param failed the message of a failure: "cannot read the files"
   * @param recovered the message of the first success after failures: "the files can be read again"
   * @param level of a failure; repetitions are logged at debug level, the end of the failures at info
   */
  constructor(
    logger: Logger,
    clock: Clock,
    failed: string,
    recovered: string,
    level: "warn" | "error" = "warn",
  ) {
    this.#logger = logger;
    this.#clock = clock;
    this.#failed = failed;
    this.#recovered = recovered;
    this.#level = level;
  }

  /** Whether the last try failed. */
  get isFailing(): boolean {
    return this.#count > 0;
  }

  /** Logs a failure with its reason as the field `error`, and further fields. */
  add(reason: string, fields: LogFields = {}): void {
    if (this.#count++ === 0) this.#since = this.#clock.monotonic();
    const all = { error: reason, ...fields };
    if (this.#reasons.has(reason) || this.#reasons.size >= MOST_REASONS) {
      this.#logger.debug(all, this.#failed);
      return;
    }
    this.#reasons.add(reason);
    this.#logger[this.#level](all, `${this.#failed} (logged once)`);
  }

  /** Logs the end of the failures, with further fields, if there were any since the last success. */
  end(fields: LogFields = {}): void {
    if (this.#count === 0) return;
    const seconds = Math.round(this.#clock.monotonic() - this.#since) / 1000;
    this.#logger.info({ ...fields, failed: this.#count, seconds }, this.#recovered);
    this.#count = 0;
    this.#reasons.clear();
  }
}

/** So many lines of one kind are logged within one window, milliseconds. */
const MAX_LINES = 20;
const WINDOW = 600_000;

/** Keeps lines of one kind from flooding the log, as when another program changes our rules again and again. */
export class LogLimit {
  #startedAt = Number.NEGATIVE_INFINITY;
  #lines = 0;

  /**
   * Counts a line that is due at `now`, milliseconds.
   * @returns the fields to log it with, which announce a pause in the last line before one; undefined in the pause
   */
  fields(now: number): Readonly<Record<string, string>> | undefined {
    if (now - this.#startedAt >= WINDOW) {
      this.#startedAt = now;
      this.#lines = 0;
    }
    this.#lines++;
    if (this.#lines > MAX_LINES) return undefined;
    return this.#lines === MAX_LINES ? { hint: "further ones are not logged for some minutes" } : {};
  }
}
