import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/logger.ts";
import { ApiFailure, asApiFailure, failureOfErrorEvent } from "../client/api-failure.ts";
import type { ApiClient } from "../client/client.ts";
import { TimedRequest } from "../client/timed-request.ts";
import { metadataOf } from "../decode/metadata.ts";
import { ObjectStore, type Staged } from "../object-store.ts";
import type { ResourceName, SourceHandler, SourceState } from "../source.ts";
import type { SourceStatus } from "../source-status.ts";
import type { Availability } from "./availability.ts";
import { type FirstState, listObjects } from "./list.ts";
import { type Resource, withoutFieldSelector } from "./resources.ts";
import { RetryPacing, type Wait } from "./retry-pacing.ts";
import { type WatchEvent, watchEvents } from "./watch.ts";

/**
 * Time without data after which a list, or an unanswered watch, counts as hung. API servers time out after 60
 * s. Milliseconds.
 */
const ANSWER_SILENCE = 60_000;

/**
 * Shortest and longest `timeoutSeconds` of a watch. It is drawn, so that watches do not end in step. Seconds.
 */
const SHORTEST_WATCH = 300;
const LONGEST_WATCH = 600;

/** A watch that was open for this long succeeded: there is no back-off after it. Milliseconds. */
const STABLE_AFTER = 5_000;

/** Period of the checks whether a resource that is not served has become available. Milliseconds. */
const ABSENT_RECHECK = 600_000;

/**
 * Time for which an implausible list must be repeated before it is accepted, and longest pause between these
 * repetitions. Milliseconds.
 */
const DOUBT = 60_000;
const DOUBT_RECHECK = 15_000;

/** The API server that several reflectors follow, and how they do so. */
export interface FollowedServer {
  readonly client: Pick<ApiClient, "request" | "closeIdle">;
  readonly clock: Clock;
  /** Returns numbers in [0, 1). */
  readonly random: () => number;
  readonly logger: Logger;
  /**
   * True if an earlier process left rules in the kernel: then empty first lists are doubtful, too. See
   * {@link Reflector.#checkPlausible}.
   */
  readonly hasRules?: boolean;
  /** Called for the first of several lists that are not accepted. */
  readonly onImplausible?: (resource: ResourceName) => void;
}

/** Options of a {@link Reflector}. */
export interface ReflectorOptions<T> extends FollowedServer {
  readonly resource: Resource;
  /** As in {@link ObjectStoreOptions}. */
  readonly transform: (object: unknown) => T | undefined;
  readonly handler: SourceHandler<T>;
  /** Shared by the reflectors of one API server, as is `firstState`. */
  readonly availability: Availability;
  readonly firstState: FirstState;
}

/**
 * Keeps a copy of one resource of an API server: lists it, watches it, and retries both forever.
 * Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
 */
export class Reflector<T> {
  readonly #options: ReflectorOptions<T>;
  readonly #store: ObjectStore<T>;
  readonly #status: SourceStatus;
  readonly #pacing: RetryPacing;
  /** The requested resource: that of the options, or one with fewer selectors. */
  #resource: Resource;
  /** The last resourceVersion that is known, "" for none. */
  #version = "";
  #isListDue = true;
  /** The logged reason of the present outage; "" while the resource is followed. */
  #loggedReason = "";
  #isFirstWatchSinceList = false;
  /** Time of the first implausible list, by the monotonic clock; undefined after a plausible one. */
  #doubtfulSince: number | undefined;
  #stopped = false;
  #request: TimedRequest | undefined;
  /** Whether the server has begun to answer the last request. */
  #wasAnswered = false;

  constructor(options: ReflectorOptions<T>) {
    this.#options = options;
    this.#resource = options.resource;
    const { clock, random, availability } = options;
    this.#pacing = new RetryPacing(clock, random, availability);
    this.#store = new ObjectStore({ ...options, resource: options.resource.name });
    this.#status = this.#store.status;
  }

  /** Starts. Call it once. */
  start(): void {
    void this.#run();
  }

  /** Stops for good: cancels the pending request and timer. The handler is not called afterwards. */
  stop(): void {
    this.#stopped = true;
    this.#store.close();
    this.#request?.abort(new ApiFailure("connection", "stopped"));
    this.#pacing.stop();
  }

