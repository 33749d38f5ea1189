import type { Flag } from "../base/option.ts";
import type { CommandResult } from "./command-result.ts";
import { FLAGS } from "./flags.ts";
import type { ParsedArguments } from "./parse-arguments.ts";

/**
 * The arguments of a command: its flags by name, and its positional argument by the name in {@link Command}.
 */
export type Argv = ParsedArguments["values"];

/** Where a command reports to people beside its output. */
export interface Reporter {
  /** Begins a step of a slow command, such as `reading objects`. */
  readonly step: (what: string) => void;
  /**
   * Adds lines for standard error, before the command returns: warnings and ignored objects. They precede the
   * output, or the error.
   */
  readonly notice: (lines: readonly string[]) => void;
}

/** Runs a command. @throws AppError */
export type RunCommand = (argv: Argv, reporter: Reporter) => Promise<CommandResult>;

/** A positional argument. */
interface Positional {
  readonly name: string;
  readonly description: string;
  /** Its completions; files if absent. */
  readonly values?: "services" | readonly string[];
}

/** A command for the argument parser and the help. Its code is only loaded when it runs. */
export interface Command {
  readonly name: string;
  readonly summary: string;
  readonly positional?: Positional;
  /** The formats of its `--output`, if they are not {@link FORMATS}. */
  readonly formats?: readonly string[];
  /** Names of its own flags; every command also takes those of the configuration. */
  readonly flags: readonly string[];
  /**
   * Names of the configuration's flags that `--help` shows, if they are not {@link ASKING_FLAGS}.
   * `--help-all` shows all of them.
   */
  readonly common?: readonly string[];
  /** Descriptions of flags that have a narrower meaning for this command, by name. */
  readonly meanings?: Readonly<Record<string, string>>;
  /** Hints about flags that it lacks and that users may expect, by name. */
  readonly lacks?: Readonly<Record<string, string>>;
  /** Example arguments, each with its meaning. */
  readonly examples?: readonly (readonly [args: string, does: string])[];
  readonly load: () => Promise<{ readonly run: RunCommand }>;
}

/** The name of the positional argument of every command of a feature. */
export const FEATURE_ARGUMENT = "what";

/** Flags that affect the desired state of a node. */
export const NODE_FLAGS: readonly string[] = [
  "cluster-cidr",
  "hostname-override",
  "nft-path",
  "nodeport-addresses",
];
/** Flags that find the cluster. */
export const CLUSTER_FLAGS: readonly string[] = ["kubeconfig", "master"];
/** Common flags of commands that ask the daemon or, without one, the cluster. */
export const ASKING_FLAGS: readonly string[] = [...NODE_FLAGS, ...CLUSTER_FLAGS, "daemon-socket"];

/** The formats of most commands' `--output`. */
export const FORMATS: readonly string[] = ["text", "json", "yaml"];

/** All values of a flag that can be repeated. */
export function listArgument(argv: Argv, name: string): string[] {
  return [argv[name] ?? []].flat().map(String);
}

/** The last value of a flag; undefined without the flag. */
export function textArgument(argv: Argv, name: string): string | undefined {
  return listArgument(argv, name).at(-1);
}

/** Whether a boolean flag is true. */
export function isSet(argv: Argv, name: string): boolean {
  return argv[name] === true;
}

/** The flags that a command takes: its own, and those of the configuration. */
export function flagsOf({ flags }: Command): readonly Flag[] {
  const taken = ["config", ...flags];
  return FLAGS.filter(({ name, target }) => target.kind !== "command" || taken.includes(name));
}

/**
 * The flags that a command's help shows.
 * @param showAll also flags of the configuration that are not common, but have an effect
 */
export function shownFlags(command: Command, showAll: boolean): readonly Flag[] {
  const shown = ["config", ...(command.common ?? ASKING_FLAGS)];
  return flagsOf(command).filter(({ name, target: { kind } }) => {
    return kind !== "ignored" && (showAll || kind !== "field" || shown.includes(name));
  });
}

/** The scripts of `completion` ask for completions by this argument, then the words of the command line. */
export const COMPLETION_ARGUMENT = "--complete";
