import type { Clock, Timer } from "../base/clock.ts";
import { messageOf } from "../base/errors.ts";
import type { Logger } from "../base/logger.ts";
import type { Nft } from "../kernel/nft.ts";
import type { Ruleset } from "../nft/ast/ruleset.ts";
import { parseListing, readListing } from "../nft/canonical/parse.ts";
import { sameChain } from "../nft/delta.ts";

/** What the kernel should have. Another object each time that this changes. */
export interface Expectation {
  readonly ruleset: Ruleset;
}

/** What a drift watcher looks at, and whom it tells. */
export interface DriftWatcherParts {
  readonly nft: Nft;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Undefined while it is not settled what the kernel should have: nothing is looked at then. */
  readonly expected: () => Expectation | undefined;
  readonly onDrift: (what: string) => void;
  /** Between two looks at which tables there are. One costs about 5 ms of CPU (nft 1.1.3). */
  readonly tablesPeriodMs: number;
  /** Between two looks at chains and rules, without elements. One costs about 10 ms of CPU for each family. */
  readonly chainsPeriodMs: number;
}

/**
 * Notices that someone removed our tables, chains or rules, by looking: the kernel's own notifications
 * (`nft monitor`) carry every element of every transaction, ours included, and are lost when they come too fast.
 */
export class DriftWatcher {
  readonly #parts: DriftWatcherParts;
  #timer: Timer | undefined;
  #stopped = false;
  #chainsSeenAt: number;

  constructor(parts: DriftWatcherParts) {
    this.#parts = parts;
    this.#chainsSeenAt = parts.clock.now();
  }

  /** Begins to look, from time to time. */
  start(): void {
    this.#timer = this.#parts.clock.after(this.#parts.tablesPeriodMs, () => void this.#look());
  }

  /** Looks no more. */
  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
  }

  async #look(): Promise<void> {
    try {
      const drift = await this.#drift();
      if (drift !== undefined && !this.#stopped) this.#parts.onDrift(drift);
    } catch (error) {
      this.#parts.logger.debug({ error: messageOf(error) }, "cannot look at our tables");
    }
    if (!this.#stopped) this.start();
  }

  async #drift(): Promise<string | undefined> {
    const { nft, expected, clock, chainsPeriodMs } = this.#parts;
    const expectation = expected();
    if (expectation === undefined) return undefined;
    const names = await nft.tableNames();
    const missing = Object.values(expectation.ruleset)
      .map(({ family, name }) => `${family} ${name}`)
      .filter((name) => !names.has(name));
    if (missing.length > 0) return this.#unlessOutdated(expectation, `table ${missing.join(", ")} is gone`);
    if (clock.now() - this.#chainsSeenAt < chainsPeriodMs) return undefined;
    this.#chainsSeenAt = clock.now();
    return await this.#changedChain(expectation);
  }

  async #changedChain(expectation: Expectation): Promise<string | undefined> {
    for (const { family, chains } of Object.values(expectation.ruleset)) {
      const text = await this.#parts.nft.listTable(family);
      const actual = text === undefined ? undefined : parseListing(readListing(text))[family];
      for (const chain of chains.values()) {
        if (sameChain(actual?.chains.get(chain.name), chain)) continue;
        return this.#unlessOutdated(expectation, `chain ${family} ${chain.name} was changed`);
      }
    }
    return undefined;
  }

  /** The listing may be older than a change of ours that came meanwhile. */
  #unlessOutdated(expectation: Expectation, drift: string): string | undefined {
    return this.#parts.expected() === expectation ? drift : undefined;
  }
}
