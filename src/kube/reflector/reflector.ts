import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/logger.ts";
import { ApiFailure, asApiFailure, failureOfErrorEvent } from "../client/api-failure.ts";
import type { ApiClient, ApiRequest, ApiResponse } from "../client/client.ts";
import { Deadline } from "../client/deadline.ts";
import { metadataOf } from "../decode/metadata.ts";
import { ObjectStore, type Staged } from "../object-store.ts";
import type { ResourceName, SourceHandler, SourceState } from "../source.ts";
import type { Availability } from "./availability.ts";
import { type FirstState, type ListOptions, listObjects } from "./list.ts";
import { ReflectorLog } from "./reflector-log.ts";
import { type Resource, withoutFieldSelector } from "./resources.ts";
import { type BackoffLimits, DEFAULT_BACKOFF, NO_WAIT, RetryPacing, type Wait } from "./retry-pacing.ts";
import { type WatchEvent, type WatchTimings, watchEvents } from "./watch.ts";

/** Times of a reflector, in milliseconds unless noted. */
export interface ReflectorTimings extends WatchTimings {
  /** The watch's `timeoutSeconds` is drawn between these two, so that watches do not end in step. Seconds. */
  readonly watchSeconds: readonly [number, number];
  /** A watch that was open for this long succeeded: there is no back-off after it. */
  readonly stableAfter: number;
  /** The period of the checks whether a resource that is not served has become available. */
  readonly absentRecheck: number;
  /** Time for which an implausible list must be repeated before it is accepted. */
  readonly doubt: number;
  /** The longest pause between these repetitions. */
  readonly doubtRecheck: number;
  readonly backoff: BackoffLimits;
}

/** The timings of the daemon. */
export const DEFAULT_TIMINGS: ReflectorTimings = {
  answerSilence: 60_000,
  watchSilence: 75_000,
  watchSeconds: [300, 600],
  watchGrace: 30_000,
  stableAfter: 5_000,
  absentRecheck: 600_000,
  doubt: 60_000,
  doubtRecheck: 15_000,
  backoff: DEFAULT_BACKOFF,
};

/** Options of a {@link Reflector}. */
export interface ReflectorOptions<T> {
  readonly client: ApiClient;
  readonly resource: Resource;
  /** As in {@link ObjectStoreOptions}. */
  readonly transform: (object: unknown) => T | undefined;
  readonly handler: SourceHandler<T>;
  readonly clock: Clock;
  /** Returns numbers in [0, 1). */
  readonly random: () => number;
  readonly logger: Logger;
  readonly timings: ReflectorTimings;
  /** True if an earlier process left rules in the kernel: an empty first list is then implausible, too. */
  readonly hasRules: boolean;
  /** Called for the first of several implausible lists. */
  readonly onImplausible: (resource: ResourceName) => void;
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
  readonly #report: ReflectorLog;
  readonly #pacing: RetryPacing;
  /** The requested resource: that of the options, or one with fewer selectors. */
  #resource: Resource;
  /** The last resourceVersion that is known, "" for none. */
  #version = "";
  #isListDue = true;
  /** Whether no watch has begun since the last list. */
  #isFresh = false;
  /** Time of the first implausible list, by the monotonic clock; undefined after a plausible one. */
  #doubtfulSince: number | undefined;
  /** Number of watch events that changed an object or the resourceVersion. */
  #news = 0;
  #stopped = false;
  #request: Deadline | undefined;
  /** Records whether requests are answered. */
  readonly #client = { request: (request: ApiRequest) => this.#send(request) };
  /** Whether the server has begun to answer the last request. */
  #wasAnswered = false;

