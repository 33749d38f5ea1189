import { fileURLToPath } from "node:url";
import { ForksPoolWorker, type PoolOptions } from "vitest/node";

const LAUNCHER = fileURLToPath(new URL("./node-in-namespace.sh", import.meta.url));

const NAME = "namespaces";

/**
 * A Vitest pool whose processes each have their own network and mount namespaces. So test files that change
 * rules, addresses and named namespaces can run in parallel.
 */
export const namespacePool = {
  name: NAME,
  createPoolWorker: (options: PoolOptions): ForksPoolWorker => new NamespaceWorker(options),
};

class NamespaceWorker extends ForksPoolWorker {
  // A worker serves several test files only if it has the pool's name.
  override readonly name = NAME;

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
