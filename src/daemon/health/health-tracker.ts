import { messageOf } from "../../base/errors.ts";
import type { Family } from "../../base/family.ts";
import type { ObjectCache } from "../../model/object-cache.ts";
import type { BoundedFrequencyRunner } from "../../sync/bounded-frequency-runner.ts";
import type { ChangeTracker } from "../../sync/change-tracker.ts";
import type { SyncFailure, SyncReport, SyncSubscriber } from "../../sync/sync-report.ts";
import type { FamilyHealth, HealthSnapshot } from "./health.ts";

/** What health is judged by. */
export interface HealthTrackerParts {
  readonly families: readonly Family[];
  /** Milliseconds since 1970. */
  readonly startedAt: number;
  readonly tracker: Pick<ChangeTracker, "waitingFor">;
  readonly runner: Pick<BoundedFrequencyRunner, "pendingSince">;
  readonly cache: Pick<ObjectCache, "node" | "isNodeKnown">;
}

/** Remembers the result of the last sync, for {@link HealthSnapshot}. */
export class HealthTracker implements SyncSubscriber {
  readonly #parts: HealthTrackerParts;
  #lastSynced: number | undefined;
  #problem = "";
  #excluded: SyncReport["excludedFamilies"] = new Map();

  constructor(parts: HealthTrackerParts) {
    this.#parts = parts;
  }

  synced({ endedAt, excludedFamilies }: Pick<SyncReport, "endedAt" | "excludedFamilies">): void {
    this.#excluded = excludedFamilies;
    this.#lastSynced = endedAt;
    this.#problem = "";
  }

  failed({ error }: Pick<SyncFailure, "error">): void {
    this.#problem = messageOf(error);
  }

  /**
   * Since when the kernel has lacked something, milliseconds since 1970; undefined while it is up to date. Before the first
   * sync it lacks everything, even while the first lists are awaited and nothing has requested a sync.
   */
  get pendingSince(): number | undefined {
    const { startedAt, runner } = this.#parts;
    return this.#lastSynced === undefined ? startedAt : runner.pendingSince;
  }

  /** The state at this moment. */
  snapshot(): HealthSnapshot {
    const { families, tracker, cache } = this.#parts;
    const { pendingSince } = this;
    const { waitingFor } = tracker;
    const problem = waitingFor.length > 0 ? `waiting for ${waitingFor.join(", ")}` : this.#problem;
    const health: FamilyHealth = { lastSynced: this.#lastSynced, pendingSince, problem };
    return {
      families: Object.fromEntries(
        families.map((family) => {
          const excluded = this.#excluded.get(family);
          return [family, excluded === undefined ? health : { ...health, excluded }];
        }),
      ),
      nodeName: cache.node.name,
      node: cache.isNodeKnown ? cache.node : undefined,
    };
  }
}
