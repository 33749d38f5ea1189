import type { Flag, FlagType, FlagValue } from "../base/option.ts";
import { valueAt, withDefaults } from "./configuration.ts";
import { IGNORED_FLAGS } from "./ignored-settings.ts";
import { FIELDS } from "./options.ts";

/**
 * The flags of the configuration, sorted by name. Some set a field; the others are kube-proxy's and ignored.
 */
export const CONFIG_FLAGS: readonly Flag[] = [...FIELDS.flatMap(({ flags }) => flags), ...IGNORED_FLAGS].sort(
  (a, b) => (a.name < b.name ? -1 : 1),
);

/** Default value of a flag as text; empty for flags without one. */
export function defaultText({ target }: Flag): string {
  const value = target.kind === "field" ? valueAt(withDefaults({}), target.path) : undefined;
  return value === undefined || value === false ? "" : String(value);
}

/** A flag that was given on the command line. */
export interface GivenFlag {
  readonly flag: Flag;
  readonly value: FlagValue;
}

/**
 * Selects the flags that set options or are ignored from parsed arguments. The last value of a repeated flag
 * counts, as in kube-proxy.
 * @param argv a boolean or the given texts, by flag name
 */
export function readFlags(argv: Readonly<Record<string, unknown>>): GivenFlag[] {
  return CONFIG_FLAGS.filter(({ name }) => argv[name] !== undefined).map((flag) => {
    return { flag, value: flagValue(flag.type, argv[flag.name]) };
  });
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

/** Parses `A=true,B=false`. Returns a malformed text unchanged; it fails validation later. */
function featureGates(text: string): FlagValue {
  const gates = text.split(",").map((gate) => /^\s*(\w+)=(true|false)\s*$/i.exec(gate));
  if (gates.includes(null)) return text;
  return Object.fromEntries(gates.map((gate) => [gate?.[1] ?? "", gate?.[2]?.toLowerCase() === "true"]));
}
