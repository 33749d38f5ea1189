import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/**
 * Gives back to the system the memory that a large piece of work has left behind. By itself the engine collects only
 * when it needs more: a daemon that has just listed 10,000 Services then sits on 330 MB of which it uses a third
 * (Node 20.20). Blocks for about a millisecond for each megabyte that is in use.
 */
export function compactHeap(): void {
  setFlagsFromString("--expose-gc");
  const collect: () => void = runInNewContext("gc");
  setFlagsFromString("--no-expose-gc");
  collect();
}
