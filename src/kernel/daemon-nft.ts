import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/logger.ts";
import { APPLY, type Nft, NftProgram } from "./nft.ts";
import { DAEMON_LIMITS, limitedRun } from "./nft-limits.ts";
import { SpareProcess } from "./spare-process.ts";

/** nft for a process that applies transactions continuously. */
export interface DaemonNft {
  readonly nft: Nft;
  readonly ownCommits: OwnCommits;
  /** Ends the processes that wait for later calls. Call nothing after this. */
  close(): void;
}

/**
 * Creates an nft that keeps a process ready for the next transaction and limits memory.
 * @param memoryBytes limit for a large transaction or listing, see {@link nftMemoryLimit}; undefined for none
 */
export function daemonNft(path: string, clock: Clock, memoryBytes: number | undefined): DaemonNft {
  const ownCommits = new OwnCommits();
  const spare = new SpareProcess(path, APPLY, DAEMON_LIMITS.maxOutputBytes, clock);
  const nft = new NftProgram({
    path,
    limits: DAEMON_LIMITS,
    run: limitedRun(memoryBytes, spare.run),
    onApply: (pid) => ownCommits.started(pid),
  });
  return { nft, ownCommits, close: () => spare.stop() };
}

/** Creates an nft that reads the kernel and changes nothing: transactions are only logged. */
export function dryRunNft(nft: Nft, logger: Logger): Nft {
  return {
    path: nft.path,
    commits: 0,
    async apply(transaction) {
      const bytes = JSON.stringify(transaction).length;
      logger.info({ bytes, commands: transaction.nftables.length }, "dry run: would apply");
      logger.debug({ transaction }, "dry run: the transaction");
      return { bytes, durationMs: 0 };
    },
    check: (transaction) => nft.check(transaction),
    list: (args, signal) => nft.list(args, signal),
    stopReading: () => nft.stopReading(),
  };
}

/**
 * Maximum number of process ids that are kept: enough for 12 s at the highest rate, 20 transactions a second.
 */
const MOST_PIDS = 256;

/**
 * Distinguishes our commits from others' by the port id of the committing socket, which the kernel sends with
 * its notifications. The port id of nft's socket is nft's process id in its own pid namespace, unless another
 * socket already has that number. It remembers the last 256 nft processes that were given a transaction,
 * including killed ones, each from before it can commit. Each id is claimed once, because a process commits
 * at most once, and another one may get the number next or have it in another pid namespace.
 */
export class OwnCommits {
  readonly #pids = new Set<number>();

  /** Records an nft that will be given a transaction. */
  started(pid: number): void {
    // The number may have belonged to an earlier process.
    this.#pids.delete(pid);
    this.#pids.add(pid);
    const [oldest] = this.#pids;
    if (this.#pids.size > MOST_PIDS && oldest !== undefined) this.#pids.delete(oldest);
  }

  /** Whether a commit that is being reported is one of ours, by the port id of its socket. */
  has(portId: number): boolean {
    return this.#pids.has(portId);
  }

  /** The same, for a commit that has been reported as a whole. Call it once for each. */
  claim(portId: number): boolean {
    return this.#pids.delete(portId);
  }
}
