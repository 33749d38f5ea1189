import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/logger.ts";
import { ApiFailure, asApiFailure, failureOfErrorEvent, isUnreachable } from "../client/api-failure.ts";
import type { ApiClient } from "../client/client.ts";
import { Deadline } from "../client/deadline.ts";
import type { SourceHandler, SourceState } from "../source.ts";
import type { Availability } from "./availability.ts";
import { Backoff } from "./backoff.ts";
import { listPages } from "./list-pages.ts";
import { metadataOf, ObjectStore, type Staged } from "./object-store.ts";
import { ReflectorReport } from "./reflector-report.ts";
import type { ReflectorTimings } from "./reflector-timings.ts";
import type { Resource } from "./resources.ts";
import { watchEvents } from "./watch-events.ts";
import type { WatchEvent } from "./watch-stream.ts";

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
  /** Shared by the reflectors of one API server. */
  readonly availability: Availability;
}

/**
 * Keeps a copy of one resource of an API server: lists it, watches it, and retries both forever.
 * Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
 */
export class Reflector<T> {
  readonly #options: ReflectorOptions<T>;
  readonly #store: ObjectStore<T>;
  readonly #report: ReflectorReport;
  readonly #backoff: Backoff;
  /** The resourceVersion to watch from; undefined when a list is due. */
  #version: string | undefined;
  /** How many events of watches reported something new. */
  #news = 0;
  #stopped = false;
  #request: Deadline | undefined;
  /** Ends the current wait. */
  #endPause: (() => void) | undefined;
  /** True if the last attempt failed without an answer. */
  #disconnected = false;
  /** False after a 410 until a watch succeeds: a server that answers 410 again and again is not asked at once. */
  #mayRelistAtOnce = true;

