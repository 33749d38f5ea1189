import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { Clock, Timer } from "../base/clock.ts";
import { deltaSize } from "../nft/delta.ts";
import type { SyncReport, SyncSubscriber } from "../sync/sync-report.ts";

/** How long the daemon must be idle before memory is given back, milliseconds: changes go first. */
const QUIET = 3000;

/** Elements sent to the kernel, and as many endpoints decoded, that leave some 100 MB of garbage behind. */
const MUCH = 10_000;

/** Gives memory back to the system when the daemon is idle after much work. */
export class HeapKeeper implements SyncSubscriber {
  readonly #clock: Clock;
  readonly #compact: () => void;
  #done = 0;
  #timer: Timer | undefined;
  #stopped = false;

  /** @param compact gives back memory that nobody uses; blocks for some 0.1 s */
  constructor(clock: Clock, compact: () => void) {
    this.#clock = clock;
    this.#compact = compact;
  }

  synced({ kind, deltas }: Pick<SyncReport, "kind" | "deltas">): void {
    // A full sync compares everything: much work, whatever it sent.
    this.#done += kind === "full" ? MUCH : deltaSize(deltas).elements;
    this.#timer?.cancel();
    if (this.#done < MUCH || this.#stopped) return;
    this.#timer = this.#clock.after(QUIET, () => {
      this.#done = 0;
      this.#compact();
    });
  }

  /** Cancels what is due. */
  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
  }
}

/** Milliseconds for the engine to free what the first collection found. */
const BETWEEN = 200;

/**
 * Gives back to the system the memory that a large piece of work has left behind. By itself the engine collects only
 * when it needs more: a daemon that has just listed 10,000 Services then sits on 330 MB of which it uses a third
 * (Node 20.20). Then the pages that are left are half empty, 20 MB of 95, so that a second collection moves all objects
 * together. Each of the two blocks for one to two milliseconds for each megabyte that is in use.
 */
export function compactHeap(): void {
  setFlagsFromString("--expose-gc");
  const collect: () => void = runInNewContext("gc");
  setFlagsFromString("--no-expose-gc");
  collect();
  setTimeout(() => {
    setFlagsFromString("--compact-on-every-full-gc");
    collect();
    setFlagsFromString("--no-compact-on-every-full-gc");
  }, BETWEEN).unref();
}
