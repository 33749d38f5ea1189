/** The type of a flag's value. Only a boolean needs no value; a list may be repeated, or separated by commas. */
export type FlagType = "boolean" | "duration" | "feature-gates" | "float" | "integer" | "list" | "path-list" | "string";

/** The effect of a flag. */
export type FlagTarget =
  /** Sets a field of the configuration. `wins` decides between the flag and a configuration file. */
  | { readonly kind: "field"; readonly path: string; readonly wins: "file" | "flag" }
  /** Is an argument of a command, and not part of the configuration. */
  | { readonly kind: "command" }
  /** Is handled by the argument parser. */
  | { readonly kind: "parser" }
  /** Is accepted without effect, for this reason. */
  | { readonly kind: "ignored"; readonly reason: string };

/** One flag of the command line. */
export interface Flag {
  /** The name without leading dashes. */
  readonly name: string;
  /** A single letter. */
  readonly alias?: string;
  readonly type: FlagType;
  /** The description in `--help`. */
  readonly description: string;
  readonly target: FlagTarget;
  /** Returns the reason why a text is invalid for this flag, for flags that allow less than their field. */
  readonly refuse?: (text: string) => string | undefined;
  /** Returns the field's new value, for a flag that sets only a part of it. */
  readonly combine?: (current: unknown, value: FlagValue) => unknown;
  /** Whether an empty text is a value; for all others it is the same as no flag. */
  readonly takesEmpty?: true;
  /** The warning about an empty text, as the predicate of a sentence, for flags where it may not do what was meant. */
  readonly ifEmpty?: string;
  /** The flag to use instead, for a deprecated one. */
  readonly successor?: string;
}

/** The value of a given flag. A text that is not of the flag's type stays a text, and fails validation later. */
export type FlagValue = boolean | number | string | readonly string[] | Readonly<Record<string, boolean>>;

/** Returns a flag that sets a field; a configuration file overrides it. */
export function setting(name: string, type: FlagType, path: string, description: string): Flag {
  return { name, type, description, target: { kind: "field", path, wins: "file" } };
}

/** Returns a flag that sets a field and overrides a configuration file. */
export function overriding(name: string, type: FlagType, path: string, description: string): Flag {
  return { name, type, description, target: { kind: "field", path, wins: "flag" } };
}

/** Returns a flag that is an argument of a command. @param alias one letter, where there is one */
export function commanding(name: string, type: FlagType, description: string, alias?: string): Flag {
  return { name, type, description, target: { kind: "command" }, ...(alias === undefined ? {} : { alias }) };
}

/** Returns a flag that is accepted without effect. */
export function ignored(name: string, type: FlagType, reason: string): Flag {
  return { name, type, description: `Accepted and ignored: ${reason}`, target: { kind: "ignored", reason } };
}
