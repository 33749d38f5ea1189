import { mkdir, rm } from "node:fs/promises";
import { connect } from "node:net";
import { dirname } from "node:path";
import { AppError, messageOf } from "../../base/errors.ts";

/**
 * Makes room for a Unix socket: creates its directory, for its owner alone, and removes the socket of a process that
 * ended without removing it.
 * @throws AppError HOST when a process listens on it, or the file system does not allow it
 */
export async function prepareSocket(path: string): Promise<void> {
  if (await isServed(path)) {
    throw new AppError("HOST", `another process listens on ${path}`, {
      hint: "another nft-proxy runs on this host: two of them in one network namespace undo each other's rules; stop one, or give one in another network namespace another --daemon-socket",
    });
  }
  try {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await rm(path, { force: true });
  } catch (error) {
    throw new AppError("HOST", `cannot prepare ${path}: ${messageOf(error)}`, { cause: error });
  }
}

function isServed(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}
