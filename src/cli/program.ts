import { type Choice, chooseCommand } from "./choose-command.ts";
import { COMPLETION_ARGUMENT } from "./command.ts";
import { COMMANDS } from "./commands.ts";
import { EXIT, errorText, exitCodeOf, type ProgramContext } from "./output.ts";
import { type ProgressStream, terminalProgress } from "./print/progress.ts";

/**
 * Runs one command line. The only place that prints results and errors.
 * @param args without the program's own name
 * @returns the exit code
 */
export async function runProgram(args: readonly string[], context: ProgramContext): Promise<number> {
  const progress = terminalProgress(context.stderr as ProgressStream);
  try {
    if (args[0] === COMPLETION_ARGUMENT) return await printCompletions(args.slice(1), context);
    const choice = chooseCommand(args);
    if (choice.kind !== "run") return await printAbout(choice, context);
    const { run } = await choice.command.load();
    const { exitCode, output = "", notices = [] } = await run(choice.argv, progress);
    progress.clear();
    for (const notice of notices) context.stderr.write(`${notice}\n`);
    if (typeof output === "string" || output instanceof Uint8Array) await write(context.stdout, output);
    else for await (const piece of output) await write(context.stdout, piece);
    return exitCode;
  } catch (error) {
    progress.clear();
    context.stderr.write(errorText(error));
    return exitCodeOf(error);
  }
}

/** Prints the completions of the last word, one a line. */
async function printCompletions(words: readonly string[], { stdout }: ProgramContext): Promise<number> {
  const { completions } = await import("./completion.ts");
  await write(stdout, (await completions(words)).map((value) => `${value}\n`).join(""));
  return EXIT.ok;
}

/** Prints what `--help` and `--version` ask for. */
async function printAbout(
  choice: Exclude<Choice, { kind: "run" }>,
  { stdout, columns }: ProgramContext,
): Promise<number> {
  if (choice.kind === "version") {
    await write(stdout, `${__VERSION__}\n`);
    return EXIT.ok;
  }
  const { commandHelp, programHelp } = await import("./print/help-text.ts");
  const { command, showAll } = choice;
  await write(stdout, command === undefined ? programHelp(COMMANDS, columns) : commandHelp(command, showAll, columns));
  return EXIT.ok;
}

/** Waits until a pipe has taken everything: exiting earlier would cut a long dump. */
async function write(stream: NodeJS.WritableStream, text: string | Uint8Array): Promise<void> {
  if (text.length === 0) return;
  await new Promise<void>((resolve, reject) => {
    stream.write(text, (error) => (error ? reject(error) : resolve()));
  });
}
