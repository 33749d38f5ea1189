import { execa } from "execa";

/** The result of a process, successful or not. */
export interface ProcessResult {
  /** Exit code; undefined when it was killed or never started. */
  readonly exitCode: number | undefined;
  /** Name of the signal that ended it. */
  readonly signal: string | undefined;
  readonly stdout: string;
  readonly stderr: string;
  /** The error code if the program could not be started, such as `ENOENT`. */
  readonly startError: string | undefined;
  readonly timedOut: boolean;
  /** It was killed because it printed more than the limit. */
  readonly tooMuchOutput: boolean;
  /** Wall time, milliseconds. */
  readonly durationMs: number;
}

/** Limits of a process. */
export interface ProcessLimits {
  readonly timeoutMs: number;
  readonly maxOutputBytes: number;
}

/**
 * Runs a program to its end with `input` on its standard input. Never rejects because the program failed.
 * @param onInputTaken called when the program has read all of its input; must not throw
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
    // Messages are matched with patterns, so they must be in English whatever the node's locale.
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
