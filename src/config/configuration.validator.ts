import { _, Ajv, type ValidateFunction } from "ajv";
import schema from "../../schemas/kubeproxyconfiguration.schema.json" with { type: "json" };
import { VALIDATOR_OPTIONS } from "../base/schema-error.ts";
import type { GivenConfiguration } from "./configuration.ts";
import { FORMAT_CHECKS } from "./flags/formats.ts";

/** Compiles schemas/kubeproxyconfiguration.schema.json; in the bundle, scripts/precompile-schemas.mjs has done so. */
export function compileConfigurationValidator(): ValidateFunction<GivenConfiguration> {
  const code = { ...VALIDATOR_OPTIONS.code, formats: _`require("./flags/formats.ts").FORMAT_CHECKS` };
  return new Ajv({ ...VALIDATOR_OPTIONS, allErrors: true, formats: FORMAT_CHECKS, code }).compile(schema);
}
