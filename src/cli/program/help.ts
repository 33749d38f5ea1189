import yargs, { type Options, type Argv as Yargs } from "yargs";
import { alternatives } from "../../base/text.ts";
import { defaultText } from "../../config/flags.ts";
import type { Flag, FlagType } from "../../config/option.ts";
import { type Command, FORMATS, shownFlags } from "../command.ts";
import { COMMANDS } from "./commands.ts";

/** Shorter lines are easier to read than those of a wide terminal. */
const MAX_COLUMNS = 100;

/** yargs' types of values, which its help shows. */
const TYPES: Readonly<Record<FlagType, Options>> = {
  boolean: { type: "boolean" },
  duration: { type: "string" },
  "feature-gates": { type: "string" },
  float: { type: "number" },
  integer: { type: "number" },
  list: { type: "array" },
  "path-list": { type: "array" },
  string: { type: "string" },
};

/** The help of the program: its commands. @param columns of the terminal */
export async function programHelp(columns: number): Promise<string> {
  const parser = withCommands(emptyParser())
    .usage("nft-proxy <command>\n\nThe service proxy of a Kubernetes node, in nftables.")
    .epilogue("`nft-proxy <command> --help` shows a command's common options, `--help-all` all of them.");
  return await textOf(parser, columns);
}

/** The help of one command. @param showAll whether to show every option, not only the common ones */
export async function commandHelp(command: Command, showAll: boolean, columns: number): Promise<string> {
  const { name, summary, positional, examples = [] } = command;
  const parser = emptyParser()
    .usage(`nft-proxy ${usage(command)} [options]\n\n${summary}`)
    .updateStrings({ "Positionals:": "Arguments:" })
    .command(positional === undefined ? "$0" : `$0 [${positional.name}]`, summary, (builder) => {
      if (positional !== undefined)
        builder.positional(positional.name, { type: "string", describe: positional.description });
      return withFlags(builder, command, showAll);
    })
    .example(examples.map(([args, does]): [string, string] => [`nft-proxy ${name} ${args}`, does]));
  return await textOf(parser, columns);
}

/**
 * The commands, or the flags of one, that complete a word.
 * @param before the words before it
 * @param showAll every flag, not only the common ones
 */
export async function completedNames(
  command: Command | undefined,
  before: readonly string[],
  current: string,
  showAll: boolean,
): Promise<string[]> {
  const parser =
    command === undefined ? withCommands(emptyParser()) : withFlags(emptyParser(), command, showAll);
  const found = await parser.getCompletion([...before, current]);
  // For users of zsh and fish, yargs adds a description after a colon or a tab; the word may be completed in another shell.
  return found.map((name) => name.replace(/[:\t].*/s, "")).filter((name) => name.startsWith(current));
}

/** A parser of yargs without what pflag has not: no negated names, groups of letters, numbers or nested objects. */
function emptyParser(): Yargs {
  const settings = {
    "boolean-negation": false,
    "camel-case-expansion": false,
    "dot-notation": false,
    "greedy-arrays": false,
    "parse-numbers": false,
    "parse-positional-numbers": false,
    "sort-commands": false,
    "strip-aliased": true,
  } as const;
  // Its own texts name the program, and are in English whatever the user's language is, as all others are.
  return yargs().scriptName("").locale("en").parserConfiguration(settings).help(false).version(false);
}

async function textOf(parser: Yargs, columns: number): Promise<string> {
  return `${await parser.wrap(Math.min(columns, MAX_COLUMNS)).getHelp()}\n`;
}

/** Every command, without its flags: they would cost time and are not shown. */
function withCommands(parser: Yargs): Yargs {
  for (const command of COMMANDS) parser.command(usage(command), command.summary);
  return parser.option("help", { alias: "h", type: "boolean", describe: "Show help" }).option("version", {
    type: "boolean",
    describe: "Show the version",
  });
}

function withFlags(parser: Yargs, command: Command, showAll: boolean): Yargs {
  const flags = shownFlags(command, showAll);
  return parser.options(Object.fromEntries(flags.map((flag) => [flag.name, optionOf(flag, command)])));
}

/** A command's name, and that of its own argument. */
function usage({ name, positional }: Command): string {
  return positional === undefined ? name : `${name} [${positional.name}]`;
}

function optionOf(flag: Flag, { formats = FORMATS, meanings = {} }: Command): Options {
  const { name, alias, type, description, target, isOwn } = flag;
  const preset = defaultText(flag);
  return {
    ...TYPES[type],
    describe: meanings[name] ?? (name === "output" ? `Output format: ${alternatives(formats)}` : description),
    group: isOwn || target.kind === "parser" ? "Options:" : "Options of kube-proxy:",
    ...(alias !== undefined && { alias }),
    ...(preset !== "" && { defaultDescription: preset }),
  };
}