  constructor(options: ReflectorOptions<T>) {
    this.#options = options;
    this.#resource = options.resource;
    const { clock, random, timings, availability } = options;
    this.#pacing = new RetryPacing(clock, random, timings.backoff, availability);
    this.#report = new ReflectorLog(options.resource.name, clock, options.logger);
    this.#store = new ObjectStore({
      resource: options.resource.name,
      transform: options.transform,
      handler: options.handler,
      status: this.#report.status,
      logger: options.logger,
    });
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
    return this.#report.status.snapshot(this.#store.size);
  }

  async #run(): Promise<void> {
    while (!this.#stopped) await this.#pacing.pause(await this.#step());
  }

  async #send(request: ApiRequest): Promise<ApiResponse> {
    this.#wasAnswered = false;
    const answer = await this.#options.client.request(request);
    this.#wasAnswered = true;
    this.#pacing.answered();
    return answer;
  }

  /** Performs one list or one watch. Resolves with the event to wait for afterwards. Never rejects. */
  async #step(): Promise<Wait> {
    try {
      if (!this.#isListDue) return await this.#watch(this.#version);
      await this.#list();
      return NO_WAIT;
    } catch (error) {
      return this.#stopped ? NO_WAIT : this.#recover(asApiFailure(error));
    }
  }

  async #list(): Promise<void> {
    const { clock, timings } = this.#options;
    const staged: Staged<T> = new Map();
    const now = () => clock.now();
    const options: ListOptions = {
      client: this.#client,
      deadline: () => this.#newDeadline(),
      silence: timings.answerSilence,
      now,
    };
    // A state that is at least as new as the known one comes from the server's cache.
    const state =
      this.#version === ""
        ? await this.#options.firstState.query(options)
        : { resourceVersion: this.#version, resourceVersionMatch: "NotOlderThan" };
    const version = await listObjects(this.#resource, { ...options, state }, (object) =>
      this.#store.stage(staged, object),
    );
    this.#checkPlausible(staged);
    this.#version = version;
    this.#isListDue = false;
    this.#isFresh = true;
    this.#report.listed(staged.size);
    this.#store.replace(staged);
  }

  /**
   * Rejects a list without any known object until it has been repeated for a minute. More likely than the
   * loss of all Services is an API server that answers from an empty database.
   */
  #checkPlausible(staged: Staged<T>): void {
    const { clock, timings, resource, hasRules, onImplausible } = this.#options;
    const isEmptyFirst = hasRules && !this.#report.status.synced && staged.size === 0;
    const isDoubtful =
      resource.always !== undefined && (isEmptyFirst || this.#store.lacksAll(staged, resource.always));
    if (!isDoubtful) {
      this.#doubtfulSince = undefined;
      return;
    }
    const now = clock.monotonic();
    if (this.#doubtfulSince === undefined) onImplausible(resource.name);
    this.#doubtfulSince ??= now;
    if (now - this.#doubtfulSince >= timings.doubt) return;
    const reason = `the list has none of the known objects, not even ${resource.always}`;
    throw new ApiFailure("implausible", `${reason}; it is accepted if it is repeated for a minute`);
  }

  async #watch(version: string): Promise<Wait> {
    const { clock, random, timings } = this.#options;
    const [shortest, longest] = timings.watchSeconds;
    const seconds = shortest + Math.floor(random() * (longest - shortest + 1));
    const newsBefore = this.#news;
    let openedAt = Number.POSITIVE_INFINITY;
    let isStable = false;
    try {
      await watchEvents(
        this.#resource,
        version,
        {
          client: this.#client,
          deadline: this.#newDeadline(),
          timings,
          seconds,
          now: () => clock.now(),
          onOpen: () => {
            openedAt = clock.monotonic();
            this.#report.open(this.#isFresh);
            this.#isFresh = false;
          },
        },
        (event) => this.#take(event),
      );
    } finally {
      isStable = clock.monotonic() - openedAt >= timings.stableAfter;
      if (isStable) this.#pacing.reset();
    }
    if (isStable) return NO_WAIT;
    const newsCame = this.#news > newsBefore;
    if (!newsCame) this.#report.status.countError("short-watch");
    return this.#pacing.afterShortWatch(newsCame);
  }

  #take(event: WatchEvent): void {
    if (event.type === "ERROR") throw failureOfErrorEvent(event.object);
    this.#report.following();
    const changed = this.#apply(event);
    const version = metadataOf(event.object).resourceVersion;
    const advanced = typeof version === "string" && version !== "" && version !== this.#version;
    if (advanced) this.#version = version;
    if (changed || advanced) this.#news += 1;
  }

  #apply({ type, object }: Exclude<WatchEvent, { type: "ERROR" }>): boolean {
    this.#report.status.countEvent(type.toLowerCase() as Lowercase<typeof type>);
    if (type === "BOOKMARK") return false;
    return type === "DELETED" ? this.#store.remove(object) : this.#store.upsert(object);
  }

  /** Decides what to request after a failure, and when. */
  #recover(failure: ApiFailure): Wait {
    const { client, resource, timings } = this.#options;
    if (failure.kind === "timeout") client.closeIdle();
    // A cluster that was restored from a backup has older versions.
    if (this.#isListDue && (failure.relist || failure.tooNew)) this.#version = "";
    if (failure.relist) this.#isListDue = true;
    // A server that has listed with the selector before rejects something else.
    const isNew = failure.rejected && !this.#report.status.synced;
    const other = isNew ? withoutFieldSelector(this.#resource) : undefined;
    if (other !== undefined) {
      this.#resource = other;
      this.#report.unselective(failure);
      return NO_WAIT;
    }
    if (failure.absent && resource.optional) {
      this.#acceptAbsence(failure);
      return this.#pauseOf(timings.absentRecheck);
    }
    // Authorization is checked before routing: an older cluster whose roles lack the resource answers 403,
    // not 404.
    if (failure.kind === "forbidden" && resource.optional && !this.#report.status.synced)
      this.#acceptAbsence(failure);
    const wait: Wait =
      failure.kind === "implausible"
        ? this.#pauseOf(timings.doubtRecheck)
        : this.#pacing.afterFailure(failure, this.#wasAnswered);
    this.#report.failure(failure, wait);
    return wait;
  }

  /** A pause of half to all of a time, so that nodes do not ask in step. */
  #pauseOf(longest: number): Wait {
    return { kind: "time", milliseconds: longest * (0.5 + this.#options.random() / 2) };
  }

  /** Follows an optional resource as an empty one while it is not served. */
  #acceptAbsence(failure: ApiFailure): void {
    this.#report.absent(failure);
    this.#store.replace(new Map());
  }

  /** Returns the deadline of a new request, which {@link stop} aborts. */
  #newDeadline(): Deadline {
    const deadline = new Deadline(this.#options.clock);
    this.#request = deadline;
    if (this.#stopped) deadline.abort(new ApiFailure("connection", "stopped"));
    return deadline;
  }
}
