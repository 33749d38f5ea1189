import { AppError } from "../../base/errors.ts";
import { systemReason } from "../../kube/files/diagnostic.ts";
import { COMPLETION_ARGUMENT, textArgument } from "../command.ts";
import { asYaml, EXIT, errorText, type Output, type ProgramContext } from "../command-result.ts";
import { type ProgressStream, terminalProgress } from "../terminal.ts";
import { type Choice, chooseCommand } from "./choose-command.ts";

/**
 * Runs one command line. Results and errors are only printed here.
 * @param args without the program's own name
 * @returns the exit code
 */
export async function runProgram(args: readonly string[], context: ProgramContext): Promise<number> {
  const { step, clear } = terminalProgress(context.stderr as ProgressStream);
  let notices: readonly string[] = [];
  const printNotices = () => {
    clear();
    for (const line of notices) context.stderr.write(`${line}\n`);
    notices = [];
  };
  // A closed pipe must not end the process. write() reports it.
  for (const stream of [context.stdout, context.stderr]) stream.on("error", () => {});
  try {
    if (args[0] === COMPLETION_ARGUMENT) {
      await write(context.stdout, await completionsText(args.slice(1)));
      return EXIT.ok;
    }
    const choice = chooseCommand(args);
    if (choice.kind !== "run") {
      await write(context.stdout, await aboutText(choice, context.columns));
      return EXIT.ok;
    }
    const { run } = await choice.command.load();
    const isYaml = textArgument(choice.argv, "output") === "yaml";
    const argv = isYaml ? { ...choice.argv, output: ["json"] } : choice.argv;
    const notice = (lines: readonly string[]) => {
      notices = [...notices, ...lines];
    };
    const { exitCode = EXIT.ok, output = "" } = await run(argv, { step, notice });
    printNotices();
    await writeAll(context.stdout, isYaml ? await asYaml(output) : output);
    return exitCode;
  } catch (error) {
    printNotices();
    context.stderr.write(errorText(error));
    return EXIT.failed;
  }
}

/** The completions of the last word, one per line. */
async function completionsText(words: readonly string[]): Promise<string> {
  const { completions } = await import("./completion.ts");
  return (await completions(words)).map((value) => `${value}\n`).join("");
}

/** The help or the version. */
async function aboutText(choice: Exclude<Choice, { kind: "run" }>, columns: number): Promise<string> {
  if (choice.kind === "version") return `${__VERSION__}\n`;
  const { commandHelp, programHelp } = await import("./help.ts");
  const { command, showAll } = choice;
  return command === undefined ? await programHelp(columns) : await commandHelp(command, showAll, columns);
}

/** Writes a command's output. Stops if the reader of a pipe has closed it. */
async function writeAll(stream: NodeJS.WritableStream, output: Output): Promise<void> {
  const isWhole = typeof output === "string" || output instanceof Uint8Array;
  for await (const piece of isWhole ? [output] : output) if (!(await write(stream, piece))) return;
}

/**
 * Writes a text and waits until a pipe has taken all of it: an earlier exit would truncate it.
 * @returns false if the pipe's reader has closed it, as in `nft-proxy dump | head`
 * @throws AppError HOST when the text cannot be written
 */
async function write(stream: NodeJS.WritableStream, text: string | Uint8Array): Promise<boolean> {
  if (text.length === 0) return true;
  const error = await new Promise<Error | null | undefined>((resolve) => {
    stream.write(text, resolve);
  });
  if (!error) return true;
  if ((error as NodeJS.ErrnoException).code === "EPIPE") return false;
  throw new AppError("HOST", `cannot write the output: ${systemReason(error)}`);
}
