import { Ajv, type ValidateFunction } from "ajv";
import schema from "../../../schemas/kubeconfig.schema.json" with { type: "json" };
import { VALIDATOR_OPTIONS } from "../../base/schema-error.ts";

/** Compiles schemas/kubeconfig.schema.json; in the bundle, scripts/precompile-schemas.mjs has done so. */
export function compileKubeconfigValidator(): ValidateFunction {
  return new Ajv(VALIDATOR_OPTIONS).compile(schema);
}
