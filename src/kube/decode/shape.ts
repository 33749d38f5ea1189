import { Ajv, type ValidateFunction } from "ajv";
import endpointSliceSchema from "../../../schemas/endpointslice.schema.json" with { type: "json" };
import nodeSchema from "../../../schemas/node.schema.json" with { type: "json" };
import serviceSchema from "../../../schemas/service.schema.json" with { type: "json" };
import serviceCIDRSchema from "../../../schemas/servicecidr.schema.json" with { type: "json" };
import { describeSchemaError, VALIDATOR_OPTIONS } from "../../base/schema-error.ts";
import type { FieldDiagnostic } from "./decode.ts";

/** The kinds that we read, as `kind` names them. */
export type ObjectKind = "Service" | "EndpointSlice" | "Node" | "ServiceCIDR";

const SCHEMAS: Readonly<Record<ObjectKind, object>> = {
  Service: serviceSchema,
  EndpointSlice: endpointSliceSchema,
  Node: nodeSchema,
  ServiceCIDR: serviceCIDRSchema,
};

/** More than these of one object tell a reader nothing. */
const MOST_FAULTS = 20;

const ajv = new Ajv({ ...VALIDATOR_OPTIONS, allErrors: true });
const compiled = new Map<ObjectKind, ValidateFunction>();

/** Compiled on first use: most runs of a command see two kinds or none. */
function validatorOf(kind: ObjectKind): ValidateFunction {
  const validate = compiled.get(kind) ?? ajv.compile(SCHEMAS[kind]);
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
