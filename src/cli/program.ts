import yargs from "yargs";
import { AppError } from "../base/errors.ts";
import { FLAGS, normaliseArguments, YARGS_PARSER, yargsOptions } from "../config/flags.ts";
import type { Argv, Command } from "./command.ts";
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
    const chosen = await parse(args, context);
    if (chosen === undefined) return EXIT.ok;
    const { run } = await chosen.command.load();
    const { exitCode, output = "", notices = [] } = await run(chosen.argv, progress);
    progress.clear();
    for (const notice of notices) context.stderr.write(`${notice}\n`);
    if (typeof output === "string") await write(context.stdout, output);
    else for await (const piece of output) await write(context.stdout, piece);
    return exitCode;
  } catch (error) {
    progress.clear();
    context.stderr.write(errorText(error));
    return exitCodeOf(error);
  }
}

interface Chosen {
  readonly command: Command;
  readonly argv: Argv;
}

/** The chosen command; undefined after `--help` and `--version`, which are printed here. */
async function parse(args: readonly string[], { stdout, columns }: ProgramContext): Promise<Chosen | undefined> {
  let chosen: Chosen | undefined;
  let parser = yargs()
    .scriptName("nft-proxy")
    .usage("$0 <command>\n\nThe service proxy of a Kubernetes node, in nftables.")
    .parserConfiguration(YARGS_PARSER)
    .version(__VERSION__)
    .help()
    .alias("h", "help")
    .wrap(Math.min(columns, 100))
    .strict()
    .demandCommand(1, 1, "missing command", "more than one command")
    .epilogue("`nft-proxy <command> --help` shows a command's options.")
    .completion("completion", "Print a script by which the shell completes commands and options")
    .exitProcess(false)
    .fail((message, error) => {
      throw badArgument(message ?? error.message);
    });
  for (const command of COMMANDS) {
    parser = parser.command(
      command.name,
      command.summary,
      (builder) => builder.options(optionsOf(command)).example(examplesOf(command)),
      (argv) => {
        chosen = { command, argv };
      },
    );
  }
  let printed = "";
  const onPrint = (error: unknown, _argv: unknown, output: string): void => {
    printed = output;
    if (error instanceof Error) throw badArgument(error.message);
  };
  const parsed = normaliseArguments(args);
  await parser.parseAsync(parsed, {}, mayPrint(parsed) ? onPrint : undefined);
  if (printed !== "") await write(stdout, `${printed}\n`);
  return printed === "" ? chosen : undefined;
}

/** Whether yargs may print help, the version or completions. Given a callback for it, it renders help on every parse. */
function mayPrint(args: readonly string[]): boolean {
  return args.some((argument) => /^(?:-h|--help|--version|completion|--get-yargs-completions)(?:=|$)/.test(argument));
}

function examplesOf({ name, examples = [] }: Command): [string, string][] {
  return examples.map(([args, does]) => [`$0 ${name} ${args}`, does]);
}

function optionsOf({ flags }: Command): ReturnType<typeof yargsOptions> {
  const taken = ["config", ...flags];
  return yargsOptions(FLAGS.filter((flag) => flag.target.kind !== "command" || taken.includes(flag.name)));
}

function badArgument(message: string): AppError {
  return new AppError("BAD_ARGUMENT", message, { hint: "nft-proxy --help shows the commands and options" });
}

/** Waits until a pipe has taken everything: exiting earlier would cut a long dump. */
async function write(stream: NodeJS.WritableStream, text: string): Promise<void> {
  if (text === "") return;
  await new Promise<void>((resolve, reject) => {
    stream.write(text, (error) => (error ? reject(error) : resolve()));
  });
}
