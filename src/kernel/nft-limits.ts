import type { ProcessLimits } from "./process.ts";

/** A listing of 1,000,000 elements takes a minute and 200 MB; whatever takes more hangs or is not ours. */
export const NFT_LIMITS: ProcessLimits = { timeoutMs: 120_000, maxOutputBytes: 500_000_000 };

/**
 * The limits of a process whose memory is limited: what it reads as a whole takes ten times as much once it is parsed.
 * Our own maps are read in pieces; what is read as a whole has some kilobytes, unless others put something into our tables.
 */
export const DAEMON_LIMITS: ProcessLimits = { ...NFT_LIMITS, maxOutputBytes: 30_000_000 };

/**
 * What a transaction may take, for each begun megabyte: 20 times what nft needs on a machine with other work. Milliseconds.
 */
const TIMEOUT_PER_MEGABYTE = 10_000;

/**
 * The limits of a transaction. Its time is the same for those of like size, so that failures over them are alike.
 * @param text the transaction as nft reads it
 * @param limits those of any call
 */
export function transactionLimits(text: string, limits: ProcessLimits): ProcessLimits {
  const timeoutMs = TIMEOUT_PER_MEGABYTE * (1 + Math.floor(text.length / 1_000_000));
  return { ...limits, timeoutMs: Math.min(limits.timeoutMs, timeoutMs) };
}
