import type { Clock, Timer } from "../base/clock.ts";
import { AppError } from "../base/errors.ts";
import { firstOf } from "../base/signals.ts";

/** The longest time that a sync waits for one listing, milliseconds. */
const MOST_WAITING = 1000;

/**
 * After a listing that was ended, twice as long, up to this, for the next ten minutes: on a busy machine, a large map would
 * otherwise never be listed, and take the share of those that are. Milliseconds.
 */
const MOST_WAITING_AGAIN = 4000;
const AGAIN_FOR = 600_000;

/** The share of the time that syncs may wait for listings, and the time over which it is counted, milliseconds. */
const SHARE = 0.03;
const WINDOW = 60_000;

/** Where no sync has run for so long, milliseconds, a listing begins in any case, and is ended at once for one that comes. */
const IDLE = 1000;

/** A time in which no sync changes our tables. */
export interface Quiet {
  /** Aborted when a sync has waited for as long as it may, and when nobody wants the listing any more. */
  readonly signal: AbortSignal;
  /** Lets syncs go on; harmless when they do. */
  end(): void;
}

/**
 * Lets syncs and listings of our tables take turns. nft begins a listing anew when the ruleset changed meanwhile: a map of
 * 100,000 elements takes it half a second, and while changes came ten times a second it listed without end (nft 1.1.3).
 * A listing costs nothing while no sync is due. Otherwise syncs wait for it, 1 s at most (up to 4 s after some that were
 * ended) and 3 % of the time; not for those of repairs, which are not counted.
 */
export class QuietTime {
  readonly #clock: Clock;
  /** The end of the sync that is under way. */
  #sync: Promise<void> | undefined;
  #syncIsWaiting = false;
  /** When the last sync ended, on the monotonic clock. */
  #syncedAt = Number.NEGATIVE_INFINITY;
  #quiet: { readonly ended: Promise<void>; readonly isWaitedFor: () => void; readonly isCounted: boolean } | undefined;
  /** For how long syncs may still wait, milliseconds, as of a moment of the monotonic clock. */
  #allowance: { readonly ms: number; readonly at: number };
  /** How long syncs wait at most, milliseconds, and until when, on the monotonic clock, because a listing was ended. */
  #longer = { ms: MOST_WAITING, until: Number.NEGATIVE_INFINITY };

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#allowance = { ms: SHARE * WINDOW, at: clock.monotonic() };
  }

  /** Whether syncs run now that have waited for as long as they may: a listing would have to wait. */
  get isSpent(): boolean {
    return this.#untilAllowed() > 0;
  }

  /** Runs a sync, after the listing that is under way. */
  async sync<T>(run: () => Promise<T>): Promise<T> {
    this.#syncIsWaiting = true;
    while (this.#quiet !== undefined) {
      const [since, { ended, isWaitedFor, isCounted }] = [this.#clock.monotonic(), this.#quiet];
      isWaitedFor();
      await ended;
      const now = this.#clock.monotonic();
      if (isCounted) this.#allowance = { ms: this.#left() - (now - since), at: now };
    }
    this.#syncIsWaiting = false;
    let end = (): void => {};
    this.#sync = new Promise((resolve) => {
      end = resolve;
    });
    try {
      return await run();
    } finally {
      this.#sync = undefined;
      this.#syncedAt = this.#clock.monotonic();
      end();
    }
  }

  /**
   * Waits for the sync that is under way, for other listings, and until syncs may wait again; then keeps syncs from starting.
   * @param signal ends the waiting and the quiet time
   * @throws the signal's reason
   */
  async begin(signal?: AbortSignal): Promise<Quiet> {
    let quiet = await this.beginUnlessSpent(signal);
    while (quiet === undefined) {
      await this.#wait(this.#untilAllowed(), signal);
      quiet = await this.beginUnlessSpent(signal);
    }
    return quiet;
  }

  /** As {@link QuietTime.begin}; undefined at once where syncs have waited for as long as they may. */
  async beginUnlessSpent(signal?: AbortSignal): Promise<Quiet | undefined> {
    for (;;) {
      signal?.throwIfAborted();
      if (this.isSpent) return undefined;
      const obstacle = this.#obstacle();
      if (obstacle === undefined) return this.#open(signal, true);
      await obstacle;
    }
  }

  /** As {@link QuietTime.begin}, however long syncs have waited, which is not counted: rules that are wrong come first. */
  async beginAtOnce(signal?: AbortSignal): Promise<Quiet> {
    for (;;) {
      signal?.throwIfAborted();
      this.#quiet?.isWaitedFor();
      const obstacle = this.#obstacle();
      if (obstacle === undefined) return this.#open(signal, false);
      await obstacle;
    }
  }

  #open(signal: AbortSignal | undefined, isCounted: boolean): Quiet {
    const exceeded = new AbortController();
    let timer: Timer | undefined;
    let resolve = (): void => {};
    const ended = new Promise<void>((done) => {
      resolve = done;
    });
    const end = (): void => {
      timer?.cancel();
      if (this.#quiet?.ended === ended) this.#quiet = undefined;
      resolve();
    };
    const isWaitedFor = (): void => {
      if (isCounted && this.#left() <= 0) {
        exceed("changes came, which have waited enough for listings of our tables");
        return;
      }
      const most = this.#clock.monotonic() < this.#longer.until ? this.#longer.ms : MOST_WAITING;
      timer ??= this.#clock.after(most, () => {
        this.#longer = { ms: Math.min(MOST_WAITING_AGAIN, 2 * most), until: this.#clock.monotonic() + AGAIN_FOR };
        exceed(`changes waited ${most / 1000} s for a listing of our tables, which was ended`);
      });
    };
    const exceed = (reason: string): void => {
      exceeded.abort(new AppError("NFT_TIMEOUT", reason));
      end();
    };
    this.#quiet = { ended, isWaitedFor, isCounted };
    return { signal: firstOf(exceeded.signal, signal), end };
  }

  /** What a listing has to wait for, whatever is allowed; undefined for nothing. */
  #obstacle(): Promise<unknown> | undefined {
    if (this.#quiet !== undefined) return this.#quiet.ended;
    if (this.#sync !== undefined) return this.#sync;
    return this.#syncIsWaiting ? Promise.resolve() : undefined;
  }

  /** Resolves after so many milliseconds, or when the signal is aborted. */
  async #wait(ms: number, signal: AbortSignal | undefined): Promise<void> {
    if (signal?.aborted) return;
    await new Promise<void>((resolve) => {
      const end = (): void => {
        timer.cancel();
        signal?.removeEventListener("abort", end);
        resolve();
      };
      const timer = this.#clock.after(ms, end);
      signal?.addEventListener("abort", end, { once: true });
    });
  }

  /** Milliseconds until a listing may begin; 0 or less for now. */
  #untilAllowed(): number {
    const untilIdle = this.#syncedAt + IDLE - this.#clock.monotonic();
    return Math.min(Math.ceil(-this.#left() / SHARE), untilIdle);
  }

  #left(): number {
    const { ms, at } = this.#allowance;
    return Math.min(SHARE * WINDOW, ms + SHARE * (this.#clock.monotonic() - at));
  }
}
