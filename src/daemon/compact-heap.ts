import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

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
