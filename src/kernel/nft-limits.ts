import type { Transaction } from "../nft/ast/json.ts";
import type { HostFiles } from "./host.ts";
import { containerMemory } from "./memory-usage.ts";
import type { ProcessLimits, RunProcess } from "./process.ts";

/**
 * Limits of any call. A listing of 1,000,000 elements takes a minute and 200 MB; anything larger hangs, or is
 * not ours.
 */
export const NFT_LIMITS: ProcessLimits = { timeoutMs: 120_000, maxOutputBytes: 500_000_000 };

/**
 * Limits of calls by the daemon, whose memory is limited: output that is read as a whole takes ten times its
 * size once parsed. Our own maps are read in pieces; output read as a whole has some kilobytes, unless others
 * add objects to our tables.
 */
export const DAEMON_LIMITS: ProcessLimits = { ...NFT_LIMITS, maxOutputBytes: 30_000_000 };

/**
 * Maximum time of a transaction for each started megabyte: 20 times the time that nft needs on a machine with
 * other work. Milliseconds.
 */
const TIMEOUT_PER_MEGABYTE = 10_000;

/**
 * Additional time for each lookup in a map that a new rule of an existing table makes: 20 times the time in
 * which the kernel walks a map of 1,000,000 elements (nf_tables_bind_set). Milliseconds.
 */
const TIMEOUT_PER_LOOKUP = 5000;

/**
 * Returns the limits of a transaction. Transactions of similar size get the same time, so that their failures
 * are alike.
 * @param text the transaction as nft reads it
 * @param limits those of any call
 */
export function transactionLimits(
  transaction: Transaction,
  text: string,
  limits: ProcessLimits,
): ProcessLimits {
  const timeoutMs =
    TIMEOUT_PER_MEGABYTE * (1 + Math.floor(text.length / 1_000_000)) +
    TIMEOUT_PER_LOOKUP * lookupsIn(transaction);
  return { ...limits, timeoutMs: Math.min(limits.timeoutMs, timeoutMs) };
}

/** Counts lookups in maps by new rules; none in a new table, whose maps are empty. */
function lookupsIn({ nftables }: Transaction): number {
  const [first] = nftables;
  if (first !== undefined && "add" in first && "table" in first.add) return 0;
  let count = 0;
  for (const command of nftables) {
    if (!("add" in command && "rule" in command.add)) continue;
    count += JSON.stringify(command.add.rule).split('"data":"@').length - 1;
  }
  return count;
}

/**
 * The program that starts another with limits. It is part of util-linux, so every Linux distribution has it.
 */
const PRLIMIT = "prlimit";

/**
 * nft's share of the memory limit. The other half is for the heap of node and its other memory (NODE_OPTIONS
 * in the image).
 */
const PART = 0.5;

/**
 * Minimum length of a large transaction, characters of JSON: nft 1.1.3 takes about 30 bytes for each. Smaller
 * ones go to the waiting process without a limit, as setting a limit costs the start of one more program.
 */
const LARGE_INPUT = 1_000_000;

/**
 * Returns the memory limit of nft, bytes, so that a ruleset that is too large only ends nft. Without it, the
 * kernel kills the whole container (memory.oom.group is set by the kubelet), including the daemon that could
 * find the cause.
 * @returns undefined if memory is not limited, or no program can set limits
 */
export async function nftMemoryLimit(files: HostFiles, run: RunProcess): Promise<number | undefined> {
  const bytes = (await containerMemory(files))?.limit;
  if (bytes === undefined) return undefined;
  const { exitCode } = await run(PRLIMIT, ["--version"], "", { timeoutMs: 5000, maxOutputBytes: 1000 });
  return exitCode === 0 ? Math.floor(bytes * PART) : undefined;
}

/**
 * Returns a `run` that limits the memory of programs with large input; `run` itself if `bytes` is undefined.
 */
export function limitedRun(bytes: number | undefined, run: RunProcess): RunProcess {
  if (bytes === undefined) return run;
  return (path, args, input, limits) =>
    input.length > LARGE_INPUT
      ? run(PRLIMIT, [`--as=${bytes}`, path, ...args], input, limits)
      : run(path, args, input, limits);
}
