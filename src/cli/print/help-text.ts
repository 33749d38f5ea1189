import { alternatives } from "../../base/text.ts";
import { defaultText } from "../../config/flags.ts";
import type { Flag, FlagType } from "../../config/option.ts";
import { type Command, shownFlags } from "../command.ts";
import { wrapped } from "./style.ts";

const SUMMARY = "The service proxy of a Kubernetes node, in nftables.";

/** Shorter lines are easier to read than those of a wide terminal. */
const MAX_COLUMNS = 100;
/** Names longer than this get their description on the next line. */
const MAX_NAME_COLUMNS = 34;

/** A name and its description. */
type Row = readonly [name: string, description: string];

/** The help of the program: its commands. @param columns of the terminal */
export function programHelp(commands: readonly Command[], columns: number): string {
  return sections(columns, [
    ["nft-proxy <command>"],
    [SUMMARY],
    table(
      "Commands:",
      columns,
      commands.map((command): Row => [usage(command), command.summary]),
    ),
    table("Options:", columns, [
      ["-h, --help", "Show help"],
      ["    --version", "Show the version"],
    ]),
    ["`nft-proxy <command> --help` shows a command's common options, `--help-all` all of them."],
  ]);
}

/** The help of one command. @param showAll whether to show every option, not only the common ones */
export function commandHelp(command: Command, showAll: boolean, columns: number): string {
  const { name, positional, examples = [] } = command;
  const flags = shownFlags(command, showAll);
  const [own, others] = [flags.filter((flag) => isOwn(flag)), flags.filter((f) => !isOwn(f))];
  const rows = (some: readonly Flag[]): Row[] => some.map((flag) => flagRow(flag, command));
  return sections(columns, [
    [`nft-proxy ${usage(command)} [options]`],
    [command.summary],
    positional === undefined ? [] : table("Arguments:", columns, [[positional.name, positional.description]]),
    table("Options:", columns, rows(own)),
    table("Options of kube-proxy:", columns, rows(others)),
    table(
      "Examples:",
      columns,
      examples.map(([args, does]): Row => [`nft-proxy ${name} ${args}`, does]),
    ),
  ]);
}

/** Whether kube-proxy lacks a flag, or every program has it. */
function isOwn(flag: Flag): boolean {
  return flag.isOwn === true || flag.target.kind === "parser";
}

/** A command's name, and that of its own argument. */
function usage({ name, positional }: Command): string {
  return positional === undefined ? name : `${name} [${positional.name}]`;
}

/** The values of a flag in its row; a boolean has none. */
const VALUE_NAMES: Readonly<Record<FlagType, string>> = {
  boolean: "",
  duration: " duration",
  "feature-gates": " name=true|false",
  float: " number",
  integer: " number",
  list: " list",
  "path-list": " path...",
  string: " text",
};

function flagRow(flag: Flag, { formats = ["text", "json"], meanings = {} }: Command): Row {
  const letter = flag.name.length === 1 ? flag.name : flag.alias;
  const spellings =
    flag.name.length === 1 ? `-${letter}` : `${letter === undefined ? "    " : `-${letter}, `}--${flag.name}`;
  const description =
    meanings[flag.name] ?? (flag.name === "output" ? `Output format: ${alternatives(formats)}` : flag.description);
  const preset = defaultText(flag);
  return [`${spellings}${VALUE_NAMES[flag.type]}`, preset === "" ? description : `${description} (default: ${preset})`];
}

function sections(columns: number, parts: readonly (readonly string[])[]): string {
  const width = Math.min(columns, MAX_COLUMNS);
  const texts = parts.filter((lines) => lines.length > 0);
  return `${texts.map((lines) => lines.flatMap((line) => (line.startsWith(" ") ? [line] : wrapped(line, "", "", width))).join("\n")).join("\n\n")}\n`;
}

/** A titled table of two columns, of which the second one is wrapped; nothing without rows. */
function table(title: string, columns: number, rows: readonly Row[]): string[] {
  if (rows.length === 0) return [];
  const width = Math.min(columns, MAX_COLUMNS);
  const nameColumns = Math.min(MAX_NAME_COLUMNS, Math.max(...rows.map(([name]) => name.length)));
  const indent = " ".repeat(nameColumns + 4);
  const lines = rows.flatMap(([name, description]) => {
    const isLong = name.length > nameColumns;
    const first = isLong ? indent : `  ${name.padEnd(nameColumns)}  `;
    return [...(isLong ? [`  ${name}`] : []), ...wrapped(description, first, indent, width)];
  });
  return [title, ...lines];
}
