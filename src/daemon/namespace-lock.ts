import { createServer, type Server } from "node:net";
import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/logger.ts";

/** A lock that one process of a network namespace can have. */
export interface NamespaceLock {
  /** Tries once. @returns whether this process has the lock now */
  take(): Promise<boolean>;
  /** Gives it back. */
  release(): void;
}

/**
 * An abstract Unix socket: it belongs to the network namespace, as our tables do, and goes with its process, however that
 * ends. As long as a name can be: some versions of libuv fill a shorter one up with zeros, and others do not.
 */
const LOCK_NAME = "\0nft-proxy".padEnd(108, "\0");

/** How often a lock is tried that another process has, milliseconds. */
const RETRY_INTERVAL = 500;

/** The lock of this process's network namespace. @param name of the abstract socket */
export function namespaceLock(name = LOCK_NAME): NamespaceLock {
  let server: Server | undefined;
  return {
    take: () =>
      new Promise((resolve) => {
        const attempt = createServer((client) => client.destroy());
        // Where a lock cannot be made for another reason, a daemon works without it.
        attempt.once("error", ({ code }: NodeJS.ErrnoException) => resolve(code !== "EADDRINUSE"));
        attempt.listen(name, () => {
          attempt.unref();
          server = attempt;
          resolve(true);
        });
      }),
    release: () => server?.close(),
  };
}

/**
 * Waits until this process has the lock: two daemons in one network namespace would undo each other's rules.
 * @param onWaiting told when it begins to wait
 * @param isStopped whether waiting has no purpose any more
 * @returns false when it was stopped
 */
export async function waitForLock(
  lock: NamespaceLock,
  clock: Clock,
  logger: Logger,
  onWaiting: () => void,
  isStopped: () => boolean,
): Promise<boolean> {
  if (await lock.take()) return true;
  onWaiting();
  const hint = "two of them would undo each other's rules: remove one, or wait until it ends";
  logger.warn({ hint }, "another nft-proxy runs in this network namespace: waiting");
  do {
    await new Promise<void>((resolve) => clock.after(RETRY_INTERVAL, resolve));
    if (isStopped()) return false;
  } while (!(await lock.take()));
  logger.info({}, "the other nft-proxy has ended: starting");
  return true;
}
