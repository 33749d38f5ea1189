import type { ChildProcess } from "node:child_process";
import type { Socket } from "node:net";
import { execa, type Options } from "execa";
import { samplePeak } from "./memory-usage.ts";

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

/** How a program ended, without what it printed for its reader. */
export type ProgramEnd = Omit<ProcessResult, "stdout" | "durationMs">;

/** Bounds of a process. */
export interface ProcessLimits {
  readonly timeoutMs: number;
  readonly maxOutputBytes: number;
  /** Kills it. What may be killed ends with this process also when a signal ends that, other than SIGKILL. */
  readonly signal?: AbortSignal;
  /** Called with its process id before it gets its input. */
  readonly onStart?: (pid: number) => void;
}

/** Runs a program to its end with `input` on its standard input. Never throws for what the program does. */
export type RunProcess = (
  path: string,
  args: readonly string[],
  input: string,
  limits: ProcessLimits,
) => Promise<ProcessResult>;

/** In the environment of every program that this process starts: the process id, for {@link endOrphans}. */
export const STARTED_BY = "NFT_PROXY_STARTED_BY";

/**
 * How every program is run: by an argument array, without a shell. A failure is a result; what is killed ends at once.
 */
export const PROGRAM_OPTIONS = {
  reject: false,
  stripFinalNewline: false,
  killSignal: "SIGKILL",
  forceKillAfterDelay: false,
  cleanup: false,
  // Its messages are matched: they must be in English whatever the node speaks.
  env: { LC_ALL: "C", [STARTED_BY]: String(process.pid) },
} as const satisfies Options;

/**
 * The programs to kill when this process exits: nft would commit a transaction after another daemon has read the kernel. One
 * that is killed leaves all of it or nothing. execa's own `cleanup` costs 0.09 ms of CPU for each program.
 */
const underWay = new Set<Pick<ChildProcess, "kill">>();
process.once("exit", () => {
  for (const child of underWay) child.kill();
});

/** Has a program end when this process exits. */
function endOnExit(child: Pick<ChildProcess, "kill" | "pid" | "once">): void {
  if (child.pid === undefined) return;
  underWay.add(child);
  child.once("exit", () => underWay.delete(child));
}

/** {@link RunProcess} by execa. */
export const runProcess: RunProcess = async (
  path,
  args,
  input,
  { timeoutMs, maxOutputBytes, signal, onStart },
) => {
  const child = execa(path, args, {
    ...PROGRAM_OPTIONS,
    input,
    timeout: timeoutMs,
    maxBuffer: maxOutputBytes,
    ...(signal === undefined ? {} : { cancelSignal: signal, cleanup: true }),
  });
  endOnExit(child);
  samplePeak(child);
  if (child.pid !== undefined) onStart?.(child.pid);
  return processResult(await child);
};

/** A program that was started and waits for its input. */
export interface StartedProcess {
  /** Undefined when it could not be started. */
  readonly pid: number | undefined;
  /** It could not be started, or has ended. */
  readonly hasEnded: boolean;
  /** It ended, as far as is known by {@link finish}, before it could be given all of its input. */
  readonly lacksInput: boolean;
  /** Gives it all of its input and waits for its end. To be called once; its duration begins here. @param timeoutMs then it is killed */
  finish(input: string, timeoutMs: number): Promise<ProcessResult>;
  /** Kills it. */
  kill(): void;
}

/**
 * Starts a program that is to get its input later. Until then it does not keep this process from ending. Never throws.
 */
export function startProcess(path: string, args: readonly string[], maxOutputBytes: number): StartedProcess {
  const child = execa(path, args, { ...PROGRAM_OPTIONS, maxBuffer: maxOutputBytes });
  endOnExit(child);
  const kill = (): void => void child.kill();
  // Pipes of child processes are sockets, which their types do not tell.
  const handles = [child, ...([child.stdin, child.stdout, child.stderr] as unknown as readonly Socket[])];
  // A program that ends without reading all of its input (EPIPE) says why by its exit code.
  let lacksInput = false;
  child.stdin.on("error", () => {
    lacksInput = true;
  });
  if (child.pid !== undefined) for (const handle of handles) handle.unref();
  return {
    pid: child.pid,
    get lacksInput() {
      return lacksInput || child.pid === undefined;
    },
    get hasEnded() {
      return child.pid === undefined || child.exitCode !== null || child.signalCode !== null;
    },
    async finish(input, timeoutMs) {
      const startedAt = performance.now();
      if (child.pid !== undefined) for (const handle of handles) handle.ref();
      let timedOut = false;
      const timer = setTimeout(() => {
        timedOut = true;
        kill();
      }, timeoutMs);
      child.stdin.end(input);
      const result = processResult(await child);
      clearTimeout(timer);
      return { ...result, timedOut, durationMs: performance.now() - startedAt };
    },
    kill,
  };
}

/** What execa tells of a process, as far as we use it; its own type depends on all options. */
interface ExecaResult {
  readonly exitCode?: number | undefined;
  readonly signal?: string | undefined;
  readonly stdout?: unknown;
  readonly stderr?: unknown;
  readonly timedOut: boolean;
  readonly isMaxBuffer: boolean;
  readonly isCanceled: boolean;
  readonly durationMs: number;
  /** Of an error of the system. */
  readonly code?: string | undefined;
}

/** What execa tells of a process that ended, or that could not be started. Output that was not collected is "". */
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
