import { spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { childrenCpuMs, type Memory, MemoryWatch } from "./memory.ts";

/** What a program took from its start to its end. */
export interface Run {
  readonly ms: number;
  /** CPU time, that of its own children included, milliseconds. */
  readonly cpuMs: number;
  readonly memory: Memory;
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** How {@link runProgram} feeds and hears a program. */
export interface RunOptions {
  /** A file for its standard input. */
  readonly input?: string;
  /** A file for its standard output, which is not kept then. */
  readonly output?: string;
}

/** Runs a program, program first, to its end. Never rejects for what it does. */
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

/** As {@link runProgram}; throws when the program fails. */
export async function mustRun(argv: readonly string[], options: RunOptions = {}): Promise<Run> {
  const run = await runProgram(argv, options);
  if (run.exitCode !== 0)
    throw new Error(`${argv.join(" ")} ended with ${run.exitCode}: ${run.stderr.slice(0, 2000)}`);
  return run;
}

/** The built program's command line. */
export function nftProxy(...args: readonly string[]): string[] {
  return [process.execPath, new URL("../../dist/nft-proxy.js", import.meta.url).pathname, ...args];
}

/** A program of the benchmarks' own in a Node of its own, so that its memory is only its. */
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

/** Resolves after so many milliseconds. */
export async function pause(ms: number): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, ms));
}
