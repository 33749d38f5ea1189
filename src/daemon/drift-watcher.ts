import type { Clock, Timer } from "../base/clock.ts";
import { messageOf } from "../base/errors.ts";
import type { Logger } from "../base/logger.ts";
import type { Nft } from "../kernel/nft.ts";
import { sameChain } from "../nft/delta.ts";
import { parseListing, readListing } from "../nft/parse.ts";
import type { Ruleset } from "../nft/ruleset.ts";

/** What a drift watcher looks at, and whom it tells. */
export interface DriftWatcherParts {
  readonly nft: Nft;
  readonly clock: Clock;
  readonly logger: Logger;
  /** What the kernel should have; undefined while that is not settled: nothing is looked at then. */
  readonly expected: () => Ruleset | undefined;
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
    if (expected() === undefined) return undefined;
    const names = await nft.tableNames();
    const missing = Object.values(expected() ?? {}).filter(({ family, name }) => !names.has(`${family} ${name}`));
    if (missing.length > 0) return `table ${missing.map(({ family, name }) => `${family} ${name}`).join(", ")} is gone`;
    if (clock.now() - this.#chainsSeenAt < chainsPeriodMs) return undefined;
    this.#chainsSeenAt = clock.now();
    return await this.#changedChain();
  }

  async #changedChain(): Promise<string | undefined> {
    for (const { family } of Object.values(this.#parts.expected() ?? {})) {
      const text = await this.#parts.nft.listTable(family);
      const actual = text === undefined ? undefined : parseListing(readListing(text))[family];
      const wanted = this.#parts.expected()?.[family];
      if (wanted === undefined) return undefined;
      for (const chain of wanted.chains.values()) {
        if (!sameChain(actual?.chains.get(chain.name), chain)) return `chain ${family} ${chain.name} was changed`;
      }
    }
    return undefined;
  }
}