  constructor(options: ReflectorOptions<T>) {
    this.#options = options;
    this.#backoff = new Backoff(options.random, options.timings.backoff);
    this.#report = new ReflectorReport(options.resource.name, options.logger);
    this.#store = new ObjectStore({
      transform: options.transform,
      handler: options.handler,
      onError: (kind, key, error) => this.#report.objectError(kind, key, error),
    });
  }

  /** Starts. To be called once. */
  start(): void {
    void this.#run();
  }

  /** Cancels the pending request and timer, for good: the handler is not called afterwards. */
  stop(): void {
    this.#stopped = true;
    this.#store.close();
    this.#request?.abort(new ApiFailure("connection", "stopped"));
    this.#endPause?.();
  }

  /** Returns the current state. */
  state(): SourceState {
    return this.#report.status.snapshot(this.#store.size);
  }

  async #run(): Promise<void> {
    while (!this.#stopped) await this.#sleep(await this.#step());
  }

  /** Performs one list or one watch. Resolves with the milliseconds to wait afterwards. Never rejects. */
  async #step(): Promise<number> {
    try {
      if (this.#version === undefined) {
        await this.#list();
        return 0;
      }
      return await this.#watch(this.#version);
    } catch (error) {
      return this.#stopped ? 0 : this.#recover(asApiFailure(error));
    }
  }

  async #list(): Promise<void> {
    const { client, clock, resource, timings } = this.#options;
    const staged: Staged<T> = new Map();
    const version = await listPages(
      resource,
      { client, deadline: () => this.#begin(), silence: timings.answerSilence, now: () => clock.now() },
      (object) => this.#store.stage(staged, object),
    );
    this.#version = version;
    this.#answered();
    this.#report.listed(staged.size, clock.now());
    this.#store.replace(staged);
  }

  async #watch(version: string): Promise<number> {
    const { client, clock, random, resource, timings } = this.#options;
    const [shortest, longest] = timings.watchSeconds;
    const seconds = shortest + Math.floor(random() * (longest - shortest + 1));
    const newsBefore = this.#news;
    let openedAt = Number.POSITIVE_INFINITY;
    let stable = false;
    try {
      await watchEvents(
        resource,
        version,
        {
          client,
          deadline: this.#begin(),
          timings,
          seconds,
          now: () => clock.now(),
          onOpen: () => {
            openedAt = clock.monotonic();
            this.#opened();
          },
        },
        (event) => this.#take(event),
      );
    } finally {
      stable = clock.monotonic() - openedAt >= timings.stableAfter;
      if (stable) {
        this.#backoff.reset();
        this.#mayRelistAtOnce = true;
      }
    }
    return stable ? 0 : this.#afterShortWatch(this.#news > newsBefore);
  }

  /** Backs off from a server that closes watches at once, less if the watch had reported something new. */
  #afterShortWatch(newsCame: boolean): number {
    if (newsCame) {
      this.#backoff.reset();
    } else {
      this.#report.status.countError("short-watch");
    }
    return this.#backoff.next();
  }

  #take(event: WatchEvent): void {
    if (event.type === "ERROR") throw failureOfErrorEvent(event.object);
    const changed = this.#apply(event);
    const version = metadataOf(event.object).resourceVersion;
    const advanced = typeof version === "string" && version !== "" && version !== this.#version;
    if (advanced) this.#version = version;
    if (changed || advanced) this.#news += 1;
  }

  #apply(event: Exclude<WatchEvent, { type: "ERROR" }>): boolean {
    const now = this.#options.clock.now();
    switch (event.type) {
      case "ADDED":
        this.#report.status.countEvent("added", now);
        return this.#store.upsert(event.object);
      case "MODIFIED":
        this.#report.status.countEvent("modified", now);
        return this.#store.upsert(event.object);
      case "DELETED":
        this.#report.status.countEvent("deleted", now);
        return this.#store.remove(event.object);
      case "BOOKMARK":
        this.#report.status.countEvent("bookmark", now);
        return false;
    }
  }

  #recover(failure: ApiFailure): number {
    const { random, resource, timings } = this.#options;
    if (failure.relist) this.#version = undefined;
    if (failure.absent && resource.optional) {
      this.#acceptAbsence(failure);
      return timings.absentRecheck * (0.5 + random() / 2);
    }
    // Authorization is checked before routing: an older cluster whose roles lack the resource answers 403, not 404.
    if (failure.kind === "forbidden" && resource.optional && !this.#report.status.synced) this.#acceptAbsence(failure);
    const wait = this.#waitAfter(failure);
    this.#report.failure(failure, wait);
    return wait;
  }

  #waitAfter(failure: ApiFailure): number {
    this.#disconnected = failure.kind === "connection" || failure.kind === "timeout";
    if (isUnreachable(failure)) return this.#backoff.nextUnreachable();
    if (!this.#disconnected) this.#answered();
    if (failure.kind !== "gone" || !this.#mayRelistAtOnce) return this.#backoff.next(failure.retryAfter);
    this.#mayRelistAtOnce = false;
    return 0;
  }

  #opened(): void {
    this.#answered();
    this.#report.open();
  }

  #answered(): void {
    this.#disconnected = false;
    this.#options.availability.answered();
  }

  #acceptAbsence(failure: ApiFailure): void {
    this.#report.absent(failure);
    this.#store.replace(new Map());
  }

  /** Creates the deadline of a new request, which {@link stop} aborts. */
  #begin(): Deadline {
    const deadline = new Deadline(this.#options.clock);
    this.#request = deadline;
    if (this.#stopped) deadline.abort(new ApiFailure("connection", "stopped"));
    return deadline;
  }

  #sleep(milliseconds: number): Promise<void> {
    if (milliseconds <= 0 || this.#stopped) return Promise.resolve();
    return new Promise((resolve) => {
      const end = () => {
        timer.cancel();
        cancelWakeUp?.();
        resolve();
      };
      const timer = this.#options.clock.after(milliseconds, end);
      const cancelWakeUp = this.#disconnected ? this.#options.availability.onAnswer(end) : undefined;
      this.#endPause = end;
    });
  }
}
