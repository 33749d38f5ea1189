import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/logger.ts";
import type { ApiFailure } from "../client/api-failure.ts";
import { SourceStatus } from "../source-status.ts";
import type { Wait } from "./retry-pacing.ts";

/** Logs and counts the events of one reflector. */
export class ReflectorLog {
  readonly status: SourceStatus;
  readonly #resource: string;
  readonly #logger: Logger;
  /** The reason that was logged last, until it was logged that the resource is followed again; "" if none. */
  #reason = "";

  constructor(resource: string, clock: Clock, logger: Logger) {
    this.status = new SourceStatus(clock);
    this.#resource = resource;
    this.#logger = logger;
  }

  /** Records a complete list. @param objects their number */
  listed(objects: number): void {
    this.status.listed();
    this.#logger.debug({ resource: this.#resource, objects }, "listed");
  }

  /**
   * Records that the server accepted a watch.
   * @param isFresh whether it continues a list that was just made; an older version may have expired, which
   * only the first event of the watch shows
   */
  open(isFresh: boolean): void {
    this.status.followed();
    if (isFresh) this.following();
  }

  /** Records that events arrive. */
  following(): void {
    if (this.#reason === "") return;
    this.#reason = "";
    this.#logger.info({ resource: this.#resource }, "following the API server again");
  }

  /**
   * Records that a list or a watch failed, and when it is retried. An outage is one warning: versions that
   * have expired meanwhile belong to it.
   */
  failure(failure: ApiFailure, wait: Wait): void {
    const waits = wait.kind === "time" ? { waitMs: Math.round(wait.milliseconds) } : {};
    const fields = { resource: this.#resource, kind: failure.kind, reason: failure.message, ...waits };
    const isKnown = this.#reason === failure.message || (this.#reason !== "" && failure.kind === "gone");
    if (!isKnown) this.#reason = failure.message;
    const then = this.status.synced ? "the last known objects stay in use" : "none are known yet";
    this.#logger[isKnown ? "debug" : "warn"](fields, `cannot follow the API server; ${then}`);
    this.status.failed(failure.kind, failure.message);
  }

  /** Records that the server does not understand a selector, and is asked without it. */
  unselective(failure: ApiFailure): void {
    const fields = { resource: this.#resource, reason: failure.message };
    this.#logger.info(
      fields,
      "this API server cannot select by that field (before Kubernetes 1.31); asking for all",
    );
  }

  /** Records that an optional resource is not served, or not to these credentials. */
  absent(failure: ApiFailure): void {
    if (!this.status.absent) {
      const why =
        failure.kind === "forbidden" ? "not allowed to these credentials" : "not served by this API server";
      const fields = { resource: this.#resource, reason: failure.message };
      this.#logger.info(fields, `${why}; continuing without it`);
    }
    this.status.absentResource();
  }
}
