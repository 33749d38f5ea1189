import { runProcess } from "../../src/kernel/process.ts";
import { runProgram } from "./programs.ts";

/** Sets of other software, each of which nft reads before a transaction that is not narrowed to our tables. */
export const OTHER_SETS = 5000;

const LIMITS = { timeoutMs: 60_000, maxOutputBytes: 1_000_000 };

/**
 * Does something beside a table of other software with {@link OTHER_SETS} sets. `nft monitor` has to listen before: beside
 * many sets it does not come to begin while anything changes.
 */
export async function withOtherSets<T>(run: () => Promise<T>): Promise<T> {
  const sets = Array.from({ length: OTHER_SETS }, (_, i) => `set s${i} { type ipv4_addr; };`);
  try {
    await runProcess("nft", ["-f", "-"], `table ip bench-other { ${sets.join(" ")} }`, LIMITS);
    return await run();
  } finally {
    await runProgram(["nft", "delete", "table", "ip", "bench-other"]);
  }
}
