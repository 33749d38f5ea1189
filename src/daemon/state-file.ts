import { closeSync, fchmodSync, fstatSync, openSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AppError, messageOf } from "../base/errors.ts";
import type { Logger } from "../base/logger.ts";
import { systemReason } from "../kube/files/diagnostic.ts";

/**
 * Writes a file that only its owner can read, also where there is one that others can.
 * @param hint what to do where it cannot be written
 * @throws AppError HOST
 */
export function writePrivateFile(path: string, content: string | Uint8Array, hint?: string): void {
  try {
    const file = openSync(path, "w", 0o600);
    try {
      // The mode above is that of a new file; pipes and devices keep theirs.
      if (fstatSync(file).isFile()) fchmodSync(file, 0o600);
      writeFileSync(file, content);
    } finally {
      closeSync(file);
    }
  } catch (error) {
    throw new AppError("HOST", `cannot write ${path}: ${systemReason(error)}`, hint === undefined ? {} : { hint });
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
