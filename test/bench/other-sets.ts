import { runProcess } from "../../src/kernel/process.ts";
import { runProgram } from "./programs.ts";

/**
 * The number of other software's sets. nft reads each of them before a transaction that does not end with our
 * listing.
 */
export const OTHER_SETS = 5000;

const LIMITS = { timeoutMs: 60_000, maxOutputBytes: 1_000_000 };

/**
 * Runs something beside a table of other software with {@link OTHER_SETS} sets. `nft monitor` must already
 * listen, because beside many sets it cannot start listening while anything changes.
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
