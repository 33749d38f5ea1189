import type { HostFiles } from "./host.ts";
import { containerMemoryLimit } from "./memory-usage.ts";
import type { RunProcess } from "./process.ts";

/** The program that starts another one with limits: of util-linux, and so wherever there is a Linux distribution. */
const PRLIMIT = "prlimit";

/** nft's part of it: the heap of node and what it needs besides take the other half (the image's NODE_OPTIONS). */
const PART = 0.5;

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

/** A command that takes at most so much memory. */
export function withMemoryLimit(
  bytes: number,
  program: string,
  args: readonly string[],
): readonly [program: string, args: readonly string[]] {
  return [PRLIMIT, [`--as=${bytes}`, program, ...args]];
}
