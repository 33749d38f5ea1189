import { formatDuration, parseDuration } from "./duration.ts";

/** A configuration file's content. A field may be missing, or null for its default. */
export type Document = Readonly<Record<string, unknown>>;

/** A part of a JSON schema (draft 7). */
export type Schema = Readonly<Record<string, unknown>>;

/** A `format` of the schema. It accepts "" where that means "not given" in kube-proxy. */
export interface Format {
  readonly check: (text: string) => boolean;
  /** The rule, as the predicate of a sentence about the field. */
  readonly rule: string;
}

/**
 * The type of a flag's value. Only a boolean needs no value; a list may be repeated or separated by commas.
 */
export type FlagType =
  | "boolean"
  | "duration"
  | "feature-gates"
  | "float"
  | "integer"
  | "list"
  | "path-list"
  | "string";

/**
 * The value of a given flag. A text that does not match the flag's type is kept as text and fails validation
 * later.
 */
export type FlagValue = boolean | number | string | readonly string[] | Readonly<Record<string, boolean>>;

/** The effect of a flag. */
export type FlagTarget =
  /**
   * Sets a field of the configuration. `wins` names the one of the flag and a configuration file that takes
   * precedence.
   */
  | { readonly kind: "field"; readonly path: string; readonly wins: "file" | "flag" }
  /** Is an argument of a command, and not part of the configuration. */
  | { readonly kind: "command" }
  /** Is handled before any command runs. */
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
  /** Whether kube-proxy lacks it. */
  readonly isOwn?: true;
  /** Its values for completion, if there are only a few. */
  readonly values?: readonly string[];
  /** Returns the reason why a text is invalid for this flag, for flags that allow less than their field. */
  readonly refuse?: (text: string) => string | undefined;
  /** Returns the field's new value, for a flag that sets only a part of it. */
  readonly combine?: (current: unknown, value: FlagValue) => unknown;
  /** Whether an empty text is a value; for other flags it means that the flag is not given. */
  readonly takesEmpty?: true;
  /**
   * Warning about an empty text, as the predicate of a sentence, for flags where it may not have the intended
   * effect.
   */
  readonly ifEmpty?: string;
  /** The flag to use instead, for a deprecated one. */
  readonly successor?: string;
}

/** A flag of a field, before the field's row adds its type and path. */
export type FieldFlag = Omit<Flag, "type" | "target"> & { readonly wins: "file" | "flag" };

/** Returns a flag of kube-proxy that sets a field; a configuration file overrides it. */
export function setting(name: string, description: string): FieldFlag {
  return { name, description, wins: "file" };
}

/** Returns a flag of kube-proxy that sets a field and overrides a configuration file. */
export function overriding(name: string, description: string): FieldFlag {
  return { name, description, wins: "flag" };
}

/** Returns a flag that kube-proxy does not have; it overrides a configuration file. */
export function own(name: string, description: string): FieldFlag {
  return { name, description, wins: "flag", isOwn: true };
}

