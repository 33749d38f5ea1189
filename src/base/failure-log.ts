import type { Clock } from "./clock.ts";
import type { LogFields, Logger } from "./logger.ts";

/**
 * Maximum number of different reasons that are logged until a success; some messages have a part that always
 * differs.
 */
const MOST_REASONS = 10;

/**
 * Logs failures of a repeated operation: each reason once until it succeeds, then the number of failures and
 * their duration.
 */
export class FailureLog {
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #action: string;
  readonly #failed: string;
  readonly #level: "warn" | "error";
  readonly #reasons = new Set<string>();
  #count = 0;
  /** Time of the first failure on the monotonic clock, milliseconds. */
  #since = 0;

  /**
   * @param parts of the caller
   * @param action what fails: "read the files", for "cannot read the files" and "can read the files again"
   * @param ending what follows "cannot read the files", such as ": the last known objects stay in use"
   * @param level level of a failure; repetitions are logged at debug level, the recovery at info
   */
  constructor(
    { logger, clock }: { readonly logger: Logger; readonly clock: Clock },
    action: string,
    ending = ", retrying",
    level: "warn" | "error" = "warn",
  ) {
    this.#logger = logger;
    this.#clock = clock;
    this.#action = action;
    this.#failed = `cannot ${action}${ending}`;
    this.#level = level;
  }

  /** Whether the last attempt failed. */
  get isFailing(): boolean {
    return this.#count > 0;
  }

  /** Logs a failure, with its reason in the field `error`. */
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

  /**
   * Logs the recovery if there were failures since the last success.
   * @param message if "can … again" does not fit
   */
  end(fields: LogFields = {}, message = `can ${this.#action} again`): void {
    if (this.#count === 0) return;
    const seconds = Math.round(this.#clock.monotonic() - this.#since) / 1000;
    this.#logger.info({ ...fields, failed: this.#count, seconds }, message);
    this.#count = 0;
    this.#reasons.clear();
  }
}
