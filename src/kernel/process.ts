import type { ChildProcess } from "node:child_process";
import type { Socket } from "node:net";
import { execa, type Options, type Result } from "execa";
import { samplePeak } from "./memory-usage.ts";

/** Result of a finished process, the same for success and failure. */
export interface ProcessResult {
  /** Exit code; undefined if it was killed or never started. */
  readonly exitCode: number | undefined;
  /** Name of the signal that ended it. */
  readonly signal: string | undefined;
  readonly stdout: string;
  readonly stderr: string;
  /** Error code if the program could not be started, such as `ENOENT`. */
  readonly startError: string | undefined;
  readonly timedOut: boolean;
  /** Whether it was killed because it printed too much. */
  readonly tooMuchOutput: boolean;
  /** Whether it was killed by {@link ProcessLimits.signal}, as its result is no longer needed. */
  readonly aborted: boolean;
  /** Wall time, milliseconds. */
  readonly durationMs: number;
}

/** A result without output. */
export type ProgramEnd = Omit<ProcessResult, "stdout" | "durationMs">;

/** Limits of a process. */
export interface ProcessLimits {
  readonly timeoutMs: number;
  readonly maxOutputBytes: number;
  /**
   * Kills it when aborted. A program that has it also ends when a Unix signal other than SIGKILL ends this
   * process.
   */
  readonly signal?: AbortSignal;
  /** Called with the process id before the program gets its input. */
  readonly onStart?: (pid: number) => void;
}

/**
 * Runs a program to its end with `input` on its standard input. Never throws because of the program's
 * behaviour.
 */
export type RunProcess = (
  path: string,
  args: readonly string[],
  input: string,
  limits: ProcessLimits,
) => Promise<ProcessResult>;

/**
 * Environment variable of every program that this process starts. Its value is our process id, for {@link
 * endOrphans}.
 */
export const STARTED_BY = "NFT_PROXY_STARTED_BY";

/**
 * Options for every program. It is run with an argument array and without a shell; a failure is a result;
 * killing uses SIGKILL.
 */
export const PROGRAM_OPTIONS = {
  reject: false,
  stripFinalNewline: false,
  killSignal: "SIGKILL",
  forceKillAfterDelay: false,
  cleanup: false,
  // Messages are matched, so they must be in English whatever the locale of the node.
  env: { LC_ALL: "C", [STARTED_BY]: String(process.pid) },
} as const satisfies Options;

/**
 * Programs to kill when this process exits; otherwise nft could commit a transaction after another daemon has
 * read the kernel. A killed nft applies all of a transaction or nothing. execa's own `cleanup` costs 0.09 ms
 * of CPU for each program. Only those with {@link ProcessLimits.signal} have it: a Unix signal ends this
 * process without the event `exit`.
 */
const running = new Set<Pick<ChildProcess, "kill">>();
process.once("exit", () => {
  for (const child of running) child.kill();
});

/** {@link RunProcess} with execa. */
export const runProcess: RunProcess = async (path, args, input, limits) => {
  const startedAt = performance.now();
  const { pid, finish } = startProcess(path, args, limits.maxOutputBytes, limits.signal);
  if (pid !== undefined) limits.onStart?.(pid);
  const ended = finish(input, limits.timeoutMs, startedAt);
  samplePeak(pid, ended);
  return await ended;
};

/** A started program that waits for its input. */
export type StartedProcess = ReturnType<typeof startProcess>;

/**
 * Starts a program that gets its input later. Until then it does not keep this process running. Never throws.
 * @param signal as in {@link ProcessLimits}
 */
export function startProcess(
  path: string,
  args: readonly string[],
  maxOutputBytes: number,
  signal?: AbortSignal,
) {
  const child = execa(path, args, {
    ...PROGRAM_OPTIONS,
    maxBuffer: maxOutputBytes,
    ...(signal && { cancelSignal: signal, cleanup: true }),
  });
  if (child.pid !== undefined) {
    running.add(child);
    child.once("exit", () => running.delete(child));
  }
  const kill = (): void => void child.kill();
  // Pipes of child processes are sockets, although their types do not say so.
  const handles = [child, ...([child.stdin, child.stdout, child.stderr] as unknown as readonly Socket[])];
  if (child.pid !== undefined) for (const handle of handles) handle.unref();
  // A program that ends without reading all of its input (EPIPE) shows the reason by its exit code.
  let lacksInput = false;
  child.stdin.on("error", () => {
    lacksInput = true;
  });
  return {
    /** Undefined when it could not be started. */
    pid: child.pid,
    /** Whether it ended before it got all of its input; certain once `finish` has resolved. */
    get lacksInput(): boolean {
      return lacksInput || child.pid === undefined;
    },
    /** Whether it has ended or could not be started. */
    get hasEnded(): boolean {
      return child.pid === undefined || child.exitCode !== null || child.signalCode !== null;
    },
    /**
     * Writes all of its input and waits for its end. Call once.
     * @param timeoutMs time after which it is killed
     * @param startedAt when the duration begins; now if absent
     */
    async finish(input: string, timeoutMs: number, startedAt = performance.now()): Promise<ProcessResult> {
      if (child.pid !== undefined) for (const handle of handles) handle.ref();
      let timedOut = false;
      const timer = setTimeout(() => {
        timedOut = true;
        kill();
      }, timeoutMs);
      child.stdin.end(input);
      const result = processResult(await child);
      clearTimeout(timer);
      // execa does not know our timeout, and measures a program that has waited from its start.
      return { ...result, timedOut, durationMs: performance.now() - startedAt };
    },
    kill,
  };
}

/** The fields of execa's result that we use; its own type depends on all options. */
type ExecaResult = Pick<
  Result,
  "exitCode" | "signal" | "timedOut" | "isMaxBuffer" | "isCanceled" | "durationMs" | "code"
> & { readonly stdout?: unknown; readonly stderr?: unknown };

/** Converts execa's result. Output that was not collected is "". */
export function processResult(result: ExecaResult): ProcessResult {
  const { exitCode, signal, stdout, stderr, timedOut, isMaxBuffer, isCanceled, durationMs, code } = result;
  const hasStarted = exitCode !== undefined || signal !== undefined;
  return {
    exitCode,
    signal,
    stdout: typeof stdout === "string" ? stdout : "",
    stderr: typeof stderr === "string" ? stderr : "",
    startError: hasStarted ? undefined : (code ?? "unknown"),
    timedOut,
    tooMuchOutput: isMaxBuffer,
    aborted: isCanceled,
    durationMs,
  };
}