/** The same with the name of its field: `--max-elements` sets `nftProxy.maxElements`. */
function ownOf(path: string, description: string): FieldFlag {
  const name = path.slice(path.indexOf(".") + 1);
  return own(
    name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`),
    description,
  );
}

/** A field of the configuration file. */
export interface Field {
  /** Path of the field: `conntrack.min`. */
  readonly path: string;
  /** The values that it may have besides null. */
  readonly schema: Schema;
  /** Default value in the form of the file; a function of the whole file if it depends on other fields. */
  readonly preset: unknown;
  /** Returns whether a value means "not given", as null does. */
  readonly isUnset?: (value: unknown) => boolean;
  /** The flags that set it. */
  readonly flags: readonly Flag[];
  /** Difference from kube-proxy, for deploy/reference.md. */
  readonly note?: string;
  /**
   * For a field of kube-proxy's other modes: the warning if it is not used as given, a whole sentence.
   * @param subject the name of the field, or of its flag
   */
  readonly warning?: (given: Document, subject: string) => string | undefined;
}

/** An option of the proxy, and the fields of the configuration that it is made of. */
export interface Option<Value> {
  readonly fields: readonly Field[];
  /** Converts the values of `fields`, in their order and valid by the schema, to the option. */
  readonly parse: (values: readonly unknown[]) => Value;
  /**
   * Converts the option back to the values of `fields`; undefined for a field that does not need to be
   * written. A method, so that every option is an `Option<unknown>`.
   */
  print(value: Value): readonly unknown[];
  /** Whether a change takes effect immediately; after a restart if absent. */
  readonly reload?: "now" | undefined;
}

/** A row of the table of options, for an option of one field. */
export interface Row {
  readonly path: string;
  readonly preset: unknown;
  /** A text describes a flag that kube-proxy does not have, with the name of the field. */
  readonly flag?: FieldFlag | string;
  readonly reload?: "now" | undefined;
  readonly isUnset?: Field["isUnset"];
  readonly note?: string;
  readonly warning?: Field["warning"];
}

/** A type of options: the form of the field, and the conversions. */
interface Kind<Raw, Value> {
  readonly schema: Schema;
  readonly flagType: FlagType;
  /** The values that completion offers. */
  readonly values?: readonly string[];
  readonly isUnset?: Field["isUnset"];
  readonly parse: (raw: Raw) => Value;
  readonly print: (value: Value) => Raw | undefined;
}

/** Returns the option of one row. */
export function optionOf<Raw, Value>(row: Row, kind: Kind<Raw, Value>): Option<Value> {
  const { path, preset, note, isUnset = kind.isUnset, reload, warning } = row;
  const given = typeof row.flag === "string" ? ownOf(path, row.flag) : row.flag;
  const flag = given && { ...(kind.values && { values: kind.values }), ...given };
  const flags = flag === undefined ? [] : [fieldFlag(flag, kind.flagType, path)];
  const more = { ...(isUnset && { isUnset }), ...(note && { note }), ...(warning && { warning }) };
  return {
    fields: [{ path, schema: kind.schema, preset, flags, ...more }],
    parse: ([raw]) => kind.parse(raw as Raw),
    print: (value) => [kind.print(value)],
    reload,
  };
}

/** Returns the flag that sets the field at a path. */
export function fieldFlag({ wins, ...flag }: FieldFlag, type: FlagType, path: string): Flag {
  return { ...flag, type, target: { kind: "field", path, wins } };
}

const same = <Value>(value: Value): Value => value;
const isEmpty = (value: unknown): boolean => value === "";

/** An option whose value in the file needs no conversion. */
function plain<Value>(row: Row, form: Omit<Kind<Value, Value>, "parse" | "print">): Option<Value> {
  return optionOf<Value, Value>(row, { ...form, parse: same, print: same });
}

/** A text in a format of `formats.ts`. "" means the default, unless the flag says that it is a value. */
export function text(
  row: Row & { readonly format?: string; readonly parse?: (raw: string) => string },
): Option<string> {
  const { format, parse = same } = row;
  const schema = { type: "string", ...(format !== undefined && { format }) };
  const unset = typeof row.flag === "object" && row.flag.takesEmpty ? {} : { isUnset: isEmpty };
  return optionOf(row, { schema, flagType: "string", ...unset, parse, print: same });
}

/** One of a few words; "" is the default. */
export function choice<Word extends string>(row: Row & { readonly words: readonly Word[] }): Option<Word> {
  const { words } = row;
  return plain(row, {
    schema: { enum: ["", ...words] },
    flagType: "string",
    values: words,
    isUnset: isEmpty,
  });
}

/** Maxima of signed and unsigned numbers in the kernel. */
export const MOST_31_BITS = 2 ** 31 - 1;
export const MOST_32_BITS = 2 ** 32 - 1;

/** An integer within bounds; 0 is a value. */
export function integer(
  row: Row & { readonly between: readonly [least: number, most: number] },
): Option<number> {
  const [minimum, maximum] = row.between;
  return plain(row, { schema: { type: "integer", minimum, maximum }, flagType: "integer" });
}

/** True or false. */
export function boolean(row: Row): Option<boolean> {
  return plain(row, { schema: { type: "boolean" }, flagType: "boolean" });
}

/** A duration, in milliseconds; a text in Go's grammar in the file. */
export function duration(row: Row & { readonly format: string }): Option<number> {
  const schema = { type: "string", format: row.format };
  return optionOf(row, { schema, flagType: "duration", parse: milliseconds, print: formatDuration });
}

function milliseconds(text: string): number {
  return valid(parseDuration(text));
}

/** Returns the result of a parser for a value that the schema has accepted. @throws Error for undefined */
export function valid<Value>(value: Value | undefined): Value {
  if (value === undefined) throw new Error("the configuration was not validated");
  return value;
}
