import { messageOf } from "../../base/errors.ts";
import type { Logger } from "../../base/logger.ts";
import type { ApiFailure } from "../client/api-failure.ts";
import type { SourceErrorKind } from "../source.ts";
import { SourceStatus } from "../source-status.ts";

/** What a reflector tells: the score it keeps, and the log. */
export class ReflectorReport {
  readonly status = new SourceStatus();
  readonly #resource: string;
  readonly #logger: Logger;

  constructor(resource: string, logger: Logger) {
    this.#resource = resource;
    this.#logger = logger;
  }

  /** A list was complete. `now` is milliseconds since 1970. */
  listed(objects: number, now: number): void {
    this.status.listed(now);
    this.#logger.debug({ resource: this.#resource, objects }, "listed");
  }

  /** The server has accepted a watch. */
  open(): void {
    if (this.status.failure !== "")
      this.#logger.info({ resource: this.#resource }, "the API server can be followed again");
    this.status.setFailure("");
  }

  /** A list or a watch failed; the next attempt is `wait` milliseconds away. An outage of hours is one warning. */
  failure(failure: ApiFailure, wait: number): void {
    this.status.fault(failure.kind);
    const fields = { resource: this.#resource, kind: failure.kind, reason: failure.message, waitMs: Math.round(wait) };
    const known = this.status.failure === failure.message;
    this.#logger[known ? "debug" : "warn"](fields, "cannot follow the API server; what is known stays in force");
    this.status.setFailure(failure.message);
  }

  /** The resource is not served, or not to us, and that is accepted. */
  absent(failure: ApiFailure): void {
    if (!this.status.absent)
      this.#logger.info({ resource: this.#resource, reason: failure.message }, "not served here; going on without");
    this.status.missing();
  }

  /** Something is wrong with one object, or with the consumer when given it. */
  fault(kind: SourceErrorKind, key: string, error: unknown): void {
    this.status.fault(kind);
    this.#logger.warn({ resource: this.#resource, key, kind, reason: messageOf(error) }, "an object cannot be used");
  }
}
