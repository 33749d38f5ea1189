import { badArgument } from "../base/errors.ts";
import type { Flag } from "../base/option.ts";
import { quoted } from "../base/text.ts";
import { FLAGS } from "./flags.ts";

/** A parsed command line. */
export interface ParsedArguments {
  /** The arguments that are neither flags nor their values: the command and its positional argument. */
  readonly words: readonly string[];
  /** By flag name: the last value of a boolean flag, or all values of another. Absent for flags not given. */
  readonly values: Readonly<Record<string, boolean | readonly string[]>>;
  /** Unknown flags as they were given, without values: `--form`. */
  readonly unknown: readonly string[];
}

/** Every flag by each of its spellings: `--from`, `-f`, `-v`, `--v`. */
export const FLAG_OF_SPELLING: ReadonlyMap<string, Flag> = new Map(
  FLAGS.flatMap((flag) => {
    const letters = [flag.alias ?? "", flag.name].filter((text) => text.length === 1);
    return [`--${flag.name}`, ...letters.map((letter) => `-${letter}`)].map(
      (spelling) => [spelling, flag] as const,
    );
  }),
);

/**
 * Parses arguments as Go's pflag does: `--name value`, `--name=value`, `-n value`, `-n=value` and `-nvalue`.
 * Names may have underscores, a boolean's value follows an equals sign in one of Go's spellings, and `--`
 * ends the flags. Unlike in pflag, a value only begins with a dash if it is `-` or a negative number:
 * `--kubeconfig --v=4` lacks a value, and does not name a file `--v=4`. Source:
 * https://pkg.go.dev/github.com/spf13/pflag
 * @param takesWord whether a command takes a positional argument. If it does, each flag of a list of paths
 *   takes one path; otherwise it takes all words that follow: `--from a b`
 * @throws AppError BAD_ARGUMENT for a missing value, or a boolean that is neither true nor false
 */
export function parseArguments(
  args: readonly string[],
  takesWord: (command: string | undefined) => boolean,
): ParsedArguments {
  const values = new Map<string, boolean | string[]>();
  const [words, unknown]: [string[], string[]] = [[], []];
  let next = 0;
  while (next < args.length) {
    const argument = args[next] ?? "";
    next += 1;
    if (argument === "--") break;
    if (!isFlag(argument)) {
      words.push(argument);
      continue;
    }
    const { spelling, flag, value } = argument.startsWith("--") ? namedFlag(argument) : letterFlag(argument);
    if (flag === undefined) {
      unknown.push(spelling);
      continue;
    }
    if (flag.type === "boolean") {
      values.set(flag.name, goBoolean(flag.name, value ?? "true"));
      continue;
    }
    const isList = flag.type === "path-list" && !takesWord(words[0]);
    const following = valuesAt(args, next, isList ? args.length : value === undefined ? 1 : 0);
    next += following.length;
    const texts = [
      ...[values.get(flag.name) ?? []].flat().map(String),
      ...(value === undefined ? [] : [value]),
      ...following,
    ];
    if (texts.length === 0 || (flag.type === "path-list" && texts.includes("")))
      throw badArgument(`${spelling} needs a value: ${flag.description}`);
    values.set(flag.name, texts);
  }
  return { words: [...words, ...args.slice(next)], values: Object.fromEntries(values), unknown };
}

/** A single dash is a value: standard input. */
function isFlag(argument: string): boolean {
  return argument.startsWith("-") && argument !== "-";
}

/** At most `limit` values from `index` on. Negative numbers are values, not flags. */
function valuesAt(args: readonly string[], index: number, limit: number): string[] {
  const rest = args.slice(index, index + limit);
  const end = rest.findIndex((argument) => isFlag(argument) && !/^-\d/.test(argument));
  return end === -1 ? rest : rest.slice(0, end);
}

/** Splits `--name` and `--name=value`; `flag` is undefined if unknown, `value` without one. */
function namedFlag(argument: string) {
  const [, given = argument, value] = /^([^=]*)(?:=(.*))?$/s.exec(argument) ?? [];
  const spelling = `--${given.slice(2).replaceAll("_", "-")}`;
  const flag = FLAG_OF_SPELLING.get(spelling);
  return { spelling: flag === undefined ? given : spelling, flag, value };
}

/**
 * Splits `-n`, `-nvalue` and `-n=value`. Groups of letters are not supported: `-h` is the only letter without
 * a value. A long name after one dash is unknown, whereas pflag reads `-from` as `-f rom`.
 */
function letterFlag(argument: string) {
  const [spelling, joined] = [argument.slice(0, 2), argument.slice(2)];
  const whole = argument.replace(/=.*/s, "");
  const flag = FLAG_OF_SPELLING.get(spelling);
  const mayHaveValue = flag?.type !== "boolean" || joined.startsWith("=");
  const isName = whole.length > 2 && FLAG_OF_SPELLING.has(`-${whole}`);
  if (flag === undefined || isName || (joined !== "" && !mayHaveValue))
    return { spelling: whole, flag: undefined, value: undefined };
  return { spelling, flag, value: joined === "" ? undefined : joined.replace(/^=/, "") };
}

/** Source: https://pkg.go.dev/strconv#ParseBool */
function goBoolean(name: string, text: string): boolean {
  if (["1", "t", "T", "TRUE", "true", "True"].includes(text)) return true;
  if (["0", "f", "F", "FALSE", "false", "False"].includes(text)) return false;
  throw badArgument(`--${name} must be true or false, not ${quoted(text)}`);
}
