import type { Clock } from "../base/clock.ts";
import { messageOf } from "../base/errors.ts";
import type { Logger } from "../base/logger.ts";
import { PeriodicTask } from "../base/periodic-task.ts";
import type { Nft } from "../kernel/nft.ts";
import { tableNames } from "../kernel/nft-listings.ts";
import type { Ruleset } from "../nft/ast/ruleset.ts";

/** Parts of a {@link TableWatcher}. */
export interface TableWatcherParts {
  readonly nft: Nft;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Whether the kernel reports changes: then nothing needs to be checked. */
  readonly hasNotifications: () => boolean;
  /** The tables that the kernel was given; undefined before, and while a repair is due. */
  readonly given: () => Ruleset | undefined;
  /** Called with the missing tables, as `ip nft-proxy`. */
  readonly onMissing: (missing: readonly string[]) => void;
}

/** Time between two listings, milliseconds. One takes nft about 5 ms of CPU (1.1.3). */
const PERIOD = 1000;

/** Checks whether our tables exist while the kernel's notifications cannot be read. */
export class TableWatcher {
  readonly #parts: TableWatcherParts;
  #task: PeriodicTask | undefined;
  #isStopped = false;

  constructor(parts: TableWatcherParts) {
    this.#parts = parts;
  }

  start(): void {
    this.#task = new PeriodicTask(this.#parts.clock, PERIOD, () => this.#look());
  }

  /** Stops. Nothing is reported after this. */
  stop(): void {
    this.#isStopped = true;
    this.#task?.stop();
  }

  async #look(): Promise<void> {
    const { nft, given, hasNotifications, onMissing, logger } = this.#parts;
    const ruleset = hasNotifications() ? undefined : given();
    if (ruleset === undefined) return;
    try {
      const names = await tableNames(nft);
      const missing = Object.values(ruleset)
        .map(({ family, name }) => `${family} ${name}`)
        .filter((name) => !names.has(name));
      // A sync may have found the missing tables meanwhile.
      if (missing.length > 0 && !this.#isStopped && given() !== undefined) onMissing(missing);
    } catch (error) {
      if (!this.#isStopped) logger.debug({ error: messageOf(error) }, "cannot list our tables");
    }
  }
}
