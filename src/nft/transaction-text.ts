import type { ValidateFunction } from "ajv";
import { AppError } from "../base/errors.ts";
import type { Family } from "../base/family.ts";
import { describeSchemaError } from "../base/schema-error.ts";
import type { Command, Transaction } from "./ast/json.ts";
import { TABLE_NAME } from "./ast/ruleset.ts";
import { compileTransactionValidator } from "./transaction.validator.ts";

/** A transaction as nft reads it. */
export interface TransactionText {
  readonly text: string;
  /**
   * The same with a final listing that finds nothing in our tables. nft reads the sets of every table before
   * a transaction with elements or rules (2 us for each, including those of other programs), but only those
   * of the table that the last command lists, if it lists one (nft 1.1.3 and 1.1.7, `reset_filter` in its
   * cache.c). See docs/dev/decisions/others-sets.md. Undefined if nft has to read more: for two families, or
   * for a created or deleted table.
   */
  readonly narrow: string | undefined;
}

/** @throws AppError INVALID_TRANSACTION */
export function transactionText(transaction: Transaction): TransactionText {
  validateTransaction(transaction);
  if (transaction.nftables.some(deletesTimeouts)) {
    return { text: transaction.nftables.map(deletionLine).join(""), narrow: undefined };
  }
  const text = JSON.stringify(transaction);
  const families = new Set(transaction.nftables.map(familyInTable));
  const [family] = families;
  if (families.size !== 1 || family === undefined) return { text, narrow: undefined };
  const listing = { list: { counters: { family, table: TABLE_NAME } } };
  return { text, narrow: `${text.slice(0, -"]}".length)},${JSON.stringify(listing)}]}` };
}

function deletesTimeouts(command: Command): boolean {
  return "delete" in command && "ct timeout" in command.delete;
}

/**
 * Writes a command that empties or deletes an object in nft's own language. nft reads this language if the
 * input is not JSON, and its JSON cannot delete a `ct timeout`: it would delete a chain without a name (1.1.3
 * and 1.1.7, `json_parse_cmd_add_object` passes NFT_OBJECT_CT_TIMEOUT as the kind of a command's object). The
 * schema restricts names to letters, digits and a few signs.
 */
function deletionLine(command: Command): string {
  const [[verb, object] = []] = Object.entries(command) as [string, Record<string, NamedObject>][];
  const [[kind = "", named] = []] = Object.entries(object ?? {});
  if (verb === "add" || named?.table === undefined || "elem" in named) {
    throw new Error(`${verb} ${kind} in a transaction that deletes timeouts`);
  }
  return `${verb} ${kind} ${named.family} ${named.table} ${named.name}\n`;
}

interface NamedObject {
  readonly family: Family;
  readonly table?: string;
  readonly name: string;
}

/**
 * The family of our table in which a command changes something; undefined for other tables, and for a table
 * itself.
 */
function familyInTable(command: Command): Family | undefined {
  const [object = {}] = Object.values(command);
  const [changed] = Object.values(object) as { readonly family: Family; readonly table?: string }[];
  return changed?.table === TABLE_NAME ? changed.family : undefined;
}

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
