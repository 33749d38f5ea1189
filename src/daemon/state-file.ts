import { writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AppError, messageOf } from "../base/errors.ts";
import type { Logger } from "../base/logger.ts";
import { systemReason } from "../kube/files/diagnostic.ts";

/**
 * Writes a file that only its owner can read.
 * @throws AppError HOST
 */
export function writePrivateFile(path: string, content: string | Uint8Array): void {
  try {
    writeFileSync(path, content, { mode: 0o600 });
  } catch (error) {
    throw new AppError("HOST", `cannot write ${path}: ${systemReason(error)}`);
  }
}

/** Writes a daemon's state to a file in the directory for temporary files, for support, and logs its path. */
export function writeStateFile(state: Readonly<Record<string, unknown>>, logger: Logger): void {
  const path = join(tmpdir(), `nft-proxy-state-${process.pid}-${Date.now()}.json`);
  try {
    writePrivateFile(path, `${JSON.stringify(state)}\n`);
    logger.info({ path }, "wrote the desired and the committed state");
  } catch (error) {
    logger.error({ path, error: messageOf(error) }, "cannot write the state");
  }
}
