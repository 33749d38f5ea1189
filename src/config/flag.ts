/** How a flag's value is written. All but a boolean need one; a list may be given more than once, or with commas. */
export type FlagType = "boolean" | "duration" | "float" | "integer" | "list" | "path-list" | "string";

/** What a flag does. */
export type FlagTarget =
  /** Sets a field of the configuration. `wins` says which counts when there is also a configuration file. */
  | { readonly kind: "field"; readonly path: string; readonly wins: "file" | "flag" }
  /** Tells the command what to do; not part of the configuration. */
  | { readonly kind: "command" }
  /** Is the argument parser's own. */
  | { readonly kind: "parser" }
  /** Is accepted and has no effect, for this reason. */
  | { readonly kind: "ignored"; readonly reason: string };

/** One flag of the command line. */
export interface Flag {
  /** Without dashes in front. */
  readonly name: string;
  /** One letter, where there is one. */
  readonly alias?: string;
  readonly type: FlagType;
  /** For `--help`, in our own words. */
  readonly description: string;
  readonly target: FlagTarget;
  /** Says why a text cannot be this flag's value, where the field behind it allows more than the flag. */
  readonly refuse?: (text: string) => string | undefined;
}

/** A flag that sets a field which the configuration file decides, if there is one. */
export function setting(name: string, type: FlagType, path: string, description: string): Flag {
  return { name, type, description, target: { kind: "field", path, wins: "file" } };
}

/** A flag that sets a field whatever the configuration file says. */
export function overriding(name: string, type: FlagType, path: string, description: string): Flag {
  return { name, type, description, target: { kind: "field", path, wins: "flag" } };
}

/** A flag for the command itself. */
export function commanding(name: string, type: FlagType, description: string): Flag {
  return { name, type, description, target: { kind: "command" } };
}

/** A flag without effect. */
export function ignored(name: string, type: FlagType, reason: string): Flag {
  return { name, type, description: `Accepted and ignored: ${reason}`, target: { kind: "ignored", reason } };
}
