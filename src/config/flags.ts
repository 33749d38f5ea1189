import { AppError } from "../base/errors.ts";
import { quoted } from "../base/schema-error.ts";
import { withDefaults } from "./defaults.ts";
import { valueAt } from "./field-path.ts";
import type { Flag, FlagType, FlagValue } from "./flag.ts";
import { KUBE_PROXY_FLAGS } from "./kube-proxy-flags.ts";
import { OWN_FLAGS } from "./own-flags.ts";

/** All flags, sorted by name. */
export const FLAGS: readonly Flag[] = [...KUBE_PROXY_FLAGS, ...OWN_FLAGS].sort((a, b) => (a.name < b.name ? -1 : 1));

const BY_NAME: ReadonlyMap<string, Flag> = new Map(FLAGS.map((flag) => [flag.name, flag]));

/** One entry of the argument of yargs' `options()`. */
export interface YargsOption {
  readonly type: "boolean" | "string" | "array";
  readonly string?: true;
  readonly requiresArg?: true;
  readonly hidden?: true;
  readonly alias?: string;
  readonly description: string;
  readonly defaultDescription?: string;
  readonly group: string;
}

/**
 * The argument of yargs' `parserConfiguration()` that makes it parse flags as Go does: no `--no-x`, no conversion to
 * numbers, no copies under camel-case names.
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
  "feature-gates": { type: "string", requiresArg: true },
  float: { type: "string", requiresArg: true },
  integer: { type: "string", requiresArg: true },
  list: { type: "string", requiresArg: true },
  "path-list": { type: "array", string: true, requiresArg: true },
  string: { type: "string", requiresArg: true },
};

/** The flags of the configuration that `--help` shows; the others are shown by `--help-all`. */
const COMMON: ReadonlySet<string> = new Set([
  "cluster-cidr",
  "config",
  "daemon-socket",
  "hostname-override",
  "kubeconfig",
  "master",
  "nft-path",
  "nodeport-addresses",
  "v",
]);

/**
 * Returns the argument of yargs' `options()`. Flags without effect are hidden from `--help`; `help` and `version` are
 * yargs' own and not included. No flag has a default here, so that a missing flag can be told from a given one.
 * @param showAll whether the help shows all flags of the configuration, not only the common ones
 */
export function yargsOptions(flags: readonly Flag[] = FLAGS, showAll = true): Record<string, YargsOption> {
  return Object.fromEntries(
    flags.filter(({ target }) => target.kind !== "parser").map((flag) => [flag.name, yargsOption(flag, showAll)]),
  );
}

function yargsOption(flag: Flag, showAll: boolean): YargsOption {
  const { type, target, description, alias } = flag;
  const isHidden = target.kind === "ignored" || (target.kind === "field" && !showAll && !COMMON.has(flag.name));
  const preset = target.kind === "field" ? valueAt(withDefaults({}), target.path) : undefined;
  const shown = preset === undefined || preset === false ? "" : String(preset);
  return {
    ...YARGS_TYPES[type],
    description,
    group: OWN_FLAGS.includes(flag) ? "Options:" : "Options of kube-proxy:",
    ...(shown === "" ? {} : { defaultDescription: shown }),
    ...(alias === undefined ? {} : { alias }),
    ...(isHidden ? { hidden: true } : {}),
  };
}

/**
 * Rewrites arguments that Go's pflag accepts and yargs does not: underscores in names (`--cluster_cidr`), Go's
 * spellings of a boolean (`--masquerade-all=T`), and `-v4`. Arguments after `--` are not changed.
 * @throws AppError BAD_ARGUMENT for a boolean flag whose value is neither true nor false
 */
export function normaliseArguments(args: readonly string[]): string[] {
  const end = args.indexOf("--");
  const [flags, rest] = end === -1 ? [args, []] : [args.slice(0, end), args.slice(end)];
  return [...withInput(flags.map(normaliseArgument)), ...rest];
}

/** yargs takes a lone `-` for an argument of its own: `--from -` becomes `--from=-`, and the paths after it too. */
function withInput(args: readonly string[]): string[] {
  const joined: string[] = [];
  for (const argument of args) {
    const last = joined.at(-1);
    if (argument === "-" && (last === "--from" || last === "-f")) joined[joined.length - 1] = "--from=-";
    else joined.push(argument);
  }
  return joined;
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

/** Source: https://pkg.go.dev/strconv#ParseBool */
function goBoolean(name: string, text: string): boolean {
  if (["1", "t", "T", "TRUE", "true", "True"].includes(text)) return true;
  if (["0", "f", "F", "FALSE", "false", "False"].includes(text)) return false;
  throw new AppError("BAD_ARGUMENT", `--${name} must be true or false, not ${quoted(text)}`);
}

/** A flag that was given on the command line. */
export interface GivenFlag {
  readonly source: "flag";
  readonly flag: Flag;
  readonly value: FlagValue;
}

/**
 * Selects the flags that set options or are ignored from parsed arguments. Of a repeated flag, the last value counts, as
 * in kube-proxy.
 * @param argv the result of yargs with {@link yargsOptions} and {@link YARGS_PARSER}
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
    case "feature-gates":
      return featureGates(texts.join(","));
    case "integer":
      return /^[+-]?(?:0|[1-9]\d*)$/.test(last) ? Number(last) : last;
    case "float":
      return /^[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?$/i.test(last) ? Number(last) : last;
    case "duration":
    case "string":
      return last;
  }
}

/** Parses `A=true,B=false`. Returns a malformed text as it is, which fails validation later. */
function featureGates(text: string): FlagValue {
  const gates = text.split(",").map((gate) => /^\s*(\w+)=(true|false)\s*$/i.exec(gate));
  if (gates.includes(null)) return text;
  return Object.fromEntries(gates.map((gate) => [gate?.[1] ?? "", gate?.[2]?.toLowerCase() === "true"]));
}
