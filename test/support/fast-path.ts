import { execaSync } from "execa";
import { rules } from "../../src/features/fast-path/rules.ts";
import { partFeatures } from "../../src/ruleset/required-features.ts";

/** Whether nft and the kernel support the fast path. Debian's kernels do since 6.1. */
export function hasFastPath(): boolean {
  const input = JSON.stringify(partFeatures(rules, rules.needs).whole);
  return execaSync("nft", ["-c", "-j", "-f", "-"], { input, reject: false }).exitCode === 0;
}
