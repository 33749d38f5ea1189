import { initialState, type SourceErrorKind, type SourceEventKind, type SourceState } from "./source.ts";

/** Keeps the score of one resource's source, for its {@link SourceState}. */
export class SourceStatus {
  #state = initialState();

  /** An event came. `now` is milliseconds since 1970, here and below. */
  heard(kind: SourceEventKind, now: number): void {
    const events = { ...this.#state.events, [kind]: this.#state.events[kind] + 1 };
    this.#state = { ...this.#state, events, lastEventAt: now };
  }

  /** A list was complete. */
  listed(now: number): void {
    const relists = this.#state.lastSyncAt === 0 ? 0 : this.#state.relists + 1;
    this.#state = { ...this.#state, synced: true, absent: false, relists, lastEventAt: now, lastSyncAt: now };
  }

  /** The resource is not served, or not to us: that is all there is to know of it. */
  missing(): void {
    this.#state = { ...this.#state, synced: true, absent: true, failure: "" };
  }

  /** Counts a fault. */
  fault(kind: SourceErrorKind): void {
    this.#state = { ...this.#state, errors: { ...this.#state.errors, [kind]: this.#state.errors[kind] + 1 } };
  }

  /** Says why there is no connection; "" when there is one. */
  setFailure(failure: string): void {
    this.#state = { ...this.#state, failure };
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

  /** The state, with the number of `objects` held. */
  snapshot(objects: number): SourceState {
    return { ...this.#state, objects };
  }
}
