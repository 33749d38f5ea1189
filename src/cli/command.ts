import type { Flag } from "../config/option.ts";
import { FLAGS } from "./flags.ts";
import type { CommandResult } from "./output.ts";
import type { ParsedArguments } from "./parse-arguments.ts";
import type { Progress } from "./terminal.ts";

/** The arguments of a command: its flags by name, and its own argument by its name in {@link Command.positional}. */
export type Argv = ParsedArguments["values"];

/**
 * Runs a command to its end.
 * @throws AppError
 */
export type RunCommand = (argv: Argv, progress: Progress) => Promise<CommandResult>;

/** An argument without a flag. */
interface Positional {
  readonly name: string;
  readonly description: string;
  /** Its completions; files if absent. */
  readonly values?: "services" | readonly string[];
}

/** A command as the argument parser knows it; its code is loaded only when it runs, so that `--help` is quick. */
export interface Command {
  readonly name: string;
  readonly summary: string;
  /** An argument without a flag, where it takes one. */
  readonly positional?: Positional;
  /** The formats of its `--output`, if they are not {@link FORMATS}. */
  readonly formats?: readonly string[];
  /** Names of its own flags, besides those of the configuration. */
  readonly flags: readonly string[];
  /** Names of the flags of the configuration that its help shows; `--help-all` shows the others, too. */
  readonly common: readonly string[];
  /** What a flag means to this command, by name, where that is narrower than its description. */
  readonly meanings?: Readonly<Record<string, string>>;
  /** Exit code 1 is one of this command's answers, as diff(1) has it: every failure to answer is 2. */
  readonly answersByExitCode?: true;
  /** Arguments after the command's name, each with its meaning. */
  readonly examples?: readonly (readonly [args: string, does: string])[];
  readonly load: () => Promise<{ readonly run: RunCommand }>;
}

/** The formats of most commands' `--output`. */
export const FORMATS: readonly string[] = ["text", "json", "yaml"];

/** A flag's texts, for flags that can be given more than once. */
export function listArgument(argv: Argv, name: string): string[] {
  return [argv[name] ?? []].flat().map(String);
}

/** A flag's text, undefined when it was not given. */
export function textArgument(argv: Argv, name: string): string | undefined {
  return listArgument(argv, name).at(-1);
}

/** Whether a boolean flag was given as true. */
export function isSet(argv: Argv, name: string): boolean {
  return argv[name] === true;
}

/** The flags that a command takes: its own, and those of the configuration. */
export function flagsOf({ flags }: Command): readonly Flag[] {
  const taken = ["config", ...flags];
  return FLAGS.filter(({ name, target }) => target.kind !== "command" || taken.includes(name));
}

/** The flags that a command's help shows. @param showAll all that are accepted and have an effect, not only its own and the common ones */
export function shownFlags(command: Command, showAll: boolean): readonly Flag[] {
  const shown = ["config", ...command.common];
  return flagsOf(command).filter(({ name, target: { kind } }) => {
    return kind !== "ignored" && (showAll || kind !== "field" || shown.includes(name));
  });
}

/** How the script that `completion` prints asks for completions: this argument, then the words after the program. */
export const COMPLETION_ARGUMENT = "--complete";
