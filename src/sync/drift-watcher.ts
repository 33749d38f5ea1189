import type { Clock } from "../base/clock.ts";
import { messageOf } from "../base/errors.ts";
import type { Logger } from "../base/logger.ts";
import type { Nft } from "../kernel/nft.ts";
import { isNftAtFault } from "../kernel/read-kernel.ts";
import { parseListing, readListing } from "../nft/canonical/parse.ts";
import { sameChain, type TableDelta } from "../nft/delta.ts";
import { PeriodicTask } from "./periodic-task.ts";
import type { Expectation } from "./sync-loop.ts";

/** A change of our tables that somebody else made. */
export type Drift =
  /** Tables that are missing, as `ip nft-proxy`, and who deleted them where the kernel told. */
  | { readonly kind: "tables"; readonly missing: readonly string[]; readonly author?: string }
  /** What commits of somebody else changed in our tables; undefined when that is not known. */
  | { readonly kind: "commit"; readonly found: readonly TableDelta[] | undefined; readonly author: string }
  /** A chain that is missing or has other rules, as `ip services`. */
  | { readonly kind: "chain"; readonly chain: string }
  /** Differences found by comparing everything. */
  | { readonly kind: "elements"; readonly found: readonly TableDelta[] }
  /** Tables that were understood before have something now that is not, with the reason. */
  | { readonly kind: "unreadable"; readonly reason: string };

/** Parts of a {@link DriftWatcher}. */
export interface DriftWatcherParts {
  readonly nft: Nft;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The ruleset that the kernel should have; undefined while a sync is due or under way, which suspends the watch. */
  readonly expected: () => Expectation | undefined;
  readonly onDrift: (drift: Drift) => void;
  /** Between two checks that the tables exist. One costs about 5 ms of CPU (nft 1.1.3). */
  readonly tablesPeriodMs: () => number;
  /** Between two checks of chains and rules, without elements. One costs about 10 ms of CPU for each family. */
  readonly chainsPeriodMs: () => number;
}

/**
 * Notices that somebody removed our tables or changed our chains, by polling: seldom where the kernel tells of changes
 * (kernel-watch.ts).
 */
export class DriftWatcher {
  readonly #parts: DriftWatcherParts;
  #task: PeriodicTask | undefined;
  #stopped = false;
  #chainsCheckedAt: number;
  /** Whether the chains were understood when they were last looked at. */
  #isUnderstood = false;

  constructor(parts: DriftWatcherParts) {
    this.#parts = parts;
    this.#chainsCheckedAt = parts.clock.monotonic();
  }

  /** Begins to poll. */
  start(): void {
    const { clock, tablesPeriodMs } = this.#parts;
    this.#task = new PeriodicTask(clock, tablesPeriodMs, () => this.#poll());
  }

  /** Ends the polling. Nothing is reported after this. */
  stop(): void {
    this.#stopped = true;
    this.#task?.stop();
  }

  async #poll(): Promise<void> {
    try {
      const drift = await this.#drift();
      if (drift !== undefined && !this.#stopped) this.#parts.onDrift(drift);
    } catch (error) {
      if (!this.#stopped) this.#parts.logger.debug({ error: messageOf(error) }, "cannot list our tables");
    }
  }

  async #drift(): Promise<Drift | undefined> {
    const { nft, expected, clock, chainsPeriodMs } = this.#parts;
    const expectation = expected();
    if (expectation === undefined) return undefined;
    const names = await nft.tableNames();
    const missing = Object.values(expectation.ruleset)
      .map(({ family, name }) => `${family} ${name}`)
      .filter((name) => !names.has(name));
    if (missing.length > 0) return this.#unlessOutdated(expectation, { kind: "tables", missing });
    if (clock.monotonic() - this.#chainsCheckedAt < chainsPeriodMs()) return undefined;
    this.#chainsCheckedAt = clock.monotonic();
    return await this.#chainDrift(expectation);
  }

  /**
   * Reports once that chains are not understood: what a rebuild does not mend, as an nft whose listings are in a form of
   * their own, would be rebuilt without end.
   */
  async #chainDrift(expectation: Expectation): Promise<Drift | undefined> {
    try {
      const changed = await this.#changedChain(expectation);
      this.#isUnderstood = true;
      return changed;
    } catch (error) {
      if (!this.#isUnderstood || isNftAtFault(error)) throw error;
      const drift = this.#unlessOutdated(expectation, { kind: "unreadable", reason: messageOf(error) });
      this.#isUnderstood = drift === undefined;
      return drift;
    }
  }

  async #changedChain(expectation: Expectation): Promise<Drift | undefined> {
    for (const { family, chains } of Object.values(expectation.ruleset)) {
      const text = await this.#parts.nft.listTable(family);
      const actual = text === undefined ? undefined : parseListing(readListing(text))[family];
      for (const chain of chains.values()) {
        if (sameChain(actual?.chains.get(chain.name), chain)) continue;
        return this.#unlessOutdated(expectation, { kind: "chain", chain: `${family} ${chain.name}` });
      }
    }
    return undefined;
  }

  /** The listing may be older than a sync that took place meanwhile. */
  #unlessOutdated(expectation: Expectation, drift: Drift): Drift | undefined {
    return this.#parts.expected() === expectation ? drift : undefined;
  }
}
