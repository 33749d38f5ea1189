import yargs, { type Argv as Yargs } from "yargs";
import { AppError } from "../base/errors.ts";
import { nearest } from "../base/nearest.ts";
import { alternatives } from "../base/text.ts";
import type { Flag } from "../config/flag.ts";
import { FLAGS, normaliseArguments, YARGS_PARSER, yargsOptions } from "../config/flags.ts";
import { type Argv, COMPLETION_ARGUMENT, type Command } from "./command.ts";
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
    if (args[0] === COMPLETION_ARGUMENT && (await printCompletions(args.slice(2), context))) return EXIT.ok;
    const chosen = await parse(args, context);
    if (chosen === undefined) return EXIT.ok;
    const { run } = await chosen.command.load();
    const { exitCode, output = "", notices = [] } = await run(chosen.argv, progress);
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

/** Prints the completions of a value, one a line; false where yargs completes commands and flags. */
async function printCompletions(words: readonly string[], { stdout }: ProgramContext): Promise<boolean> {
  const { completeValue } = await import("./completion.ts");
  const values = await completeValue(words);
  if (values !== undefined) await write(stdout, values.map((value) => `${value}\n`).join(""));
  return values !== undefined;
}

interface Chosen {
  readonly command: Command;
  readonly argv: Argv;
}

/** The chosen command; undefined after `--help` and `--version`, which are printed here. */
async function parse(args: readonly string[], { stdout, columns }: ProgramContext): Promise<Chosen | undefined> {
  let chosen: Chosen | undefined;
  const showAll = args.includes("--help-all");
  const normalised = normaliseArguments(args).map((argument) => (argument === "--help-all" ? "--help" : argument));
  let parser = baseParser(columns);
  for (const command of COMMANDS) {
    parser = parser.command(
      command.positional === undefined ? command.name : `${command.name} [${command.positional.name}]`,
      command.summary,
      (builder) => withOptions(builder, command, showAll),
      (argv) => {
        chosen = { command, argv };
      },
    );
  }
  let printed = "";
  const onPrint = (error: unknown, _argv: unknown, output: string): void => {
    printed = output;
    if (error instanceof Error) throw badArgument(error.message, normalised);
  };
  await parser
    .fail((message, error) => {
      throw badArgument(message ?? error.message, normalised);
    })
    .parseAsync(normalised, {}, mayPrint(normalised) ? onPrint : undefined);
  if (printed !== "") await write(stdout, `${printed}\n`);
  return printed === "" ? chosen : undefined;
}

/**
 * Whether yargs may print help, the version or completions. Only then it is given a callback: with one, it renders the
 * command's help on every parse, which takes longer than a small command.
 */
function mayPrint(args: readonly string[]): boolean {
  return args.some((argument) => /^(?:-h|--help|--version|completion|--get-yargs-completions)(?:=|$)/.test(argument));
}

function baseParser(columns: number) {
  return yargs()
    .scriptName("nft-proxy")
    .usage("$0 <command>\n\nThe service proxy of a Kubernetes node, in nftables.")
    .parserConfiguration(YARGS_PARSER)
    .version(__VERSION__)
    .help()
    .alias("h", "help")
    .wrap(Math.min(columns, 100))
    .strict()
    .demandCommand(1, 1, "missing command", "more than one command")
    .epilogue("`nft-proxy <command> --help` shows a command's common options, `--help-all` all of them.")
    .completion("completion", "Print a script by which the shell completes commands and options")
    .exitProcess(false);
}

function withOptions(builder: Yargs, command: Command, showAll: boolean): Yargs {
  const { positional } = command;
  const named =
    positional === undefined
      ? builder
      : builder.positional(positional.name, { type: "string", describe: positional.description });
  return named.options(optionsOf(command, showAll)).example(examplesOf(command));
}

function examplesOf({ name, examples = [] }: Command): [string, string][] {
  return examples.map(([args, does]) => [`$0 ${name} ${args}`, does]);
}

function optionsOf(command: Command, showAll: boolean): ReturnType<typeof yargsOptions> {
  return yargsOptions(flagsOf(command), showAll);
}

function flagsOf({ flags }: Command): readonly Flag[] {
  const taken = ["config", ...flags];
  return FLAGS.filter((flag) => flag.target.kind !== "command" || taken.includes(flag.name));
}

/** Unknown words get the nearest known one as a hint. */
function badArgument(message: string, args: readonly string[]): AppError {
  const [, word] = /^Unknown argument: (.*)$/.exec(message) ?? [];
  const isCommand = word !== undefined && word === args[0];
  const text = isCommand ? `unknown command: ${word}` : message;
  const hint = suggestion(message, args) ?? "nft-proxy --help shows the commands and options";
  return new AppError("BAD_ARGUMENT", text, { hint });
}

function suggestion(message: string, args: readonly string[]): string | undefined {
  const [, unknown = ""] = /^Unknown (?:command|argument)s?: (.*)$/.exec(message) ?? [];
  const command = COMMANDS.find(({ name }) => name === args[0]);
  const found = unknown.split(", ").flatMap((word) => {
    const isFlag = args.some((argument) => argument.replace(/=.*/s, "") === `--${word}`);
    if (!isFlag)
      return (
        nearest(
          word,
          COMMANDS.map(({ name }) => name),
        ) ?? []
      );
    const flag = nearest(
      word,
      (command === undefined ? FLAGS : flagsOf(command)).map(({ name }) => name),
    );
    return flag === undefined ? [] : [`--${flag}`];
  });
  return found.length === 0 ? undefined : `did you mean ${alternatives([...new Set(found)])}?`;
}

/** Waits until a pipe has taken everything: exiting earlier would cut a long dump. */
async function write(stream: NodeJS.WritableStream, text: string | Uint8Array): Promise<void> {
  if (text.length === 0) return;
  await new Promise<void>((resolve, reject) => {
    stream.write(text, (error) => (error ? reject(error) : resolve()));
  });
}
