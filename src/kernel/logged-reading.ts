import { messageOf } from "../base/errors.ts";
import type { FailureLog } from "../base/failure-log.ts";
import { NftStoppedError } from "./nft-errors.ts";

/**
 * Reads from the kernel, and logs a failure or the end of failures. A reading that fails because this process
 * stops does not count as a failure. Never rejects.
 */
export async function loggedReading(
  failures: Pick<FailureLog, "add" | "end">,
  read: () => Promise<unknown>,
): Promise<void> {
  try {
    await read();
    failures.end();
  } catch (error) {
    if (!(error instanceof NftStoppedError)) failures.add(messageOf(error));
  }
}
