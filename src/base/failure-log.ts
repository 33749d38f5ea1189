import type { Clock } from "./clock.ts";
import type { LogFields, Logger } from "./logger.ts";

/** How a {@link FailureLog} logs. */
export interface FailureLogParts {
  readonly logger: Logger;
  readonly clock: Clock;
  /** The level of a failure; repetitions are logged at debug level, the end of the failures at info. */
  readonly level?: "warn" | "error";
  /** The message of a failure: "cannot read the files". */
  readonly failed: string;
  /** The message of the first success after failures: "the files can be read again". */
  readonly recovered: string;
}

/** So many reasons are logged until a success: some messages have a part that differs each time. */
const MOST_REASONS = 10;

/**
 * Logs the failures of something that is tried again and again: until it succeeds, each reason once; then how many
 * failures there were and for how long.
 */
export class FailureLog {
  readonly #parts: FailureLogParts;
  readonly #reasons = new Set<string>();
  #count = 0;
  /** When the first failure came, on the monotonic clock. */
  #since = 0;

  constructor(parts: FailureLogParts) {
    this.#parts = parts;
  }

  /** Whether the last try failed. */
  get isFailing(): boolean {
    return this.#count > 0;
  }

  /** Logs a failure with its reason as the field `error`, and further fields. */
  add(reason: string, fields: LogFields = {}): void {
    const { logger, clock, level = "warn", failed } = this.#parts;
    if (this.#count++ === 0) this.#since = clock.monotonic();
    const all = { error: reason, ...fields };
    if (this.#reasons.has(reason) || this.#reasons.size >= MOST_REASONS) {
      logger.debug(all, failed);
      return;
    }
    this.#reasons.add(reason);
    logger[level](all, `${failed} (logged once)`);
  }

  /** Logs the end of the failures, with further fields, if there were any since the last success. */
  end(fields: LogFields = {}): void {
    if (this.#count === 0) return;
    const { logger, clock, recovered } = this.#parts;
    logger.info(
      { ...fields, failed: this.#count, seconds: Math.round(clock.monotonic() - this.#since) / 1000 },
      recovered,
    );
    this.#count = 0;
    this.#reasons.clear();
  }
}
