import { type ChildProcessByStdio, spawn } from "node:child_process";
import type { Socket } from "node:net";
import type { Readable, Writable } from "node:stream";

/** What a finished process left. One shape for success and failure. */
export interface ProcessResult {
  /** Exit code; undefined when it was killed or never started. */
  readonly exitCode: number | undefined;
  /** Name of the signal that ended it. */
  readonly signal: string | undefined;
  readonly stdout: string;
  readonly stderr: string;
  /** The program could not be started: its error code, `ENOENT` for one. */
  readonly startError: string | undefined;
  readonly timedOut: boolean;
  /** It printed more than was allowed and was killed for it. */
  readonly tooMuchOutput: boolean;
  /** It was killed because nobody wants its result any more: {@link ProcessLimits.signal}. */
  readonly aborted: boolean;
  /** Wall time, milliseconds. */
  readonly durationMs: number;
}

/** Bounds of a process. */
export interface ProcessLimits {
  readonly timeoutMs: number;
  readonly maxOutputBytes: number;
  /** Kills it. */
  readonly signal?: AbortSignal;
}

/** Runs a program to its end with `input` on its standard input. Never throws for what the program does. */
export type RunProcess = (
  path: string,
  args: readonly string[],
  input: string,
  limits: ProcessLimits,
) => Promise<ProcessResult>;

/** A program that was started and waits for its input. */
export interface StartedProcess {
  /** It could not be started, or has ended. */
  readonly hasEnded: boolean;
  /** It ended, as far as is known by {@link finish}, before it could be given all of its input. */
  readonly lacksInput: boolean;
  /** Gives it all of its input and waits for its end. To be called once; its time limit and its duration begin here. */
  finish(input: string): Promise<ProcessResult>;
  /** Kills it. */
  kill(): void;
}

/**
 * Starts a program that is to get its input later. Until then it does not keep this process from ending. Never throws.
 */
export type StartProcess = (path: string, args: readonly string[], limits: ProcessLimits) => StartedProcess;

/**
 * {@link StartProcess} by an argument array, without a shell. By node:child_process itself: execa 9.6 takes twice the
 * CPU for each run (5.3 against 2.4 ms on a busy machine, Node 20), and every changed endpoint is a run.
 */
export const startProcess: StartProcess = (path, args, limits) => {
  let child: Child;
  try {
    // Its messages are matched: they must be in English whatever the node speaks.
    child = spawn(path, args, { stdio: "pipe", env: { ...process.env, LC_ALL: "C" } });
  } catch (error) {
    return notStarted(Promise.resolve(codeOf(error)));
  }
  const failure = new Promise<string>((resolve) => {
    child.on("error", (error) => child.pid === undefined && resolve(codeOf(error)));
  });
  if (child.pid === undefined) return notStarted(failure);
  return waiting(child, limits);
};

/** {@link RunProcess} by {@link startProcess}. */
export const runProcess: RunProcess = async (path, args, input, limits) => {
  const startedAt = performance.now();
  const result = await startProcess(path, args, limits).finish(input);
  return { ...result, durationMs: performance.now() - startedAt };
};

type Child = ChildProcessByStdio<Writable, Readable, Readable>;

function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? "unknown";
}

function notStarted(startError: Promise<string>): StartedProcess {
  const empty = { stdout: "", stderr: "", timedOut: false, tooMuchOutput: false, aborted: false, durationMs: 0 };
  return {
    hasEnded: true,
    lacksInput: true,
    finish: async () => ({ exitCode: undefined, signal: undefined, startError: await startError, ...empty }),
    kill: () => {},
  };
}

function waiting(child: Child, limits: ProcessLimits): StartedProcess {
  const bounds = enforce(child, limits);
  const ended = new Promise<Pick<ProcessResult, "exitCode" | "signal">>((resolve) => {
    child.on("close", (code, signal) => resolve({ exitCode: code ?? undefined, signal: signal ?? undefined }));
  });
  // A program that ends without reading all of its input (EPIPE) says why by its exit code.
  let lacksInput = false;
  child.stdin.on("error", () => {
    lacksInput = true;
  });
  hold(child, "unref");
  return {
    get lacksInput() {
      return lacksInput;
    },
    get hasEnded() {
      return child.exitCode !== null || child.signalCode !== null;
    },
    async finish(input) {
      const startedAt = performance.now();
      hold(child, "ref");
      bounds.startTimer();
      child.stdin.end(input);
      const end = await ended;
      return { ...end, startError: undefined, ...bounds.end(), durationMs: performance.now() - startedAt };
    },
    kill: () => void child.kill("SIGKILL"),
  };
}

/** Lets a child and its pipes keep this process running, or not. */
function hold(child: Child, how: "ref" | "unref"): void {
  child[how]();
  // Pipes of child processes are sockets, which their types do not tell.
  for (const pipe of [child.stdin, child.stdout, child.stderr]) (pipe as unknown as Socket)[how]();
}

/** Kills a process that exceeds its limits. */
function enforce(child: Child, { timeoutMs, maxOutputBytes, signal }: ProcessLimits) {
  const exceeded = { timedOut: false, tooMuchOutput: false, aborted: false };
  const kill = (limit: keyof typeof exceeded): void => {
    exceeded[limit] = true;
    child.kill("SIGKILL");
  };
  const output = collectOutput(child, maxOutputBytes, () => kill("tooMuchOutput"));
  const abort = (): void => kill("aborted");
  signal?.addEventListener("abort", abort);
  let timer: NodeJS.Timeout | undefined;
  return {
    startTimer() {
      timer = setTimeout(() => kill("timedOut"), timeoutMs);
    },
    end() {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
      return { ...exceeded, ...output() };
    },
  };
}

/** @returns what was printed so far, whole characters */
function collectOutput(
  { stdout, stderr }: Child,
  maxBytes: number,
  onTooMuch: () => void,
): () => { readonly stdout: string; readonly stderr: string } {
  const parts = { stdout: [] as Buffer[], stderr: [] as Buffer[] };
  for (const [name, stream] of [["stdout", stdout] as const, ["stderr", stderr] as const]) {
    let bytes = 0;
    stream.on("data", (part: Buffer) => {
      if (bytes > maxBytes) return;
      bytes += part.length;
      parts[name].push(part);
      if (bytes > maxBytes) onTooMuch();
    });
  }
  return () => ({ stdout: Buffer.concat(parts.stdout).toString(), stderr: Buffer.concat(parts.stderr).toString() });
}
