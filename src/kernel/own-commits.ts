/**
 * Maximum number of process ids that are kept, also of killed processes: enough for 12 s at the highest rate,
 * 20 transactions a second.
 */
const MOST_PIDS = 256;

/**
 * Distinguishes our commits from others' by the port id of the committing socket, which the kernel sends with
 * its notifications. The port id of nft's socket is nft's process id in its own pid namespace, unless another
 * socket already has that number. Each process is recorded before it gets its transaction, and its id is
 * removed with its commit: a process commits at most once. Another one may get the number next, or have it in
 * another pid namespace.
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

  /** As {@link OwnCommits.has}, for a commit that has been reported as a whole. Removes the id. */
  take(portId: number): boolean {
    return this.#pids.delete(portId);
  }
}
