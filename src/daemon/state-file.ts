import { closeSync, constants, fchmodSync, fstatSync, openSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AppError, messageOf } from "../base/errors.ts";
import type { Logger } from "../base/logger.ts";
import { systemReason } from "../kube/files/diagnostic.ts";

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_TRUNC, O_WRONLY } = constants;

/**
 * Writes a file that only its owner can read, also where there is one that others can.
 * @param hint what to do where it cannot be written
 * @throws AppError HOST, for a symbolic link, too: somebody else may have put it there (those of /dev are followed)
 */
export function writePrivateFile(path: string, content: string | Uint8Array, hint?: string): void {
  writeOwn(path, path.startsWith("/dev/") ? O_TRUNC : O_TRUNC | O_NOFOLLOW, content, hint);
}

/** @param flags of open(2), besides those to write and to create */
function writeOwn(path: string, flags: number, content: string | Uint8Array, hint?: string): void {
  try {
    const file = openSync(path, O_WRONLY | O_CREAT | flags, 0o600);
    try {
      // The mode above is that of a new file; pipes and devices keep theirs.
      if (fstatSync(file).isFile()) fchmodSync(file, 0o600);
      writeFileSync(file, content);
    } finally {
      closeSync(file);
    }
  } catch (error) {
    const reason =
      (error as NodeJS.ErrnoException).code === "ELOOP" ? "it is a symbolic link" : systemReason(error);
    throw new AppError("HOST", `cannot write ${path}: ${reason}`, hint === undefined ? {} : { hint });
  }
}

/** Writes a daemon's state to a new file in the directory for temporary files, for support, and logs its path. */
export function writeStateFile(state: Readonly<Record<string, unknown>>, logger: Logger): void {
  const path = join(tmpdir(), `nft-proxy-state-${process.pid}-${Date.now()}.json`);
  try {
    // Anybody may write there: whatever has the name already is not ours.
    writeOwn(path, O_EXCL, `${JSON.stringify(state)}\n`);
    logger.info({ path }, "wrote the desired and the committed state");
  } catch (error) {
    logger.error({ path, error: messageOf(error) }, "cannot write the state");
  }
}
