import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { Clock, Timer } from "../base/clock.ts";
import { deltaSize } from "../nft/delta.ts";
import type { SyncReport } from "../sync/sync-report.ts";

/** Time that the daemon must be idle before it returns memory, as changes take precedence. Milliseconds. */
const QUIET = 3000;

/** Number of elements sent, and endpoints decoded, that leave about 100 MB of garbage. */
const MUCH = 10_000;

/**
 * Returns a subscriber that returns memory to the system when the daemon is idle after much work. `stop`
 * cancels a pending compaction.
 * @param compact returns unused memory to the system; blocks for about 0.1 s
 */
export function heapKeeper(clock: Clock, compact: () => void) {
  let done = 0;
  let timer: Timer | undefined;
  let isStopped = false;
  return {
    synced({ kind, deltas }: Pick<SyncReport, "kind" | "deltas">): void {
      // A full sync compares everything, which is much work, even if it sends nothing.
      done += kind === "full" ? MUCH : deltaSize(deltas).elements;
      timer?.cancel();
      if (done < MUCH || isStopped) return;
      timer = clock.after(QUIET, () => {
        done = 0;
        compact();
      });
    },
    stop(): void {
      isStopped = true;
      timer?.cancel();
    },
  };
}

/** Time for the engine to free the garbage of the first collection. Milliseconds. */
const BETWEEN = 200;

/**
 * Returns unused memory to the system after much work. The engine only collects garbage when it needs more
 * memory: a daemon that has just listed 10,000 Services holds 330 MB and uses a third of it (Node 20.20).
 * After one collection, 20 MB of 95 are empty space in pages, so a second one moves all objects together.
 * Each blocks for 1 to 2 ms for each megabyte in use.
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
