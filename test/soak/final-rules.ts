import { setTimeout as sleep } from "node:timers/promises";
import type { Ruleset } from "../../src/nft/ast/ruleset.ts";
import { bundle } from "../support/command.ts";
import { parseWithElements } from "../support/listed-elements.ts";
import { textWithoutPlacement } from "../support/ruleset-text.ts";
import { PROXY_FLAGS, type Stage } from "./stage.ts";

/** A machine of the lab without rules of its own, which never passes a packet on. */
const SCRATCH = "lan";
/** Longer than it takes until stale chains are deleted (`syncPeriod`), milliseconds. */
const REST = 40_000;
const SHOWN = 5;

/**
 * Compares our tables, once nothing changes any more, with what `dump` says that they should be: its
 * transaction is loaded in another network namespace and listed there.
 * @returns the first lines that differ, `-` for those that are missing; empty when the tables are right
 */
export async function finalDifferences(stage: Stage): Promise<readonly string[]> {
  const { lab } = stage.lab;
  stage.churn.pause();
  await sleep(REST);
  const dump = [process.execPath, bundle, "dump", ...PROXY_FLAGS, `--master=${stage.lab.master}`] as const;
  const transaction = await lab.mustRun("node", [...dump, "--daemon-socket=", "--output=json"]);
  await lab.mustRun(SCRATCH, ["nft", "-j", "-f", "-"], { input: transaction });
  const listings = await Promise.all(
    ["ip", "ip6"].map((family) => lab.mustRun(SCRATCH, ["nft", "-j", "list", "table", family, "nft-proxy"])),
  );
  const wanted: Ruleset = Object.assign({}, ...listings.map((text) => parseWithElements(text)));
  const [has, wants] = [await stage.lab.kernelText(), textWithoutPlacement(wanted)].map((text) =>
    text.split("\n"),
  );
  const missing = only(wants, has).map((line) => `- ${line}`);
  return [...missing, ...only(has, wants).map((line) => `+ ${line}`)].slice(0, SHOWN);
}

/** The lines that only the first of two texts has. */
function only(lines: readonly string[] = [], others: readonly string[] = []): readonly string[] {
  const known = new Set(others);
  return lines.filter((line) => !known.has(line));
}
