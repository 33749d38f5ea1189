import type { ValidateFunction } from "ajv";
import { describeSchemaError } from "../../base/schema-error.ts";
import type { FieldDiagnostic } from "./decode.ts";
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

const compiled = new Map<ObjectKind, ValidateFunction>();

/** Compiled on first use: most commands read two kinds or none. */
function validatorOf(kind: ObjectKind): ValidateFunction {
  const validate = compiled.get(kind) ?? COMPILE[kind]();
  compiled.set(kind, validate);
  return validate;
}

/**
 * Validates an object against its schema in schemas/.
 * @returns no diagnostics if the object has the shape that its decoder reads
 */
export function shapeDiagnostics(kind: ObjectKind, object: unknown): FieldDiagnostic[] {
  const validate = validatorOf(kind);
  if (validate(object)) return [];
  const errors = validate.errors ?? [];
  // The validator lives on, and its errors refer to the object.
  validate.errors = null;
  return errors.map((error) => ({ ...describeSchemaError(error), severity: "error" }));
}
