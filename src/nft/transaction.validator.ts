import { Ajv, type ValidateFunction } from "ajv";
import schema from "../../schemas/transaction.schema.json" with { type: "json" };
import { VALIDATOR_OPTIONS } from "../base/schema-error.ts";

/** Compiles schemas/transaction.schema.json; for the bundle, scripts/precompile-schemas.mjs does. */
export function compileTransactionValidator(): ValidateFunction {
  // Inlined references would produce one function that the engine does not optimise, which is 10 times
  // slower.
  return new Ajv({ ...VALIDATOR_OPTIONS, inlineRefs: false }).compile(schema);
}
