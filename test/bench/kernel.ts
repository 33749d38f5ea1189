import { mustRun, pause, type Run, runProgram } from "./programs.ts";

/**
 * Time for the kernel to free deleted objects, which it does in the background on our processors.
 * Milliseconds.
 */
const SETTLING = 400;

/** Removes the tables of benchmarks, and waits until the kernel is idle. */
export async function clearTables(): Promise<void> {
  for (const table of ["ip nft-proxy", "ip6 nft-proxy", "ip kube-proxy"]) {
    await runProgram(["nft", "delete", "table", ...table.split(" ")]);
  }
  await pause(SETTLING);
}

/** Measures nft alone for a transaction in JSON, starting without rules. */
export async function bareTransaction(path: string): Promise<Run> {
  await clearTables();
  return await mustRun(["nft", "-j", "-f", path]);
}

/** Measures nft alone for a ruleset in its own syntax, starting without rules. */
export async function bareRuleset(path: string): Promise<Run> {
  await clearTables();
  return await mustRun(["nft", "-f", path]);
}
