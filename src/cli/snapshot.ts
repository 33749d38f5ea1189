import { tmpdir } from "node:os";
import { join } from "node:path";
import { messageOf } from "../base/errors.ts";
import type { Logger } from "../base/logger.ts";
import { writeTextFile } from "./text-file.ts";

/** Writes a daemon's state to a file in the directory for temporary files, for support, and logs where. */
export function writeSnapshot(snapshot: Readonly<Record<string, unknown>>, logger: Logger): void {
  const path = join(tmpdir(), `nft-proxy-state-${process.pid}-${Date.now()}.json`);
  try {
    writeTextFile(path, `${JSON.stringify(snapshot)}\n`);
    logger.info({ path }, "wrote the desired and the committed state");
  } catch (error) {
    logger.error({ path, error: messageOf(error) }, "cannot write the state");
  }
}
