import type { Clock, Timer } from "../base/clock.ts";
import { evidenceOf, messageOf } from "../base/errors.ts";
import type { Logger } from "../base/logger.ts";
import { programName } from "../kernel/host.ts";
import type { NetlinkListener, StartNetlinkListener } from "../kernel/netlink-listener.ts";
import type { OwnCommits } from "../kernel/own-commits.ts";
import type { NetlinkMessage } from "../netlink/message.ts";
import { TABLE_NAME } from "../nft/ast/ruleset.ts";

/** Parts of {@link KernelEvents}. */
export interface KernelEventsParts {
  readonly listen: StartNetlinkListener;
  readonly ownCommits: Pick<OwnCommits, "has" | "take">;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Called for each commit that changed our tables. */
  readonly onCommit: (commit: Commit) => void;
  /**
   * Whether elements of our own commits are needed. Reading 130,000 takes 0.13 s, at the start of the daemon.
   */
  readonly needsElementsOfOwnCommits: () => boolean;
  /** See {@link NetlinkHandlers}. */
  readonly onHostChange: () => void;
  /** Called when listening begins: changes may have been missed until now. */
  readonly onListening: () => void;
}

/** A message about one of our tables. */
export type TableMessage = Extract<NetlinkMessage, { readonly table: string }>;

/** A commit that changed our tables. */
export interface Commit {
  /** Its changes of our tables, in order; without elements if they are not needed. */
  readonly messages: readonly TableMessage[];
  /** The program that made it, as `nft (process 4711)`. */
  readonly author: string;
  /** Whether another program made it. */
  readonly isForeign: boolean;
}

/**
 * First and longest pause before listening again, milliseconds. It doubles each time that listening ended
 * early: socat may be missing or crash immediately.
 */
const FIRST_RETRY = 100;
const MAX_RETRY = 300_000;

/** Time after which listening has not ended early, milliseconds. */
const EARLY = 10_000;

/**
 * Follows all commits to nftables by the kernel's notifications. A commit is ours if its socket has the
 * process id of an nft that we started.
 */
export class KernelEvents {
  readonly #parts: KernelEventsParts;
  #listener: NetlinkListener | undefined;
  /** Time since which every commit is known, on the monotonic clock; undefined while not listening. */
  #since: number | undefined;
  /** The messages about our tables of the current commit. */
  #messages: TableMessage[] = [];
  /** When another program last changed our tables, on the monotonic clock. */
  #foreignAt = Number.NEGATIVE_INFINITY;
  #retry = FIRST_RETRY;
  #timer: Timer | undefined;
  #isWarned = false;
  #isStopped = false;

  constructor(parts: KernelEventsParts) {
    this.#parts = parts;
  }

  /** Whether every change is being reported. */
  get isTrusted(): boolean {
    return this.#since !== undefined;
  }

  /** Whether no other program has changed our tables since a time on the monotonic clock. */
  async isIntactSince(at: number): Promise<boolean> {
    const listener = this.#listener;
    if (listener === undefined || this.#since === undefined || this.#since > at) return false;
    // The answer comes after all commits before it.
    await listener.ping();
    return this.#listener === listener && this.#since !== undefined && this.#foreignAt < at;
  }

  start(): void {
    void this.#listen();
  }

  stop(): void {
    this.#isStopped = true;
    this.#timer?.cancel();
    this.#stopListening();
  }

  async #listen(): Promise<void> {
    const { listen, ownCommits, clock, needsElementsOfOwnCommits, onHostChange, onListening } = this.#parts;
    if (this.#isStopped) return;
    const listener = listen({
      onMessage: (message) => this.#read(message),
      wantsElements: (portId) => !ownCommits.has(portId) || needsElementsOfOwnCommits(),
      onHostChange,
      onEnd: (error) => this.#ended(listener, error),
    });
    this.#listener = listener;
    if (!(await listener.ready) || this.#listener !== listener) return;
    this.#messages = [];
    this.#since = clock.monotonic();
    onListening();
  }

  #stopListening(): void {
    this.#since = undefined;
    const listener = this.#listener;
    this.#listener = undefined;
    listener?.stop();
  }

  #ended(listener: NetlinkListener, error: unknown): void {
    if (this.#listener !== listener) return;
    const { clock, logger } = this.#parts;
    if (this.#since !== undefined && clock.monotonic() - this.#since >= EARLY) this.#retry = FIRST_RETRY;
    const fields = { error: messageOf(error), retrySeconds: this.#retry / 1000 };
    if (this.#since === undefined && !this.#isWarned) {
      this.#isWarned = true;
      logger.warn(
        { ...fields, hint: evidenceOf(error).hint },
        "the kernel's notifications cannot be read: changes by other programs are found at the next full resync, and those of this host's addresses when they can be read",
      );
    } else logger.debug(fields, "the kernel's notifications ended, listening again");
    this.#stopListening();
    if (this.#isStopped) return;
    this.#timer = clock.after(this.#retry, () => void this.#listen());
    this.#retry = Math.min(MAX_RETRY, 2 * this.#retry);
  }

  #read(message: NetlinkMessage): void {
    if ("table" in message) {
      if (message.family !== undefined && message.table === TABLE_NAME) this.#messages.push(message);
      return;
    }
    if (message.kind !== "generation") return;
    const messages = this.#messages;
    this.#messages = [];
    if (this.#since === undefined || messages.length === 0) return;
    const { clock, ownCommits, onCommit } = this.#parts;
    const portIds = new Set(messages.map(({ portId }) => portId));
    const isForeign = ![...portIds].every((portId) => ownCommits.take(portId));
    if (isForeign) this.#foreignAt = clock.monotonic();
    const program = isForeign ? programName(message.program, message.pid) : message.program;
    onCommit({ messages, author: `${program} (process ${message.pid})`, isForeign });
  }
}
