import { setTimeout as sleep } from "node:timers/promises";
import { AppError } from "../../base/errors.ts";
import type { Flag } from "../../base/option.ts";
import { loadDesired } from "../../inspect/load/desired.ts";
import { namespaceOf, type ServiceName } from "../../model/ids.ts";
import { type Argv, type Command, FORMATS, shownFlags, textArgument } from "../command.ts";
import { requestBesideDaemon } from "../options.ts";
import { FLAG_OF_SPELLING, parseArguments } from "../parse-arguments.ts";
import { COMMANDS, commandOf, takesWord } from "./commands.ts";

/** Maximum time to load names of Services, milliseconds: a shell must not hang. */
const NAMES_WITHIN_MS = 3000;

/**
 * Completes the last word of a command line: commands, flags, and values of a flag or of a positional
 * argument.
 * @param given the words after the program's name. Unlike other shells, bash also splits them at equals
 *   signs.
 * @returns nothing if the shell should complete files
 */
export async function completions(given: readonly string[]): Promise<string[]> {
  const last = given.at(-1) ?? "";
  const [, flag, value] = /^(--[\w-]+)=(.*)$/s.exec(last) ?? [];
  if (flag !== undefined) {
    return (await completions([...given.slice(0, -1), flag, value ?? ""])).map((found) => `${flag}=${found}`);
  }
  const current = last === "=" ? "" : last;
  const before = (last === "=" ? given : given.slice(0, -1)).filter((word) => word !== "=");
  return (await candidates(before, current)).filter((found) => found.startsWith(current));
}

async function candidates(before: readonly string[], current: string): Promise<readonly string[]> {
  const valued = FLAG_OF_SPELLING.get(before.at(-1) ?? "");
  const isValue = valued !== undefined && valued.type !== "boolean";
  const { words, values } = parsed(isValue ? before.slice(0, -1) : before);
  const command = commandOf(words[0]);
  if (command === undefined)
    return words.length > 0 ? [] : [...COMMANDS.map(({ name }) => name), "--help", "--help-all", "--version"];
  if (isValue) return await valuesOf(valued, command, values);
  if (current.startsWith("-")) {
    const common = shownFlags(command, false).map(spellingOf);
    return common.some((name) => name.startsWith(current))
      ? common
      : shownFlags(command, true).map(spellingOf);
  }
  if (words.length > 1) return [];
  const own = command.positional?.values ?? [];
  return own === "services" ? await namesIn(values) : own;
}

/** As `--help` prints it: `--from`, but `-v`. */
function spellingOf({ name }: Flag): string {
  return `${name.length === 1 ? "-" : "--"}${name}`;
}

/** Parses the arguments so far. Returns none if they are invalid. */
function parsed(args: readonly string[]): ReturnType<typeof parseArguments> {
  try {
    return parseArguments(args, takesWord);
  } catch (error) {
    if (error instanceof AppError) return { words: [], values: {}, unknown: [] };
    throw error;
  }
}

async function valuesOf(
  { name, values = [] }: Flag,
  { formats = FORMATS }: Command,
  argv: Argv,
): Promise<readonly string[]> {
  if (name === "output") return formats;
  if (name === "namespace") return [...new Set((await serviceNames(argv)).map(namespaceOf))];
  return name === "service" ? await namesIn(argv) : values;
}

/** The names of Services, without the namespace if `--namespace` gives it. */
async function namesIn(argv: Argv): Promise<string[]> {
  const [names, namespace] = [await serviceNames(argv), textArgument(argv, "namespace")];
  if (namespace === undefined) return names;
  return names
    .filter((name) => namespaceOf(name) === namespace)
    .map((name) => name.slice(namespace.length + 1));
}

/** The names of the Services of `--from` or of the cluster; none if they cannot be loaded in time. */
async function serviceNames(argv: Argv): Promise<ServiceName[]> {
  try {
    const loaded = loadDesired(await requestBesideDaemon(argv, { step: () => {}, notice: () => {} }));
    const late = sleep(NAMES_WITHIN_MS, undefined, { ref: false });
    return (await Promise.race([loaded, late]))?.cache.serviceNames() ?? [];
  } catch {
    return [];
  }
}
