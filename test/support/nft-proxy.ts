import { PassThrough, Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { vi } from "vitest";
import { runProgram } from "../../src/cli/program/program.ts";

/** The result of a run of the program. */
export interface CommandOutcome {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Runs a command line in this process and namespace. The bundle would take half a second of processor time,
 * so only tests of what a process does start it. Outputs have no final newline.
 */
export async function nftProxy(args: readonly string[], input = ""): Promise<CommandOutcome> {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const outputs = Promise.all([text(stdout), text(stderr)]);
  const stdin = vi.spyOn(process, "stdin", "get");
  stdin.mockReturnValue(Readable.from([Buffer.from(input)]) as typeof process.stdin);
  const exitCode = await runProgram(args, { stdout, stderr, columns: 80 });
  stdin.mockRestore();
  stdout.end();
  stderr.end();
  const [printed, told] = (await outputs).map((output) => output.replace(/\n$/, "")) as [string, string];
  return { exitCode, stdout: printed, stderr: told };
}
