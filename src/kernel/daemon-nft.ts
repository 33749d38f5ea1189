import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/logger.ts";
import { APPLY, type Nft, NftProgram } from "./nft.ts";
import { DAEMON_LIMITS, limitedRun, limitedStream } from "./nft-limits.ts";
import { SpareProcess } from "./spare-process.ts";
import { streamText } from "./stream-lines.ts";

/** nft for a process that applies transactions all the time. */
export interface DaemonNft {
  readonly nft: Nft;
  /** Whether a commit is one of this nft's, by the port id of its socket: see {@link OwnCommits}. */
  readonly isOwnCommit: (portId: number) => boolean;
  /** Ends what waits for later calls; nothing is to be called after this. */
  close(): void;
}

/**
 * nft with a process ready for the next transaction, and with a bound on its memory.
 * @param memoryBytes what it may take for a large transaction or listing, see {@link nftMemoryLimit}; undefined for no limit
 */
export function daemonNft(path: string, clock: Clock, memoryBytes: number | undefined): DaemonNft {
  const own = new OwnCommits();
  const spare = new SpareProcess(path, APPLY, DAEMON_LIMITS.maxOutputBytes, clock);
  const nft = new NftProgram({
    path,
    limits: DAEMON_LIMITS,
    run: limitedRun(memoryBytes, spare.run),
    stream: limitedStream(memoryBytes, streamText),
    onApply: (pid) => own.started(pid),
  });
  return { nft, isOwnCommit: (portId) => own.claim(portId), close: () => spare.stop() };
}

/** Reads the kernel by an nft and changes nothing: what would be applied is logged. */
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
    list: (args, options) => nft.list(args, options),
    stream: (args, signal) => nft.stream(args, signal),
    stopReading: () => nft.stopReading(),
  };
}

/** How many process ids are kept: those of some seconds at the highest rate, 20 transactions a second. */
const MOST_PIDS = 256;

/**
 * Tells our commits from others' by the port id of the socket that made one. The kernel names it in what it tells about the
 * commit: the port id of nft's netlink socket is nft's process id in its own namespace of them, unless another socket has
 * that already. The ids of the last 256 nft processes that were given a transaction are known, each from before it can
 * commit, and also those of processes that were killed. Each is claimed once, as a process commits once at most: another
 * process may have the number next, or has it in another namespace of process ids.
 */
export class OwnCommits {
  readonly #pids = new Set<number>();

  /** An nft was started that will be given a transaction. */
  started(pid: number): void {
    // Its number may have been another's before.
    this.#pids.delete(pid);
    this.#pids.add(pid);
    const [oldest] = this.#pids;
    if (this.#pids.size > MOST_PIDS && oldest !== undefined) this.#pids.delete(oldest);
  }

  /** Whether a commit is one of ours, by the port id of its socket. */
  claim(portId: number): boolean {
    return this.#pids.delete(portId);
  }
}
