import type { Clock } from "../base/clock.ts";
import { messageOf } from "../base/errors.ts";
import type { Logger } from "../base/logger.ts";
import type { Nft } from "../kernel/nft.ts";
import { tableNames } from "../kernel/nft-listings.ts";
import type { Ruleset } from "../nft/ast/ruleset.ts";
import { PeriodicTask } from "./periodic-task.ts";

/** Parts of a {@link TableWatcher}. */
export interface TableWatcherParts {
  readonly nft: Nft;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Whether the kernel tells of changes: then nothing is to be looked for. */
  readonly isTold: () => boolean;
  /** The tables that the kernel was given; undefined before, and while they are to be repaired. */
  readonly given: () => Ruleset | undefined;
  /** Told of the tables that are missing, as `ip nft-proxy`. */
  readonly onMissing: (missing: readonly string[]) => void;
}

/** Between two looks, milliseconds. One takes nft about 5 ms of CPU (1.1.3). */
const PERIOD = 1000;

/** Looks whether our tables exist, where the kernel's notifications cannot be read. */
export class TableWatcher {
  readonly #parts: TableWatcherParts;
  #task: PeriodicTask | undefined;
  #isStopped = false;

  constructor(parts: TableWatcherParts) {
    this.#parts = parts;
  }

  /** Begins to look. */
  start(): void {
    this.#task = new PeriodicTask(
      this.#parts.clock,
      () => PERIOD,
      () => this.#look(),
    );
  }

  /** Stops looking. Nothing is reported after this. */
  stop(): void {
    this.#isStopped = true;
    this.#task?.stop();
  }

  async #look(): Promise<void> {
    const { nft, given, isTold, onMissing, logger } = this.#parts;
    const ruleset = isTold() ? undefined : given();
    if (ruleset === undefined) return;
    try {
      const names = await tableNames(nft);
      const missing = Object.values(ruleset)
        .map(({ family, name }) => `${family} ${name}`)
        .filter((name) => !names.has(name));
      // A sync may have met what is missing meanwhile.
      if (missing.length > 0 && !this.#isStopped && given() !== undefined) onMissing(missing);
    } catch (error) {
      if (!this.#isStopped) logger.debug({ error: messageOf(error) }, "cannot list our tables");
    }
  }
}
