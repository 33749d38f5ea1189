import type { ValidateFunction } from "ajv";
import { lowerBound } from "../../base/first-sorted.ts";
import { didYouMean, withHint } from "../../base/nearest.ts";
import { oncePerObject } from "../../base/once-per-object.ts";
import { describeSchemaError, joinPath, type SchemaError, splitPath } from "../../base/schema-error.ts";
import { type FieldDiagnostic, fieldError, type UsablePart } from "./decode.ts";
import {
  compileEndpointSliceValidator,
  compileNodeValidator,
  compileServiceCIDRValidator,
  compileServiceValidator,
} from "./object.validator.ts";

/** The kinds of objects that are read. */
export type ObjectKind = "Service" | "EndpointSlice" | "Node" | "ServiceCIDR";

const COMPILE: Readonly<Record<ObjectKind, () => ValidateFunction>> = {
  Service: compileServiceValidator,
  EndpointSlice: compileEndpointSliceValidator,
  Node: compileNodeValidator,
  ServiceCIDR: compileServiceCIDRValidator,
};

const validatorBy = oncePerObject((compile: () => ValidateFunction) => compile());

/** An object as its decoder reads it: without errors, `part` is the object itself. */
export interface Shape {
  readonly errors: readonly FieldDiagnostic[];
  /** Undefined if the object has no usable metadata or spec. */
  readonly part: UsablePart | undefined;
}

/** Validates an object against its schema in schemas/. */
export function shapeOf(kind: ObjectKind, object: unknown): Shape {
  return shapeBy(COMPILE[kind], object);
}

/** @param compile called on first use: most commands read two kinds or none */
export function shapeBy(compile: () => ValidateFunction, object: unknown): Shape {
  const validate = validatorBy(compile);
  const errors = schemaErrors(validate, object);
  return errors.length === 0
    ? { errors, part: { value: object, omitted: [] } }
    : { errors, part: usablePart(validate, object, errors) };
}

function schemaErrors(validate: ValidateFunction, object: unknown): FieldDiagnostic[] {
  if (validate(object)) return [];
  const errors = validate.errors ?? [];
  // The validator is kept, and its errors would keep the object in memory.
  validate.errors = null;
  return errors.flatMap((error) => diagnosticOf(error) ?? []);
}

function diagnosticOf(error: SchemaError): FieldDiagnostic | undefined {
  const { keyword, params, parentSchema } = error;
  const { path, reason } = describeSchemaError(error);
  // Each invalid key has an error of its own.
  if (keyword === "propertyNames") return undefined;
  if (keyword === "required") return fieldError("missing-field", path, reason);
  if (keyword !== "additionalProperties") return fieldError("invalid-value", path, reason);
  const name = String(params.additionalProperty);
  const hint = didYouMean(name, Object.keys(parentSchema?.properties ?? {}));
  return fieldError("unknown-field", joinPath(path, name), withHint("is not a field of the API", hint));
}

/** Values without which the rest cannot be decoded. */
const NEEDED = ["", "metadata", "spec", "addressType"];

/** Omits invalid values, then values that are invalid without these, such as a port without its number. */
function usablePart(
  validate: ValidateFunction,
  object: unknown,
  errors: readonly FieldDiagnostic[],
): UsablePart | undefined {
  const value: unknown = structuredClone(object);
  const omitted = new Set<string>();
  let paths = errors.map(({ path }) => path);
  while (paths.length > 0) {
    if (paths.some((path) => NEEDED.includes(path))) return undefined;
    for (const path of paths) omitted.add(omit(value, path)).add(path);
    // The name is only missing because it was omitted.
    paths = schemaErrors(validate, value).flatMap(({ path }) =>
      omitted.has(path) || (path === "metadata" && omitted.has("metadata.name")) ? [] : [path],
    );
  }
  return { value, omitted: [...omitted] };
}

/** Items whose omission leaves a hole in their array. Any other array is omitted as a whole. */
const SINGLE_ITEM = /^(?:spec\.ports|status\.loadBalancer\.ingress|endpoints|ports)\[\d+\]$/;

/** Omits the value at a path, or the array that it is in. Returns the path of the omitted value. */
function omit(value: unknown, path: string): string {
  const keys = splitPath(path);
  const parents = [value as Container | undefined];
  for (const key of keys) parents.push(parents.at(-1)?.[key] as Container | undefined);
  const isWholeArray = Array.isArray(parents.at(-2)) && !SINGLE_ITEM.test(path);
  const depth = isWholeArray ? keys.length - 1 : keys.length;
  delete parents[depth - 1]?.[keys[depth - 1] ?? ""];
  return isWholeArray ? path.slice(0, path.lastIndexOf("[")) : path;
}

type Container = Record<string, unknown>;

/** Returns the diagnostics that do not merely follow from the omission of values. */
export function independent(
  diagnostics: readonly FieldDiagnostic[],
  { omitted }: Pick<UsablePart, "omitted">,
): readonly FieldDiagnostic[] {
  if (omitted.length === 0) return diagnostics;
  const paths = new Set(omitted);
  const sorted = [...omitted].sort();
  // Thousands of ports may be invalid, each with a path.
  const isRelated = (path: string) =>
    sorted[lowerBound(sorted, (one) => one < path)]?.startsWith(path) ||
    Array.from(path, (_, index) => path.slice(0, index)).some((beginning) => paths.has(beginning));
  return diagnostics.filter(({ path }) => !isRelated(path));
}
