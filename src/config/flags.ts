import { AppError } from "../base/errors.ts";
import { quoted } from "../base/schema-error.ts";
import { withDefaults } from "./defaults.ts";
import { valueAt } from "./field-path.ts";
import type { Flag, FlagType } from "./flag.ts";
import { KUBE_PROXY_FLAGS } from "./kube-proxy-flags.ts";
import { OWN_FLAGS } from "./own-flags.ts";

/** Every flag there is, sorted by name. */
export const FLAGS: readonly Flag[] = [...KUBE_PROXY_FLAGS, ...OWN_FLAGS].sort((a, b) => (a.name < b.name ? -1 : 1));

const BY_NAME: ReadonlyMap<string, Flag> = new Map(FLAGS.map((flag) => [flag.name, flag]));

/** One entry of what yargs' `options()` takes. */
export interface YargsOption {
  readonly type: "boolean" | "string" | "array";
  readonly string?: true;
  readonly requiresArg?: true;
  readonly alias?: string;
  readonly hidden?: true;
  readonly description: string;
  readonly defaultDescription?: string;
  readonly group: string;
}

/**
 * How yargs must parse for flags to mean what they do in Go: no `--no-x`, no numbers made of texts, no copies under
 * camel-case names. For yargs' `parserConfiguration()`.
 */
export const YARGS_PARSER = {
  "boolean-negation": false,
  "camel-case-expansion": false,
  "dot-notation": false,
  "parse-numbers": false,
  "parse-positional-numbers": false,
  "short-option-groups": false,
} as const;

const YARGS_TYPES: Readonly<Record<FlagType, Pick<YargsOption, "type" | "string" | "requiresArg">>> = {
  boolean: { type: "boolean" },
  duration: { type: "string", requiresArg: true },
  float: { type: "string", requiresArg: true },
  integer: { type: "string", requiresArg: true },
  list: { type: "string", requiresArg: true },
  "path-list": { type: "array", string: true, requiresArg: true },
  string: { type: "string", requiresArg: true },
};

/**
 * The flags as yargs' `options()` takes them. Those without effect are accepted and hidden from `--help`; yargs' own
 * (`help`, `version`) are left to it. None has a default of its own: a flag that was not given must not look given.
 */
export function yargsOptions(flags: readonly Flag[] = FLAGS): Record<string, YargsOption> {
  return Object.fromEntries(
    flags.filter(({ target }) => target.kind !== "parser").map((flag) => [flag.name, yargsOption(flag)]),
  );
}

function yargsOption(flag: Flag): YargsOption {
  const { type, target, description } = flag;
  const preset = target.kind === "field" ? valueAt(withDefaults({}), target.path) : undefined;
  const shown = preset === undefined || preset === false ? "" : String(preset);
  return {
    ...YARGS_TYPES[type],
    ...(flag.alias === undefined ? {} : { alias: flag.alias }),
    description,
    group: OWN_FLAGS.includes(flag) ? "Options of its own:" : "Options as kube-proxy's:",
    ...(shown === "" ? {} : { defaultDescription: shown }),
    ...(target.kind === "ignored" ? { hidden: true } : {}),
  };
}

/**
 * Rewrites arguments that Go's pflag knows and yargs does not: underscores in names (`--cluster_cidr`), Go's
 * spellings of a boolean (`--masquerade-all=T`), and `-v4`. What follows `--` is left alone.
 *
 * @throws AppError BAD_ARGUMENT for a boolean flag whose value is neither true nor false.
 */
export function normaliseArguments(args: readonly string[]): string[] {
  const end = args.indexOf("--");
  const [flags, rest] = end === -1 ? [args, []] : [args.slice(0, end), args.slice(end)];
  return [...flags.map(normaliseArgument), ...rest];
}

function normaliseArgument(argument: string): string {
  if (/^-v\d+$/.test(argument)) return `-v=${argument.slice(2)}`;
  const [, given, equals, value] = /^--([a-z][\w-]*)(?:(=)(.*))?$/s.exec(argument) ?? [];
  const name = given?.replaceAll("_", "-");
  const flag = BY_NAME.get(name ?? "");
  if (flag === undefined) return argument;
  if (equals === undefined) return `--${name}`;
  return `--${name}=${flag.type === "boolean" ? goBoolean(flag.name, value ?? "") : value}`;
}

/** Source: Go's strconv.ParseBool. */
function goBoolean(name: string, text: string): boolean {
  if (["1", "t", "T", "TRUE", "true", "True"].includes(text)) return true;
  if (["0", "f", "F", "FALSE", "false", "False"].includes(text)) return false;
  throw new AppError("BAD_ARGUMENT", `--${name} must be true or false, not ${quoted(text)}`);
}

/** What a flag was given as: booleans, lists and numbers already made of the text, if it is one. */
export type FlagValue = boolean | number | string | readonly string[];

/** A flag that was given on the command line. */
export interface GivenFlag {
  readonly source: "flag";
  readonly flag: Flag;
  readonly value: FlagValue;
}

/**
 * Picks out of parsed arguments the flags that set options (or are ignored); commands read their own. A single-valued
 * flag that is given twice counts as given last, as in kube-proxy.
 *
 * @param argv what yargs made of the arguments with {@link yargsOptions} and {@link YARGS_PARSER}.
 */
export function readFlags(argv: Readonly<Record<string, unknown>>): GivenFlag[] {
  return FLAGS.filter(({ name, target }) => {
    return argv[name] !== undefined && (target.kind === "field" || target.kind === "ignored");
  }).map((flag) => ({ source: "flag", flag, value: flagValue(flag.type, argv[flag.name]) }));
}

function flagValue(type: FlagType, given: unknown): FlagValue {
  const texts = [given].flat().map(String);
  const last = texts.at(-1) ?? "";
  switch (type) {
    case "boolean":
      return last === "true";
    case "list":
      return texts.flatMap((text) => (text === "" ? [] : text.split(",")));
    case "path-list":
      return texts;
    case "integer":
      return /^[+-]?(?:0|[1-9]\d*)$/.test(last) ? Number(last) : last;
    case "float":
      return /^[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?$/i.test(last) ? Number(last) : last;
    case "duration":
    case "string":
      return last;
  }
}
