import { closeSync, constants, fchmodSync, fstatSync, openSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AppError, messageOf } from "../base/errors.ts";
import type { Logger } from "../base/logger.ts";
import { systemReason } from "../kube/files/diagnostic.ts";

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_TRUNC, O_WRONLY } = constants;

/**
 * Writes a file that only its owner can read, even if the file exists and others can read it.
 * @param hint of the error
 * @throws AppError HOST, also for a symbolic link outside /dev, as another user may have created it
 */
export function writePrivateFile(path: string, content: string | Uint8Array, hint?: string): void {
  writeOwn(path, path.startsWith("/dev/") ? O_TRUNC : O_TRUNC | O_NOFOLLOW, content, hint);
}

/** @param flags of open(2), in addition to O_WRONLY and O_CREAT */
function writeOwn(path: string, flags: number, content: string | Uint8Array, hint?: string): void {
  try {
    const file = openSync(path, O_WRONLY | O_CREAT | flags, 0o600);
    try {
      // The mode above only applies to new files. Pipes and devices keep theirs.
      if (fstatSync(file).isFile()) fchmodSync(file, 0o600);
      writeFileSync(file, content);
    } finally {
      closeSync(file);
    }
  } catch (error) {
    const reason =
      (error as NodeJS.ErrnoException).code === "ELOOP" ? "it is a symbolic link" : systemReason(error);
    throw new AppError("HOST", `cannot write ${path}: ${reason}`, { hint });
  }
}

/** Writes a daemon's state to a new temporary file, for support, and logs its path. */
export function writeStateFile(state: Readonly<Record<string, unknown>>, logger: Logger): void {
  const path = join(tmpdir(), `nft-proxy-state-${process.pid}-${Date.now()}.json`);
  try {
    // Every user can write there, so a file that already has the name is not ours.
    writeOwn(path, O_EXCL, `${JSON.stringify(state)}\n`);
    logger.info({ path }, "wrote the desired and the committed state");
  } catch (error) {
    logger.error({ path, error: messageOf(error) }, "cannot write the state");
  }
}
