import { execaSync } from "execa";
import { fastPathFeatures } from "../../src/ruleset/required-features.ts";

/** Whether nft and the kernel have flow tables; Debian's kernels do. */
export function hasFlowtables(): boolean {
  const input = JSON.stringify(fastPathFeatures().whole);
  return execaSync("nft", ["-c", "-j", "-f", "-"], { input, reject: false }).exitCode === 0;
}
