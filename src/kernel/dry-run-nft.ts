import type { Logger } from "../base/logger.ts";
import type { Nft } from "./nft.ts";

/** Reads the kernel by an nft and changes nothing: what would be applied is logged. */
export function dryRunNft(nft: Nft, logger: Logger): Nft {
  return {
    path: nft.path,
    commits: 0,
    async apply(transaction) {
      const bytes = JSON.stringify(transaction).length;
      logger.info({ bytes, commands: transaction.nftables.length }, "dry run: would apply");
      logger.debug({ transaction }, "dry run: the transaction");
      return { bytes, durationMs: 0 };
    },
    check: (transaction) => nft.check(transaction),
    list: (args, options) => nft.list(args, options),
    stream: (args, signal) => nft.stream(args, signal),
    stopReading: () => nft.stopReading(),
  };
}
