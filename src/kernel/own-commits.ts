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
