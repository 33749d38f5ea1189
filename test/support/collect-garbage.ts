import { setImmediate } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** Collects the whole heap, after the present task: objects that a WeakRef returned live until its end. */
export async function collectGarbage(): Promise<void> {
  setFlagsFromString("--expose-gc");
  await setImmediate();
  (runInNewContext("gc") as () => void)();
}
