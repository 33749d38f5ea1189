import { fileURLToPath } from "node:url";
import { ForksPoolWorker, type PoolOptions } from "vitest/node";

const LAUNCHER = fileURLToPath(new URL("./node-in-namespace.sh", import.meta.url));

/**
 * A Vitest pool that runs each test file in a process with its own network and mount namespaces. So test
 * files that change rules, addresses and named namespaces can run in parallel.
 */
export const namespacePool = {
  name: "namespaces",
  createPoolWorker: (options: PoolOptions): ForksPoolWorker => new NamespaceWorker(options),
};

class NamespaceWorker extends ForksPoolWorker {
  // ForksPoolWorker passes no execPath to fork(), which then reads that of this process before start()
  // returns.
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
