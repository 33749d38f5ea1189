import { createServer, type Server } from "node:net";
import { AppError } from "../base/errors.ts";

/**
 * An abstract Unix socket: it belongs to the network namespace, as our tables do, and vanishes with its
 * process, even if that is killed. The name has the maximum length, because some versions of libuv pad a
 * shorter one with zeros.
 */
const LOCK_NAME = "\0nft-proxy".padEnd(108, "\0");

/**
 * The lock of this process's network namespace, which one process can hold.
 * @param name of the abstract socket
 */
export function namespaceLock(name = LOCK_NAME) {
  let server: Server | undefined;
  return {
    /** Tries once. @returns whether this process now holds the lock */
    take: () =>
      new Promise<boolean>((resolve) => {
        const attempt = createServer((client) => client.destroy());
        // If the socket cannot be made for another reason, this process works without a lock.
        attempt.once("error", ({ code }: NodeJS.ErrnoException) => resolve(code !== "EADDRINUSE"));
        attempt.listen(name, () => {
          attempt.unref();
          server = attempt;
          resolve(true);
        });
      }),
    release: (): void => void server?.close(),
  };
}

/**
 * Makes a change of the rules while no daemon programs this network namespace, and prevents a daemon from
 * starting meanwhile.
 * @param isForced makes the change in any case
 * @param refusal the consequence of the change while a daemon runs, and a hint
 * @throws AppError HOST while a daemon runs, before anything is changed
 */
export async function withoutDaemon<Result>(
  isForced: boolean,
  refusal: { readonly consequence: string; readonly hint: string },
  change: () => Promise<Result>,
): Promise<Result> {
  const lock = namespaceLock();
  if (!isForced && !(await lock.take())) {
    const message = `another nft-proxy runs in this network namespace and would ${refusal.consequence}`;
    throw new AppError("HOST", message, { hint: refusal.hint });
  }
  try {
    return await change();
  } finally {
    lock.release();
  }
}
