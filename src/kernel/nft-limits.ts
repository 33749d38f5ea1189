import type { HostFiles } from "./host.ts";
import { containerMemoryLimit } from "./memory-usage.ts";
import type { ProcessLimits, RunProcess } from "./process.ts";
import type { StreamText } from "./stream-lines.ts";

/** A listing of 1,000,000 elements takes a minute and 200 MB; whatever takes more hangs or is not ours. */
export const NFT_LIMITS: ProcessLimits = { timeoutMs: 120_000, maxOutputBytes: 500_000_000 };

/**
 * The limits of a process whose memory is limited: what it reads as a whole takes ten times as much once it is parsed.
 * Our own maps are read in pieces; what is read as a whole has some kilobytes, unless others put something into our tables.
 */
export const DAEMON_LIMITS: ProcessLimits = { ...NFT_LIMITS, maxOutputBytes: 30_000_000 };

/**
 * What a transaction may take, for each begun megabyte: 20 times what nft needs on a machine with other work. Milliseconds.
 */
const TIMEOUT_PER_MEGABYTE = 10_000;

/**
 * The limits of a transaction. Its time is the same for those of like size, so that failures over them are alike.
 * @param text the transaction as nft reads it
 * @param limits those of any call
 */
export function transactionLimits(text: string, limits: ProcessLimits): ProcessLimits {
  const timeoutMs = TIMEOUT_PER_MEGABYTE * (1 + Math.floor(text.length / 1_000_000));
  return { ...limits, timeoutMs: Math.min(limits.timeoutMs, timeoutMs) };
}

/** The program that starts another one with limits: of util-linux, and so wherever there is a Linux distribution. */
const PRLIMIT = "prlimit";

/** nft's part of it: the heap of node and what it needs besides take the other half (the image's NODE_OPTIONS). */
const PART = 0.5;

/**
 * A transaction of so many characters of JSON is large: nft 1.1.3 takes some 30 bytes for each. Smaller ones go to the
 * process that waits for them, which is not limited: limiting costs the start of one more program.
 */
const LARGE_INPUT = 1_000_000;

/**
 * How much memory nft may take, in bytes, so that too large a ruleset ends nft alone: the kubelet has the kernel kill a
 * container as a whole (memory.oom.group), and with nft the daemon that could find what is too large.
 * @returns undefined where memory is not limited, or no program can set limits
 */
export async function nftMemoryLimit(files: HostFiles, run: RunProcess): Promise<number | undefined> {
  const bytes = await containerMemoryLimit(files);
  if (bytes === undefined) return undefined;
  const { exitCode } = await run(PRLIMIT, ["--version"], "", { timeoutMs: 5000, maxOutputBytes: 1000 });
  return exitCode === 0 ? Math.floor(bytes * PART) : undefined;
}

/** Runs programs with at most so much memory where they are given much; as `run` does where `bytes` is undefined. */
export function limitedRun(bytes: number | undefined, run: RunProcess): RunProcess {
  if (bytes === undefined) return run;
  return (path, args, input, limits) =>
    input.length > LARGE_INPUT
      ? run(PRLIMIT, limited(bytes, path, args), input, limits)
      : run(path, args, input, limits);
}

/** Streams the output of programs that take at most so much memory; as `stream` does where `bytes` is undefined. */
export function limitedStream(bytes: number | undefined, stream: StreamText): StreamText {
  if (bytes === undefined) return stream;
  return (path, args, limits) => stream(PRLIMIT, limited(bytes, path, args), limits);
}

function limited(bytes: number, path: string, args: readonly string[]): readonly string[] {
  return [`--as=${bytes}`, path, ...args];
}
