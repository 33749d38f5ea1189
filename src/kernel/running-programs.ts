import { existsSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { getDefaultHighWaterMark, setDefaultHighWaterMark } from "node:stream";
import { execa } from "execa";
import { AppError } from "../base/errors.ts";
import { PROGRAM_OPTIONS, type ProgramEnd, processResult, STARTED_BY } from "./process.ts";

/** Output is streamed, not collected. Standard error is cut off at this size, in bytes. */
const OPEN_OPTIONS = {
  ...PROGRAM_OPTIONS,
  buffer: { stdout: false },
  maxBuffer: { stderr: 100_000 },
} as const;

/** How nft and socat say that they lack a right. */
const DENIED = /Operation not permitted|Permission denied|you must be root/;

/**
 * The error of a program that ended, or could not be started.
 * @param missing the hint if it could not be started
 */
export function programError(
  command: OpenProgram["command"],
  { exitCode, signal, startError, stderr }: ProgramEnd,
  missing = "nft-proxy doctor names the programs that this host lacks",
): AppError {
  const [path] = command;
  if (startError !== undefined)
    return new AppError("HOST", `cannot start ${path} (${startError})`, { hint: missing });
  const said = stderr.trim();
  const reason = said || (signal === undefined ? `exit code ${exitCode}` : `ended by ${signal}`);
  return new AppError("HOST", `${path} failed: ${reason}`, {
    evidence: { command: command.join(" "), stderr: said },
    hint: DENIED.test(said) ? "run as root or with CAP_NET_ADMIN" : undefined,
  });
}

async function* linesOf(pieces: AsyncIterable<string>): AsyncGenerator<string, void, undefined> {
  let rest = "";
  for await (const text of pieces) {
    const lines = `${rest}${text}`.split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
  }
  if (rest !== "") yield rest;
}

/**
 * Starts a program and passes on its lines as they arrive, until it is stopped. It gets an argument array,
 * without a shell, and ends with this process, unless that is ended by SIGKILL: see {@link endOrphans}.
 */
export function followLines(path: string, args: readonly string[], onLine: (line: string) => void) {
  const child = execa(path, args, { ...OPEN_OPTIONS, stdin: "ignore", cleanup: true });
  let isStopped = false;
  const follow = async () => {
    for await (const line of linesOf(child.stdout.setEncoding("utf8"))) onLine(line);
    const end = processResult(await child);
    if (!isStopped) throw programError([path, ...args], end);
  };
  const stop = () => {
    isStopped = true;
    child.kill();
  };
  return {
    /** Undefined when it could not be started. */
    pid: child.pid,
    /** Stops it; does nothing if it has ended. */
    stop,
    /**
     * Resolves when it was stopped. Rejects with an AppError HOST if it could not be started, or ended
     * without being stopped.
     */
    ended: follow(),
  };
}

/** A program that gets bytes and prints bytes until it is killed. */
export type OpenProgram = Readonly<ReturnType<typeof openProgram>>;

/**
 * Starts a program with an argument array, without a shell. It ends with this process: even SIGKILL closes
 * its standard input, and {@link endOrphans} ends a program that ignores this.
 * @param options readsAhead: whether output is read before it is asked for. If not, what gathers meanwhile
 * comes at once, however many times the program wrote: Node.js reads each write by itself, which costs 8 us
 */
export function openProgram(
  path: string,
  args: readonly string[],
  { readsAhead = true }: { readonly readsAhead?: boolean } = {},
) {
  const usual = getDefaultHighWaterMark(false);
  // The streams of a program get the default of the moment.
  if (!readsAhead) setDefaultHighWaterMark(false, 1);
  const child = execa(path, args, { ...OPEN_OPTIONS, cleanup: true });
  setDefaultHighWaterMark(false, usual);
  // A program that ends without reading all of its input (EPIPE) shows the reason by its exit code.
  child.stdin.on("error", () => {});
  const output: AsyncIterableIterator<Uint8Array> = child.stdout[Symbol.asyncIterator]();
  return {
    /** Its path and arguments. */
    command: [path, ...args] as const,
    /** Undefined when it could not be started. */
    pid: child.pid,
    /** Its output. The program waits while it is not read. */
    output,
    /** Writes to its input; does nothing if it has ended. */
    write: (bytes: Uint8Array) => void child.stdin.write(bytes),
    /** Kills it; does nothing if it has ended. */
    kill: () => void child.kill(),
    /** Resolves with its end, also if it could not be started. Never rejects. */
    ended: child.then(processResult),
  };
}

/**
 * Ends the programs of killed processes. Otherwise `nft monitor`, which holds all rules of the host in
 * memory, would run until it has something to print, and a slow nft would commit its transaction during the
 * work of another daemon.
 */
export function endOrphans(): void {
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      if (isOrphan(pid)) process.kill(Number(pid), "SIGKILL");
    } catch {
      // It has ended, or belongs to another user.
    }
  }
}

/**
 * Whether the process that started a program is gone. Process ids of other namespaces are meaningless here.
 */
function isOrphan(pid: string): boolean {
  if (readlinkSync(`/proc/${pid}/ns/pid`) !== readlinkSync("/proc/self/ns/pid")) return false;
  const environment = readFileSync(`/proc/${pid}/environ`, "utf8").split("\0");
  const starter = environment.find((line) => line.startsWith(`${STARTED_BY}=`))?.slice(STARTED_BY.length + 1);
  return starter !== undefined && !existsSync(`/proc/${starter}`);
}
