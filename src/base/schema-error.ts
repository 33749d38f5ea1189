import { alternatives, quoted } from "./text.ts";

/** The fields that we use of an error of the JSON Schema validator (ajv's ErrorObject, verbose). */
export interface SchemaError {
  /** JSON pointer to the invalid value (RFC 6901). */
  readonly instancePath: string;
  readonly keyword: string;
  readonly message?: string;
  readonly params: Readonly<Record<string, unknown>>;
  readonly parentSchema?: Readonly<Record<string, unknown>>;
  readonly data?: unknown;
  /** The key that is invalid, if the error is about a key. */
  readonly propertyName?: string;
}

/**
 * Validator options of every schema. The schema itself is not validated (that takes 20 to 40 ms), code
 * generation is not optimised (that takes longer than it saves), and the code is kept for the bundle.
 */
export const VALIDATOR_OPTIONS = {
  allowUnionTypes: true,
  verbose: true,
  meta: false,
  validateSchema: false,
  code: { optimize: false, source: true },
} as const;

const PLAIN_KEY = /^[A-Za-z_][A-Za-z0-9_-]*$/;

/** Converts a JSON pointer to a path: `/spec/ports/0/port` to `spec.ports[0].port`, "" to "". */
function pathOfPointer(pointer: string): string {
  const keys = pointer.split("/").slice(1);
  return keys.map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~")).reduce(joinPath, "");
}

/** Appends a key (or an index, as a number or its digits) to a path. */
export function joinPath(path: string, key: string | number): string {
  if (typeof key === "number" || /^\d+$/.test(key)) return `${path}[${key}]`;
  if (!PLAIN_KEY.test(key)) return `${path}[${JSON.stringify(key)}]`;
  return path === "" ? key : `${path}.${key}`;
}

/** Splits a path of {@link joinPath} into keys; indices are digits. */
export function splitPath(path: string): string[] {
  const keys = path.matchAll(/\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]|([^.[\]]+)/g);
  return [...keys].map(([, index, key, plain]) => index ?? plain ?? (JSON.parse(key ?? '""') as string));
}

/**
 * Returns the path of an invalid value and the reason. For a pattern, the reason is the description in the
 * schema.
 */
export function describeSchemaError(error: SchemaError): { readonly path: string; readonly reason: string } {
  const { instancePath, propertyName } = error;
  const path = pathOfPointer(instancePath);
  return {
    path: propertyName === undefined ? path : joinPath(path, propertyName),
    reason: reasonOf(error),
  };
}

function reasonOf({ keyword, message, params, parentSchema, data }: SchemaError): string {
  const found = data === undefined ? "" : `, not ${quoted(data)}`;
  switch (keyword) {
    case "additionalProperties":
      return `must not have a property ${quoted(params.additionalProperty)}`;
    case "const":
      return `must be ${String(params.allowedValue)}${found}`;
    case "enum":
      return `must be ${choice(params.allowedValues as unknown[])}${found}`;
    case "pattern":
      return `must be ${parentSchema?.description ?? `text that matches ${params.pattern}`}${found}`;
    case "type":
      return `must be ${choice([params.type].flat())}${found}`;
    case "minimum":
    case "maximum":
      return `${message ?? keyword}${found}`;
    default:
      return message ?? `violates ${keyword}`;
  }
}

const TYPE_NAMES: Readonly<Record<string, string>> = {
  array: "an array",
  boolean: "a boolean",
  integer: "an integer",
  number: "a number",
  object: "an object",
  string: "a string",
};

/**
 * Formats allowed values or types: `TCP, UDP or SCTP`. Omits null and "", which mean "not given" in the API.
 */
function choice(values: readonly unknown[]): string {
  const names = values.filter((value) => value !== null && value !== "" && value !== "null").map(String);
  return alternatives(names.map((name) => TYPE_NAMES[name] ?? name));
}
