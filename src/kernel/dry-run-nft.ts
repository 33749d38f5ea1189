import type { Logger } from "../base/logger.ts";
import type { Transaction } from "../nft/ast/json.ts";
import { type AppliedTransaction, Nft } from "./nft.ts";

/** Reads the kernel and changes nothing: what would be applied is logged. */
export class DryRunNft extends Nft {
  readonly #logger: Logger;

  constructor(path: string, logger: Logger) {
    super({ path });
    this.#logger = logger;
  }

  override async apply(transaction: Transaction): Promise<AppliedTransaction> {
    const text = JSON.stringify(transaction);
    this.#logger.info({ bytes: text.length, commands: transaction.nftables.length }, "dry run: would apply");
    this.#logger.debug({ transaction }, "dry run: the transaction");
    return { bytes: text.length, durationMs: 0 };
  }
}
