import { initialState, type SourceErrorKind, type SourceEventKind, type SourceState } from "./source.ts";

/** Counts the events and errors of one resource and records its times, for its {@link SourceState}. */
export class SourceStatus {
  #state = initialState();

  /** Counts an event. `now` is in milliseconds since 1970, here and below. */
  countEvent(kind: SourceEventKind, now: number): void {
    const events = { ...this.#state.events, [kind]: this.#state.events[kind] + 1 };
    this.#state = { ...this.#state, events, lastEventAt: now };
  }

  /** Records a complete list. */
  listed(now: number): void {
    const relists = this.#state.lastSyncAt === 0 ? 0 : this.#state.relists + 1;
    this.#state = { ...this.#state, synced: true, absent: false, relists, lastEventAt: now, lastSyncAt: now };
  }

  /** Records that the resource is not served, or not to these credentials: it counts as synced and empty. */
  absentResource(): void {
    this.#state = { ...this.#state, synced: true, absent: true, failure: "", followedSince: 0 };
  }

  countError(kind: SourceErrorKind): void {
    this.#state = { ...this.#state, errors: { ...this.#state.errors, [kind]: this.#state.errors[kind] + 1 } };
  }

  /** Records that the resource can be followed. */
  followed(now: number): void {
    const followedSince = this.#state.followedSince === 0 ? now : this.#state.followedSince;
    this.#state = { ...this.#state, failure: "", followedSince };
  }

  /** Records the reason why the resource cannot be followed; "" if it can. */
  failed(failure: string): void {
    this.#state = { ...this.#state, failure, followedSince: 0 };
  }

  get synced(): boolean {
    return this.#state.synced;
  }

  get absent(): boolean {
    return this.#state.absent;
  }

  get failure(): string {
    return this.#state.failure;
  }

  /** Returns the state. `objects` is the number of valid objects that the source holds. */
  snapshot(objects: number): SourceState {
    return { ...this.#state, objects };
  }
}
