import { type Clock, wallTime } from "../base/clock.ts";
import { INITIAL_STATE, type SourceErrorKind, type SourceEventKind, type SourceState } from "./source.ts";

/** The times of a {@link SourceState}, on the monotonic clock. */
type SourceTimes = Record<"lastEventAt" | "lastSyncAt" | "followedSince", number | undefined>;

const NO_FAILURE = { failure: "", failureKind: undefined };

/** Counts the events and errors of one resource and records its times, for its {@link SourceState}. */
export class SourceStatus {
  readonly #clock: Pick<Clock, "now" | "monotonic">;
  #state = INITIAL_STATE;
  readonly #times: SourceTimes = { lastEventAt: undefined, lastSyncAt: undefined, followedSince: undefined };

  constructor(clock: Pick<Clock, "now" | "monotonic">) {
    this.#clock = clock;
  }

  countEvent(kind: SourceEventKind): void {
    const events = { ...this.#state.events, [kind]: this.#state.events[kind] + 1 };
    this.#state = { ...this.#state, events };
    this.#times.lastEventAt = this.#clock.monotonic();
  }

  /** Records a complete list. */
  listed(): void {
    const relists = this.#times.lastSyncAt === undefined ? 0 : this.#state.relists + 1;
    this.#state = { ...this.#state, synced: true, absent: false, relists };
    this.#times.lastEventAt = this.#times.lastSyncAt = this.#clock.monotonic();
  }

  /** Records that the resource is not served, or not to these credentials: it counts as synced and empty. */
  absentResource(): void {
    this.#state = { ...this.#state, synced: true, absent: true, ...NO_FAILURE };
    this.#times.followedSince = undefined;
  }

  countError(kind: SourceErrorKind): void {
    this.#state = { ...this.#state, errors: { ...this.#state.errors, [kind]: this.#state.errors[kind] + 1 } };
  }

  /** Records that the resource can be followed. */
  followed(): void {
    this.#state = { ...this.#state, ...NO_FAILURE };
    this.#times.followedSince ??= this.#clock.monotonic();
  }

  /** Counts a failure after which the resource cannot be followed. */
  failed(failureKind: SourceErrorKind, failure: string): void {
    this.countError(failureKind);
    this.#state = { ...this.#state, failure, failureKind };
    this.#times.followedSince = undefined;
  }

  get synced(): boolean {
    return this.#state.synced;
  }

  get absent(): boolean {
    return this.#state.absent;
  }

  /**
   * Returns the state. Its times are correct relative to now, even if the wall clock was set since.
   * @param objects the number of valid objects that the source holds
   */
  snapshot(objects: number): SourceState {
    const shown = (at: number | undefined) => (at === undefined ? 0 : wallTime(this.#clock, at));
    const { lastEventAt, lastSyncAt, followedSince } = this.#times;
    return {
      ...this.#state,
      objects,
      lastEventAt: shown(lastEventAt),
      lastSyncAt: shown(lastSyncAt),
      followedSince: shown(followedSince),
    };
  }
}
