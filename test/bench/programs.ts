import { spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { childrenCpuMs, type Memory, MemoryWatch } from "./memory.ts";

/** The resources that a program used from its start to its end. */
export interface Run {
  readonly ms: number;
  /** CPU time including that of its children, milliseconds. */
  readonly cpuMs: number;
  readonly memory: Memory;
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** The input and output of a program of {@link runProgram}. */
export interface RunOptions {
  /** A file with its standard input. */
  readonly input?: string;
  /** A file for its standard output, which is then not returned. */
  readonly output?: string;
}

/** Runs a command (program first) to its end. Does not reject if the program fails. */
export async function runProgram(argv: readonly string[], { input, output }: RunOptions = {}): Promise<Run> {
  const [program = "", ...args] = argv;
  const stdin = input === undefined ? "ignore" : openSync(input, "r");
  const stdout = output === undefined ? "pipe" : openSync(output, "w");
  const cpuBefore = childrenCpuMs();
  const started = performance.now();
  const child = spawn(program, args, { stdio: [stdin, stdout, "pipe"] });
  const memory = new MemoryWatch(child.pid ?? 0);
  const texts = { stdout: "", stderr: "" };
  child.stdout?.on("data", (chunk) => {
    texts.stdout += chunk;
  });
  child.stderr?.on("data", (chunk) => {
    texts.stderr += chunk;
  });
  const exitCode = await new Promise<number | null>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", resolve);
  });
  const ms = performance.now() - started;
  for (const descriptor of [stdin, stdout]) if (typeof descriptor === "number") closeSync(descriptor);
  return { ms, cpuMs: childrenCpuMs() - cpuBefore, memory: memory.stop(), exitCode, ...texts };
}

/** Like {@link runProgram}, but throws if the program fails. */
export async function mustRun(argv: readonly string[], options: RunOptions = {}): Promise<Run> {
  const run = await runProgram(argv, options);
  if (run.exitCode !== 0)
    throw new Error(`${argv.join(" ")} ended with ${run.exitCode}: ${run.stderr.slice(0, 2000)}`);
  return run;
}

/** Returns the command line of the built program. */
export function nftProxy(...args: readonly string[]): string[] {
  return [process.execPath, new URL("../../dist/nft-proxy.js", import.meta.url).pathname, ...args];
}

/**
 * Returns the command line of a benchmark program in its own Node process, so that its memory can be
 * measured.
 */
export function ownProgram(name: string, ...args: readonly string[]): string[] {
  return [
    process.execPath,
    "--expose-gc",
    "--import",
    "tsx",
    new URL(name, import.meta.url).pathname,
    ...args,
  ];
}

/** Resolves after this number of milliseconds. */
export async function pause(ms: number): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, ms));
}
