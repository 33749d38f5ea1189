import { Ajv, type ValidateFunction } from "ajv";
import endpointSliceSchema from "../../../schemas/endpointslice.schema.json" with { type: "json" };
import nodeSchema from "../../../schemas/node.schema.json" with { type: "json" };
import serviceSchema from "../../../schemas/service.schema.json" with { type: "json" };
import serviceCIDRSchema from "../../../schemas/servicecidr.schema.json" with { type: "json" };
import { VALIDATOR_OPTIONS } from "../../base/schema-error.ts";

// In the bundle, scripts/precompile-schemas.mjs has compiled these at build time.

/** Compiles schemas/service.schema.json. */
export const compileServiceValidator = (): ValidateFunction => compile(serviceSchema);

/** Compiles schemas/endpointslice.schema.json. */
export const compileEndpointSliceValidator = (): ValidateFunction => compile(endpointSliceSchema);

/** Compiles schemas/node.schema.json. */
export const compileNodeValidator = (): ValidateFunction => compile(nodeSchema);

/** Compiles schemas/servicecidr.schema.json. */
export const compileServiceCIDRValidator = (): ValidateFunction => compile(serviceCIDRSchema);

function compile(schema: object): ValidateFunction {
  return new Ajv({ ...VALIDATOR_OPTIONS, allErrors: true }).compile(schema);
}
