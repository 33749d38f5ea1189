import { fileURLToPath } from "node:url";
import { ForksPoolWorker, type PoolOptions } from "vitest/node";

const LAUNCHER = fileURLToPath(new URL("./node-in-namespace.sh", import.meta.url));

/**
 * A Vitest pool that runs each test file in a process with network and mount namespaces of its own, so that files that
 * change rules, addresses and named namespaces run side by side.
 */
export const namespacePool = {
  name: "namespaces",
  createPoolWorker: (options: PoolOptions): ForksPoolWorker => new NamespaceWorker(options),
};

class NamespaceWorker extends ForksPoolWorker {
  // ForksPoolWorker gives fork() no execPath, and fork() reads the process's before start() returns.
  override start(): Promise<void> {
    const { execPath } = process;
    process.execPath = LAUNCHER;
    try {
      return super.start();
    } finally {
      process.execPath = execPath;
    }
  }
}
