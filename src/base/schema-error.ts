import { alternatives } from "./text.ts";

/** The part that we read of what a JSON Schema validator says of one fault (ajv's ErrorObject, verbose). */
export interface SchemaError {
  /** JSON pointer to the value at fault (RFC 6901). */
  readonly instancePath: string;
  readonly keyword: string;
  readonly message?: string;
  readonly params: Readonly<Record<string, unknown>>;
  readonly parentSchema?: Readonly<Record<string, unknown>>;
  readonly data?: unknown;
}

/**
 * How every schema of ours is compiled: without proving it against the schema of schemas, which costs 20 to 40 ms,
 * without optimising the generated code, which takes longer than it saves, and keeping that code for the bundle.
 */
export const VALIDATOR_OPTIONS = {
  allowUnionTypes: true,
  verbose: true,
  meta: false,
  validateSchema: false,
  code: { optimize: false, source: true },
} as const;

const SHOWN = 80;
const PLAIN_KEY = /^[A-Za-z_][A-Za-z0-9_-]*$/;

/** A JSON pointer as people write paths: `/spec/ports/0/port` is `spec.ports[0].port`; "" is the whole. */
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

/** The keys of a path that {@link joinPath} made, indices as digits. */
export function splitPath(path: string): string[] {
  const keys = path.matchAll(/\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]|([^.[\]]+)/g);
  return [...keys].map(([, index, key, plain]) => index ?? plain ?? (JSON.parse(key ?? '""') as string));
}

/** A value for a message: scalars as JSON, cut short; of the others, however large or deep, only what they are. */
export function quoted(value: unknown): string {
  if (Array.isArray(value)) return "an array";
  if (typeof value === "object" && value !== null) return "an object";
  if (typeof value !== "string") return String(value);
  return value.length > SHOWN ? `${JSON.stringify(value.slice(0, SHOWN))}...` : JSON.stringify(value);
}

/** Where the fault is, and what was expected, in words: the schema's description where it has one. */
export function describeSchemaError(error: SchemaError): { readonly path: string; readonly reason: string } {
  return { path: pathOfPointer(error.instancePath), reason: reasonOf(error) };
}

function reasonOf({ keyword, message, params, parentSchema, data }: SchemaError): string {
  const found = data === undefined ? "" : `, not ${quoted(data)}`;
  switch (keyword) {
    case "additionalProperties":
      return `must not have a property ${quoted(params.additionalProperty)}`;
    case "enum":
      return `must be ${alternatives(allowed(params.allowedValues as unknown[]))}${found}`;
    case "pattern":
      return `must be ${parentSchema?.description ?? `text that matches ${params.pattern}`}${found}`;
    case "type":
      return `must be ${[params.type].flat().join(" or ")}${found}`;
    case "minimum":
    case "maximum":
      return `${message ?? keyword}${found}`;
    default:
      return message ?? `violates ${keyword}`;
  }
}

/** The values that people write, without null and "", which stand for an absent field. */
function allowed(values: readonly unknown[]): string[] {
  return values.filter((value) => value !== null && value !== "").map(String);
}
