import { AppError } from "../base/errors.ts";
import type { Transaction } from "../nft/ast/json.ts";
import { firstLine } from "./nft-failure.ts";

/** The kernel, or nft on its behalf, refused a transaction: nothing of it was applied. */
export class NftRefusedError extends AppError {
  /** The refused transaction. */
  readonly transaction: Transaction;
  /** nft's whole error output. */
  readonly stderr: string;

  constructor(transaction: Transaction, stderr: string) {
    super("NFT_REFUSED", `nft refused the transaction: ${firstLine(stderr)}`, {
      evidence: { stderr: stderr.trim(), commands: String(transaction.nftables.length) },
    });
    this.transaction = transaction;
    this.stderr = stderr;
  }

  /** Something is still in use: what some kernels before 6.2 say of chains that lost their last element just now. */
  get isBusy(): boolean {
    return this.stderr.includes("Device or resource busy");
  }
}

/**
 * Whether a transaction was refused for what it says: by the kernel, or by our own schema before it left. One
 * service port may be the cause, and the others must not suffer for it.
 */
export function isRefusal(error: unknown): error is AppError {
  return error instanceof AppError && (error.code === "NFT_REFUSED" || error.code === "INVALID_TRANSACTION");
}

/** A listing or a check was ended, or not begun, because this process stops: nothing is wrong, and nothing is known. */
export class NftStoppedError extends AppError {
  constructor() {
    super("NFT_FAILED", "nft was ended because nft-proxy stops");
  }
}
