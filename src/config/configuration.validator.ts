import { _, Ajv, type ValidateFunction } from "ajv";
import type { Document } from "../base/option.ts";
import { VALIDATOR_OPTIONS } from "../base/schema-error.ts";
import { FORMAT_CHECKS } from "./formats.ts";
import { configurationSchema } from "./schema.ts";

/** Compiles the schema of the configuration; in the bundle, scripts/precompile-schemas.mjs has done so. */
export function compileConfigurationValidator(): ValidateFunction<Document> {
  const code = { ...VALIDATOR_OPTIONS.code, formats: _`require("./formats.ts").FORMAT_CHECKS` };
  const ajv = new Ajv({ ...VALIDATOR_OPTIONS, allErrors: true, formats: FORMAT_CHECKS, code });
  return ajv.compile<Document>(configurationSchema());
}
