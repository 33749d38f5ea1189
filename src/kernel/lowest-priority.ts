import { readdirSync } from "node:fs";
import { constants, setPriority } from "node:os";

/**
 * Lets a process with all its threads run only when no other of its container or session wants the processor.
 * Programs that it starts later inherit this.
 */
export function takeLowestPriority(pid: number): void {
  try {
    for (const thread of readdirSync(`/proc/${pid}/task`))
      setPriority(Number(thread), constants.priority.PRIORITY_LOW);
  } catch {
    // It has ended.
  }
}
