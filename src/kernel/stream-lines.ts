import { execa } from "execa";
import { AppError } from "../base/errors.ts";

/** Runs a program and yields its output line by line, without buffering all of it. */
export type StreamLines = (path: string, args: readonly string[]) => AsyncIterable<string>;

/** The timeout of a program. Listing a conntrack table of a million entries takes 4 s. */
const TIMEOUT_MS = 60_000;

/**
 * {@link StreamLines} through execa: an argument array, no shell.
 * @throws AppError HOST from the iteration when the program cannot be started, fails or times out; the evidence has its
 * standard error
 */
export const streamLines: StreamLines = async function* (path, args) {
  const child = execa(path, args, {
    stdin: "ignore",
    reject: false,
    timeout: TIMEOUT_MS,
    killSignal: "SIGKILL",
    buffer: { stdout: false, stderr: true },
    maxBuffer: { stderr: 10_000 },
    env: { LC_ALL: "C" },
  });
  let rest = "";
  for await (const chunk of child.stdout.setEncoding("utf8")) {
    const lines = `${rest}${chunk}`.split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
  }
  if (rest !== "") yield rest;
  const { failed, code, stderr, shortMessage, exitCode } = await child;
  if (!failed) return;
  const said = String(stderr ?? "").trim();
  const reason = exitCode === undefined ? (code ?? shortMessage ?? "unknown") : said || `exit code ${exitCode}`;
  throw new AppError("HOST", `${path} failed: ${reason}`, {
    evidence: { command: [path, ...args].join(" "), stderr: said },
  });
};

/** A program that runs until it is stopped. */
export interface FollowedProgram {
  /** Undefined when it could not be started. */
  readonly pid: number | undefined;
  /** Ends it; harmless when it has ended. */
  stop(): void;
  /** Resolves when it was stopped. Rejects with AppError HOST when it could not be started, or ended by itself. */
  readonly ended: Promise<void>;
}

/** Starts a program and hands over its lines as they come, until it is stopped. */
export type FollowLines = (path: string, args: readonly string[], onLine: (line: string) => void) => FollowedProgram;

/** {@link FollowLines} through execa: an argument array, no shell. It ends with this process, too. */
export const followLines: FollowLines = (path, args, onLine) => {
  const child = execa(path, args, {
    stdin: "ignore",
    reject: false,
    buffer: { stdout: false, stderr: true },
    maxBuffer: { stderr: 10_000 },
    killSignal: "SIGKILL",
    env: { LC_ALL: "C" },
  });
  let rest = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    const lines = `${rest}${chunk}`.split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) onLine(line);
  });
  let isStopped = false;
  const stop = () => {
    isStopped = true;
    child.kill();
  };
  const ended = child.then(({ code, stderr, shortMessage }) => {
    if (isStopped) return;
    const said = String(stderr ?? "").trim();
    throw new AppError("HOST", `${path} ended: ${said || (code ?? shortMessage ?? "unknown")}`, {
      evidence: { command: [path, ...args].join(" "), stderr: said },
    });
  });
  return { pid: child.pid, stop, ended };
};
