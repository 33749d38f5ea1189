import yargs, { type Options, type Argv as Yargs } from "yargs";
import type { Flag, FlagType } from "../../base/option.ts";
import { alternatives } from "../../base/text.ts";
import { defaultText } from "../../config/flags.ts";
import { type Command, FORMATS, shownFlags } from "../command.ts";
import { COMMANDS } from "./commands.ts";

/** Maximum width of the help: longer lines are hard to read. */
const MAX_COLUMNS = 100;

/** The types of values in yargs, which its help shows, other than texts. */
const TYPES: Readonly<Partial<Record<FlagType, NonNullable<Options["type"]>>>> = {
  boolean: "boolean",
  float: "number",
  integer: "number",
  list: "array",
  "path-list": "array",
};

/** The help of the program, which lists its commands. @param columns of the terminal */
export async function programHelp(columns: number): Promise<string> {
  const parser = emptyParser()
    .usage("nft-proxy <command>\n\nThe service proxy of a Kubernetes node, in nftables.")
    .option("help", { alias: "h", type: "boolean", describe: "Show help" })
    .option("version", { type: "boolean", describe: "Show the version" })
    .epilogue(
      "`nft-proxy <command> --help` shows the common options of a command, `--help-all` all of them.",
    );
  // Without their flags, which are not shown here and would cost time.
  for (const command of COMMANDS) parser.command(usage(command), command.summary);
  return await textOf(parser, columns);
}

/** The help of one command. @param showAll shows every option, not only the common ones */
export async function commandHelp(command: Command, showAll: boolean, columns: number): Promise<string> {
  const { name, summary, positional, examples = [] } = command;
  const flags = shownFlags(command, showAll);
  const options = Object.fromEntries(flags.map((flag) => [flag.name, optionOf(flag, command)]));
  const parser = emptyParser()
    .usage(`nft-proxy ${usage(command)} [options]\n\n${summary}`)
    .updateStrings({ "Positionals:": "Arguments:" })
    .command(positional === undefined ? "$0" : `$0 [${positional.name}]`, summary, (builder) => {
      if (positional !== undefined)
        builder.positional(positional.name, { type: "string", describe: positional.description });
      return builder.options(options);
    })
    .example(examples.map(([args, does]): [string, string] => [`nft-proxy ${name} ${args}`, does]));
  return await textOf(parser, columns);
}

/** A yargs parser without what pflag lacks: negated names, groups of letters, numbers and nested objects. */
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
  // Our texts name the program. yargs' texts are in English like ours, regardless of the user's language.
  return yargs().scriptName("").locale("en").parserConfiguration(settings).help(false).version(false);
}

async function textOf(parser: Yargs, columns: number): Promise<string> {
  return `${await parser.wrap(Math.min(columns, MAX_COLUMNS)).getHelp()}\n`;
}

/** A command's name and its positional argument. */
function usage({ name, positional }: Command): string {
  return positional === undefined ? name : `${name} [${positional.name}]`;
}

function optionOf(flag: Flag, { formats = FORMATS, meanings = {} }: Command): Options {
  const { name, alias, type, description, target, isOwn } = flag;
  const preset = defaultText(flag);
  return {
    type: TYPES[type] ?? "string",
    describe: meanings[name] ?? (name === "output" ? `Output format: ${alternatives(formats)}` : description),
    group: isOwn || target.kind === "parser" ? "Options:" : "Options of kube-proxy:",
    ...(alias !== undefined && { alias }),
    ...(preset !== "" && { defaultDescription: preset }),
  };
}