  state(): SourceState {
    return this.#store.state();
  }

  async #run(): Promise<void> {
    while (!this.#stopped) await this.#pacing.pause(await this.#step());
  }

  /** Performs one list or one watch. Resolves with how long to wait afterwards. Never rejects. */
  async #step(): Promise<Wait> {
    try {
      if (!this.#isListDue) return await this.#watch(this.#version);
      await this.#list();
      return 0;
    } catch (error) {
      return this.#stopped ? 0 : this.#recover(asApiFailure(error));
    }
  }

  async #list(): Promise<void> {
    const staged: Staged<T> = new Map();
    // With NotOlderThan, the server answers from its cache.
    const state =
      this.#version === ""
        ? await this.#options.firstState.query(() => this.#newRequest())
        : { resourceVersion: this.#version, resourceVersionMatch: "NotOlderThan" };
    const take = (object: unknown) => this.#store.stage(staged, object);
    const version = await listObjects(this.#resource, this.#newRequest(), take, state);
    this.#checkPlausible(staged);
    this.#version = version;
    this.#isListDue = false;
    this.#isFirstWatchSinceList = true;
    this.#status.listed();
    this.#options.logger.debug({ resource: this.#resource.name, objects: staged.size }, "listed");
    this.#store.replace(staged);
  }

  /**
   * Rejects a list without any known object, or an empty first list if an earlier process left rules, until
   * it has been repeated for a minute. More likely than the loss of all Services is an API server that
   * answers from an empty database.
   */
  #checkPlausible(staged: Staged<T>): void {
    const { clock, resource, hasRules = false, onImplausible } = this.#options;
    const isEmptyFirst = hasRules && !this.#status.synced && staged.size === 0;
    const isDoubtful =
      resource.alwaysExists !== undefined &&
      (isEmptyFirst || this.#store.lacksAll(staged, resource.alwaysExists));
    if (!isDoubtful) {
      this.#doubtfulSince = undefined;
      return;
    }
    const now = clock.monotonic();
    if (this.#doubtfulSince === undefined) onImplausible?.(resource.name);
    this.#doubtfulSince ??= now;
    if (now - this.#doubtfulSince >= DOUBT) return;
    const reason = isEmptyFirst
      ? "the first list is empty, although an earlier process left rules"
      : `the list has none of the known objects, not even ${resource.alwaysExists}`;
    throw new ApiFailure("implausible", `${reason}; it is accepted if it is repeated for a minute`);
  }

  async #watch(version: string): Promise<Wait> {
    const { clock, random } = this.#options;
    const seconds = SHORTEST_WATCH + Math.floor(random() * (LONGEST_WATCH - SHORTEST_WATCH + 1));
    let newsCame = false;
    let openedAt = Number.POSITIVE_INFINITY;
    let isStable = false;
    try {
      await watchEvents(this.#newRequest(), this.#resource, version, {
        seconds,
        onOpen: () => {
          openedAt = clock.monotonic();
          this.#status.followed();
          // The first watch after a list works once it opens. A later one may open and then answer 410: only
          // an event shows that it works (`#take`).
          if (this.#isFirstWatchSinceList) this.#logFollowing();
          this.#isFirstWatchSinceList = false;
        },
        take: (event) => {
          if (this.#take(event)) newsCame = true;
        },
      });
    } finally {
      // Also after a failure: a watch that was open for long starts the back-off anew.
      isStable = clock.monotonic() - openedAt >= STABLE_AFTER;
      if (isStable) this.#pacing.reset();
    }
    if (isStable) return 0;
    if (!newsCame) this.#status.countError("short-watch");
    return this.#pacing.afterShortWatch(newsCame);
  }

  /** Returns whether an event changed an object or the resourceVersion. */
  #take({ type, object }: WatchEvent): boolean {
    if (type === "ERROR") throw failureOfErrorEvent(object);
    this.#logFollowing();
    this.#status.countEvent(type.toLowerCase() as Lowercase<typeof type>);
    const store = this.#store;
    const changed = type !== "BOOKMARK" && (type === "DELETED" ? store.remove(object) : store.upsert(object));
    const version = metadataOf(object).resourceVersion;
    const advanced = typeof version === "string" && version !== "" && version !== this.#version;
    if (advanced) this.#version = version;
    return changed || advanced;
  }

  /** Decides what to request after a failure, and when. */
  #recover(failure: ApiFailure): Wait {
    const { client, resource, logger } = this.#options;
    // The other open connections may be dead, too.
    if (failure.kind === "timeout") client.closeIdle();
    // `#isListDue` still tells which step failed. A server that was restored from a backup may never reach
    // our version: list without one.
    const listFailed = this.#isListDue;
    const isTooNew = failure.status === 504;
    if (listFailed && (failure.relist || isTooNew)) this.#version = "";
    if (failure.relist) this.#isListDue = true;
    // Only before the first list: a server that has listed with the selector rejects something else.
    const mayRejectSelector = failure.status === 400 && !this.#status.synced;
    const unselected = mayRejectSelector ? withoutFieldSelector(this.#resource) : undefined;
    if (unselected !== undefined) {
      this.#resource = unselected;
      logger.info(
        { resource: resource.name, reason: failure.message },
        "this API server cannot select by that field (before Kubernetes 1.31); asking for all",
      );
      return 0;
    }
    if (failure.status === 404 && resource.optional) {
      this.#acceptAbsence(failure);
      return this.#pauseOf(ABSENT_RECHECK);
    }
    // Authorization is checked before routing: an older cluster whose roles lack the resource answers 403,
    // not 404. It may be allowed later, so it counts as absent and is retried as a failure.
    if (failure.kind === "forbidden" && resource.optional && !this.#status.synced)
      this.#acceptAbsence(failure);
    const wait =
      failure.kind === "implausible"
        ? this.#pauseOf(DOUBT_RECHECK)
        : this.#pacing.afterFailure(failure, this.#wasAnswered);
    this.#logFailure(failure, wait);
    this.#status.failed(failure.kind, failure.message);
    return wait;
  }

  /** A pause of half to all of a time, so that nodes do not ask in step. */
  #pauseOf(longest: number): number {
    return longest * (0.5 + this.#options.random() / 2);
  }

  /** Follows an optional resource as an empty one while it is not served. */
  #acceptAbsence({ kind, message: reason }: ApiFailure): void {
    const { resource, logger } = this.#options;
    if (!this.#status.absent) {
      const why = kind === "forbidden" ? "not allowed to these credentials" : "not served by this API server";
      logger.info({ resource: resource.name, reason }, `${why}; continuing without it`);
    }
    this.#status.absentResource();
    this.#store.replace(new Map());
  }

  #logFollowing(): void {
    if (this.#loggedReason === "") return;
    this.#loggedReason = "";
    this.#options.logger.info({ resource: this.#resource.name }, "following the API server again");
  }

  /**
   * Logs a failure, and when the request is repeated. An outage is one warning: a 410 after it, because the
   * version has expired meanwhile, is only logged at the level debug.
   */
  #logFailure({ kind, message: reason }: ApiFailure, wait: Wait): void {
    const waits = wait === "turn" ? {} : { waitMs: Math.round(wait) };
    const fields = { resource: this.#resource.name, kind, reason, ...waits };
    const isKnown = this.#loggedReason === reason || (this.#loggedReason !== "" && kind === "gone");
    if (!isKnown) this.#loggedReason = reason;
    const then = this.#status.synced ? "the last known objects stay in use" : "none are known yet";
    this.#options.logger[isKnown ? "debug" : "warn"](fields, `cannot follow the API server; ${then}`);
  }

  /** Returns a new request, which {@link stop} aborts. */
  #newRequest(): TimedRequest {
    const { client, clock } = this.#options;
    this.#wasAnswered = false;
    const request = new TimedRequest(client, clock, ANSWER_SILENCE, () => {
      this.#wasAnswered = true;
      this.#pacing.answered();
    });
    this.#request = request;
    if (this.#stopped) request.abort(new ApiFailure("connection", "stopped"));
    return request;
  }
}
