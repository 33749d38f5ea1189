import { execa } from "execa";
import { AppError } from "../base/errors.ts";

/** Runs a program and gives its output line by line, so that no more than a line of it is held. */
export type StreamLines = (path: string, args: readonly string[]) => AsyncIterable<string>;

/** The longest that anything streamed may take: a dump of a conntrack table of a million entries takes 4 s. */
const TIMEOUT_MS = 60_000;

/**
 * {@link StreamLines} through execa: an argument array, no shell. The iteration ends with
 * @throws AppError HOST when the program cannot be started, fails or does not end; the evidence has what it said
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
