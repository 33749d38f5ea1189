import type { Clock } from "../base/clock.ts";
import { messageOf } from "../base/errors.ts";
import type { Logger } from "../base/logger.ts";
import type { Nft } from "../kernel/nft.ts";
import type { ComparisonScope } from "../kernel/read-kernel.ts";
import type { Ruleset } from "../nft/ast/ruleset.ts";
import type { TableDelta } from "../nft/delta.ts";
import { PeriodicTask } from "./periodic-task.ts";
import type { Verifier } from "./verifier.ts";

/** A change of our tables that somebody else made. */
export type Drift =
  /** Tables that are missing, as `ip nft-proxy`, and who deleted them where the kernel told. */
  | { readonly kind: "tables"; readonly missing: readonly string[]; readonly author?: string }
  /** What commits of somebody else changed in our tables; undefined when that is not known. */
  | { readonly kind: "commit"; readonly found: readonly TableDelta[] | undefined; readonly author: string }
  /** Differences found by comparing, and what was compared. */
  | { readonly kind: "differences"; readonly found: readonly TableDelta[]; readonly scope: ComparisonScope }
  /** Tables that were understood before have something now that is not, with the reason. */
  | { readonly kind: "unreadable"; readonly reason: string };

/** Parts of a {@link DriftWatcher}. */
export interface DriftWatcherParts {
  readonly nft: Pick<Nft, "tableNames">;
  readonly verifier: Pick<Verifier, "recheck">;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The tables that the kernel was given; undefined before, and while they are to be repaired, which suspends the watch. */
  readonly given: () => Ruleset | undefined;
  readonly onDrift: (drift: Drift) => void;
  /** Between two checks that the tables exist. One costs about 5 ms of CPU (nft 1.1.3). */
  readonly tablesPeriodMs: () => number;
  /** Between two checks of chains and rules, without elements. One costs about 10 ms of CPU for each family. */
  readonly chainsPeriodMs: () => number;
}

/**
 * Notices that somebody removed our tables or changed our chains, by polling, beside syncs: seldom where the kernel tells of
 * changes (kernel-watch.ts).
 */
export class DriftWatcher {
  readonly #parts: DriftWatcherParts;
  #task: PeriodicTask | undefined;
  #stopped = false;
  #chainsCheckedAt: number;

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
    const { nft, verifier, given, clock, chainsPeriodMs } = this.#parts;
    const ruleset = given();
    if (ruleset === undefined) return undefined;
    const names = await nft.tableNames();
    // A sync may have met what is missing meanwhile.
    if (given() === undefined) return undefined;
    const missing = Object.values(ruleset)
      .map(({ family, name }) => `${family} ${name}`)
      .filter((name) => !names.has(name));
    if (missing.length > 0) return { kind: "tables", missing };
    if (clock.monotonic() - this.#chainsCheckedAt < chainsPeriodMs()) return undefined;
    this.#chainsCheckedAt = clock.monotonic();
    const found = await verifier.recheck("declarations", false);
    return found === undefined || found.length === 0
      ? undefined
      : { kind: "differences", found, scope: "declarations" };
  }
}
