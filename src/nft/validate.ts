import type { ValidateFunction } from "ajv";
import { AppError } from "../base/errors.ts";
import { describeSchemaError } from "../base/schema-error.ts";
import type { Transaction } from "./ast/json.ts";
import { compileTransactionValidator } from "./transaction.validator.ts";

let compiled: ValidateFunction | undefined;

/**
 * Validates a transaction against schemas/transaction.schema.json before it is sent.
 * @throws AppError INVALID_TRANSACTION with the JSON path and the reason of the first error
 */
export function validateTransaction(transaction: Transaction): void {
  compiled ??= compileTransactionValidator();
  const validate = compiled;
  if (validate(transaction)) return;
  const [error] = validate.errors ?? [];
  if (error === undefined) throw new Error("a validator that rejects a transaction must give an error");
  const { path, reason } = describeSchemaError(error);
  throw new AppError("INVALID_TRANSACTION", `the transaction breaks its schema: ${path || "it"} ${reason}`, {
    hint: "this is a bug in nft-proxy, not in the objects: please report it with the objects",
    evidence: { path, reason },
  });
}
