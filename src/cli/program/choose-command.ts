import { oneOf } from "../../base/argument.ts";
import { type AppError, badArgument } from "../../base/errors.ts";
import { didYouMean } from "../../base/nearest.ts";
import { listText } from "../../base/text.ts";
import { formerFlagHint } from "../../config/former-settings.ts";
import { type Argv, type Command, FORMATS, flagsOf, textArgument } from "../command.ts";
import { parseArguments } from "../parse-arguments.ts";
import { COMMANDS, commandOf, takesWord } from "./commands.ts";

/** The request of a command line. */
export type Choice =
  | { readonly kind: "version" }
  /** Help on a command, or on the program if undefined; with every option, or only the common ones. */
  | { readonly kind: "help"; readonly command: Command | undefined; readonly showAll: boolean }
  | { readonly kind: "run"; readonly command: Command; readonly argv: Argv };

/**
 * Parses the arguments and finds the command.
 * @param args without the program's own name
 * @throws AppError BAD_ARGUMENT
 */
export function chooseCommand(args: readonly string[]): Choice {
  const { words, values, unknown } = parseArguments(args, takesWord);
  const asksForHelp = words[0] === "help";
  const [name, ...rest] = asksForHelp ? words.slice(1) : words;
  const command = commandOf(name);
  if (values.version === true) return { kind: "version" };
  if (name !== undefined && command === undefined) throw unknownCommand(name);
  const showAll = values["help-all"] === true;
  if (asksForHelp || showAll || values.help === true) return { kind: "help", command, showAll };
  if (command === undefined) throw missingCommand(unknown[0]);
  for (const spelling of unknown) throw unknownOption(command, spelling);
  for (const flag of Object.keys(values)) refuseOthers(command, flag);
  const format = textArgument(values, "output");
  if (format !== undefined) oneOf("--output", command.formats ?? FORMATS, format);
  const [own, ...extra] = command.positional === undefined ? [undefined, ...rest] : rest;
  if (extra[0] !== undefined) throw unexpectedArgument(command, extra[0]);
  const { positional } = command;
  return {
    kind: "run",
    command,
    argv: positional && own !== undefined ? { ...values, [positional.name]: [own] } : values,
  };
}

const HELP = "nft-proxy --help shows the commands";

/** @param option an unknown one, such as `--hlep`; undefined for none */
function missingCommand(option: string | undefined): AppError {
  const hint = option === undefined ? undefined : didYouMean(option, ["--help", "--help-all", "--version"]);
  const message = option === undefined ? "missing command" : `unknown option: ${option}`;
  return badArgument(message, { hint: hint ?? HELP });
}

function unknownCommand(name: string): AppError {
  const names = COMMANDS.map((command) => command.name);
  return badArgument(`unknown command: ${name}`, { hint: didYouMean(name, names) ?? HELP });
}

function unknownOption(command: Command, spelling: string): AppError {
  const known = flagsOf(command).flatMap(({ name }) => (name.length === 1 ? [] : [`--${name}`]));
  const hint = formerFlagHint(spelling.replace(/^--/, "")) ?? didYouMean(spelling, known) ?? helpOf(command);
  return badArgument(noOption(command, spelling), { hint });
}

function unexpectedArgument(command: Command, word: string): AppError {
  const isBoolean = word === "true" || word === "false";
  const hint = isBoolean
    ? `a boolean option takes its value after an equals sign: --name=${word}`
    : command.positional === undefined && command.flags.includes("from")
      ? `-f names files: -f ${word}; ${helpOf(command)}`
      : helpOf(command);
  return badArgument(`unexpected argument: ${word}`, { hint });
}

/** Refuses a flag that only other commands have. */
function refuseOthers(command: Command, flag: string): void {
  if (flagsOf(command).some(({ name }) => name === flag)) return;
  const users = COMMANDS.filter(({ flags }) => flags.includes(flag)).map(({ name }) => name);
  throw badArgument(noOption(command, `--${flag}`), {
    hint: command.lacks?.[flag] ?? `it is an option of ${listText(users, Infinity)}`,
  });
}

function noOption({ name }: Command, spelling: string): string {
  return `${name} has no option ${spelling}`;
}

function helpOf({ name }: Command): string {
  return `nft-proxy ${name} --help shows its options`;
}
