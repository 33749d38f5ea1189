import type { Clock } from "../base/clock.ts";

/**
 * Time after which an nft has no commit to be reported any more: it has ended, by its own limit of 120 s, and
 * the kernel's notification has been read. Milliseconds.
 */
const LONGEST = 180_000;

/**
 * Distinguishes our commits from others' by the port id of the committing socket, which the kernel sends with
 * its notifications. The port id of nft's socket is nft's process id in its own pid namespace, unless another
 * socket already has that number. Each process is recorded before it gets its transaction, and its id is
 * removed with its commit: a process commits at most once. Another one may get the number next, or have it in
 * another pid namespace. So an id is also removed after a while: a failed transaction has no commit, and
 * nobody reads commits while there is no listener.
 */
export class OwnCommits {
  readonly #clock: Pick<Clock, "monotonic">;
  /** When each process was recorded, oldest first. */
  readonly #pids = new Map<number, number>();

  constructor(clock: Pick<Clock, "monotonic">) {
    this.#clock = clock;
  }

  /** Records an nft that will be given a transaction. */
  started(pid: number): void {
    this.#dropOld();
    // The number may have belonged to an earlier process.
    this.#pids.delete(pid);
    this.#pids.set(pid, this.#clock.monotonic());
  }

  /** Whether a commit that is being reported is one of ours, by the port id of its socket. */
  has(portId: number): boolean {
    this.#dropOld();
    return this.#pids.has(portId);
  }

  /** As {@link OwnCommits.has}, for a commit that has been reported as a whole. Removes the id. */
  take(portId: number): boolean {
    return this.has(portId) && this.#pids.delete(portId);
  }

  #dropOld(): void {
    const before = this.#clock.monotonic() - LONGEST;
    for (const [pid, startedAt] of this.#pids) {
      if (startedAt > before) return;
      this.#pids.delete(pid);
    }
  }
}
