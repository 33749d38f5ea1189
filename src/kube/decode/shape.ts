import type { ValidateFunction } from "ajv";
import { describeSchemaError } from "../../base/schema-error.ts";
import type { FieldDiagnostic } from "./decode.ts";
import {
  compileEndpointSliceValidator,
  compileNodeValidator,
  compileServiceCIDRValidator,
  compileServiceValidator,
} from "./object.validator.ts";

/** The kinds that we read, as `kind` names them. */
export type ObjectKind = "Service" | "EndpointSlice" | "Node" | "ServiceCIDR";

const COMPILE: Readonly<Record<ObjectKind, () => ValidateFunction>> = {
  Service: compileServiceValidator,
  EndpointSlice: compileEndpointSliceValidator,
  Node: compileNodeValidator,
  ServiceCIDR: compileServiceCIDRValidator,
};

/** More than these of one object tell a reader nothing. */
const MOST_FAULTS = 20;

const compiled = new Map<ObjectKind, ValidateFunction>();

/** Compiled on first use: most runs of a command see two kinds or none. */
function validatorOf(kind: ObjectKind): ValidateFunction {
  const validate = compiled.get(kind) ?? COMPILE[kind]();
  compiled.set(kind, validate);
  return validate;
}

/** Holds an object against its schema in schemas/. No faults: it has the shape that its decoder reads. */
export function shapeFaults(kind: ObjectKind, object: unknown): FieldDiagnostic[] {
  const validate = validatorOf(kind);
  if (validate(object)) return [];
  const errors = validate.errors ?? [];
  // The validator is kept, and would keep the object by its errors.
  validate.errors = null;
  const faults = errors
    .slice(0, MOST_FAULTS)
    .map((error): FieldDiagnostic => ({ ...describeSchemaError(error), severity: "error" }));
  const more = errors.length - faults.length;
  return more === 0 ? faults : [...faults, { path: "", reason: `has ${more} more faults`, severity: "error" }];
}
