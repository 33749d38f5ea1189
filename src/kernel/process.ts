import { execa } from "execa";

/** What a finished process left. One shape for success and failure, like execa's. */
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
  /** Wall time, milliseconds. */
  readonly durationMs: number;
}

/** Bounds of a process. */
export interface ProcessLimits {
  readonly timeoutMs: number;
  readonly maxOutputBytes: number;
}

/**
 * Runs a program to its end with `input` on its standard input. Never throws for what the program does.
 * @param onInputTaken told when the program has all of its input, and goes on by itself; must not throw
 */
export type RunProcess = (
  path: string,
  args: readonly string[],
  input: string,
  limits: ProcessLimits,
  onInputTaken?: () => void,
) => Promise<ProcessResult>;

/** {@link RunProcess} through execa: an argument array, no shell. */
export const runProcess: RunProcess = async (path, args, input, { timeoutMs, maxOutputBytes }, onInputTaken) => {
  const running = execa(path, args, {
    input,
    reject: false,
    timeout: timeoutMs,
    maxBuffer: maxOutputBytes,
    killSignal: "SIGKILL",
    // Its messages are matched: they must be in English whatever the node speaks.
    env: { LC_ALL: "C" },
    stripFinalNewline: false,
  });
  if (onInputTaken !== undefined) running.stdin?.once("finish", onInputTaken);
  const result = await running;
  const started = result.exitCode !== undefined || result.signal !== undefined;
  return {
    exitCode: result.exitCode,
    signal: result.signal,
    stdout: result.stdout,
    stderr: result.stderr,
    startError: started ? undefined : (result.code ?? "unknown"),
    timedOut: result.timedOut,
    tooMuchOutput: result.isMaxBuffer,
    durationMs: result.durationMs,
  };
};
