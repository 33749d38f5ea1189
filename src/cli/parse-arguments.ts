import { AppError } from "../base/errors.ts";
import { quoted } from "../base/text.ts";
import type { Flag } from "../config/option.ts";
import { FLAGS } from "./flags.ts";

/** The arguments of a command line by their meaning. */
export interface ParsedArguments {
  /** The arguments that are neither flags nor values of flags: the command and its own argument. */
  readonly words: readonly string[];
  /** By flag name: the last value of a boolean flag, and all texts of another. A flag that is not given is absent. */
  readonly values: Readonly<Record<string, boolean | readonly string[]>>;
  /** Flags that do not exist, as they were given, without a value: `--form`. */
  readonly unknown: readonly string[];
}

/** Every flag by each of its spellings: `--from`, `-f`, `-v`, `--v`. */
const BY_SPELLING: ReadonlyMap<string, Flag> = new Map(
  FLAGS.flatMap((flag) => {
    const letters = [flag.alias ?? "", flag.name].filter((text) => text.length === 1);
    return [`--${flag.name}`, ...letters.map((letter) => `-${letter}`)].map(
      (spelling) => [spelling, flag] as const,
    );
  }),
);

/** The flag that is spelled like this, without a value: `--from`, `-f`. */
export function flagOfSpelling(spelling: string): Flag | undefined {
  return BY_SPELLING.get(spelling);
}

/**
 * Parses arguments as Go's pflag does: `--name value`, `--name=value`, `-n value`, `-n=value` and `-nvalue`, underscores
 * in names, a boolean's value only after an equals sign and in Go's spellings, no flags after `--`. Unlike there, an
 * argument that begins with a dash is a value only if it is `-` or a negative number: after a forgotten value,
 * `--kubeconfig --v=4` is an error, and not a file of that name. Source: https://pkg.go.dev/github.com/spf13/pflag
 * @param takesWord whether a command takes an argument of its own. A list of paths takes one path from each of its
 *   flags there, and every word that follows elsewhere: `--from a b`
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
    if (texts.length === 0)
      throw new AppError("BAD_ARGUMENT", `${spelling} needs a value: ${flag.description}`);
    values.set(flag.name, texts);
  }
  return { words: [...words, ...args.slice(next)], values: Object.fromEntries(values), unknown };
}

/** A lone dash is standard input. */
function isFlag(argument: string): boolean {
  return argument.startsWith("-") && argument !== "-";
}

/** The values that begin at `index`; a value may be a negative number. */
function valuesAt(args: readonly string[], index: number, limit: number): string[] {
  const rest = args.slice(index, index + limit);
  const end = rest.findIndex((argument) => isFlag(argument) && !/^-\d/.test(argument));
  return end === -1 ? rest : rest.slice(0, end);
}

interface GivenSpelling {
  readonly spelling: string;
  readonly flag: Flag | undefined;
  /** The value in the same argument, if there is one. */
  readonly value: string | undefined;
}

/** Splits `--name` and `--name=value`. */
function namedFlag(argument: string): GivenSpelling {
  const [, given = argument, value] = /^([^=]*)(?:=(.*))?$/s.exec(argument) ?? [];
  const spelling = `--${given.slice(2).replaceAll("_", "-")}`;
  const flag = BY_SPELLING.get(spelling);
  return { spelling: flag === undefined ? given : spelling, flag, value };
}

/**
 * Splits `-n`, `-nvalue` and `-n=value`. No flag without a value has a letter beside `-h`, so that there are no groups. A
 * name with one dash is unknown: pflag reads `-from` as `-f rom`.
 */
function letterFlag(argument: string): GivenSpelling {
  const [spelling, joined] = [argument.slice(0, 2), argument.slice(2)];
  const whole = argument.replace(/=.*/s, "");
  const flag = BY_SPELLING.get(spelling);
  const mayHaveValue = flag?.type !== "boolean" || joined.startsWith("=");
  const isName = whole.length > 2 && BY_SPELLING.has(`-${whole}`);
  if (flag === undefined || isName || (joined !== "" && !mayHaveValue))
    return { spelling: whole, flag: undefined, value: undefined };
  return { spelling, flag, value: joined === "" ? undefined : joined.replace(/^=/, "") };
}

/** Source: https://pkg.go.dev/strconv#ParseBool */
function goBoolean(name: string, text: string): boolean {
  if (["1", "t", "T", "TRUE", "true", "True"].includes(text)) return true;
  if (["0", "f", "F", "FALSE", "false", "False"].includes(text)) return false;
  throw new AppError("BAD_ARGUMENT", `--${name} must be true or false, not ${quoted(text)}`);
}
