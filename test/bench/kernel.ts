import { mustRun, pause, type Run, runProgram } from "./programs.ts";

/** Time for the kernel to free what was deleted: it does so in the background, on our processors. */
const SETTLING = 400;

/** Removes the tables that benchmarks make, and lets the kernel come to rest. */
export async function clearTables(): Promise<void> {
  for (const table of ["ip nft-proxy", "ip6 nft-proxy", "ip kube-proxy"]) {
    await runProgram(["nft", "delete", "table", ...table.split(" ")]);
  }
  await pause(SETTLING);
}

/** What nft alone takes for a transaction in JSON, from nothing. */
export async function bareTransaction(path: string): Promise<Run> {
  await clearTables();
  return await mustRun(["nft", "-j", "-f", path]);
}

/** What nft alone takes for a ruleset in its own language, from nothing. */
export async function bareRuleset(path: string): Promise<Run> {
  await clearTables();
  return await mustRun(["nft", "-f", path]);
}
