import { Ajv, type ValidateFunction } from "ajv";
import transactionSchema from "../../schemas/transaction.schema.json" with { type: "json" };
import { AppError } from "../base/errors.ts";
import { describeSchemaError, VALIDATOR_OPTIONS } from "../base/schema-error.ts";
import type { Transaction } from "./ast/json.ts";

let compiled: ValidateFunction | undefined;

/** Compiled on first use: it takes longer than a small command's whole work. */
function validator(): ValidateFunction {
  // Inlined references make one function that the engine gives up optimising: 10 times slower.
  compiled ??= new Ajv({ ...VALIDATOR_OPTIONS, inlineRefs: false }).compile(transactionSchema);
  return compiled;
}

/**
 * Holds a transaction against schemas/transaction.schema.json, before it leaves.
 *
 * Throws INVALID_TRANSACTION that names the first fault's JSON path and reason.
 */
export function validateTransaction(transaction: Transaction): void {
  const validate = validator();
  if (validate(transaction)) return;
  const [error] = validate.errors ?? [];
  if (error === undefined) throw new Error("a validator that refuses gives a reason");
  const { path, reason } = describeSchemaError(error);
  throw new AppError("INVALID_TRANSACTION", `the transaction breaks its schema: ${path || "it"} ${reason}`, {
    hint: "This is a fault of nft-proxy, not of the objects: please report it with the objects.",
    evidence: { path, reason },
  });
}
