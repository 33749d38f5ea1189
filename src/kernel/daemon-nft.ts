import type { Clock } from "../base/clock.ts";
import { APPLY, type Nft, NftProgram } from "./nft.ts";
import { DAEMON_LIMITS } from "./nft-limits.ts";
import { limitedRun, limitedStream } from "./nft-memory.ts";
import { OwnCommits } from "./own-commits.ts";
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
