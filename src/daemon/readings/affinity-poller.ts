import type { Clock } from "../../base/clock.ts";
import { messageOf } from "../../base/errors.ts";
import { FailureLog } from "../../base/failure-log.ts";
import { type ByFamily, FAMILIES, type Family } from "../../base/family.ts";
import type { Logger } from "../../base/logger.ts";
import type { Nft } from "../../kernel/nft.ts";
import { NftRefusedError, NftStoppedError } from "../../kernel/nft-errors.ts";
import type { TableReader } from "../../kernel/table-reader.ts";
import type { ServicePort } from "../../model/service-port.ts";
import type { SetSpec } from "../../nft/ast/ruleset.ts";
import type { Element } from "../../nft/elements.ts";
import { forgetTransaction } from "../../nft/transaction.ts";
import { excessEntries } from "../../ruleset/affinity-share.ts";
import type { FamilyState } from "../../ruleset/family-state.ts";
import { parseId } from "../../ruleset/list-ids.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";
import { AFFINITY, AFFINITY_IDS } from "../../ruleset/sets.ts";
import { PeriodicTask } from "../../sync/periodic-task.ts";
import type { SyncLoop } from "../../sync/sync-loop.ts";
import type { SyncSubscriber } from "../../sync/sync-report.ts";

/** Why entries were deleted: their service port is gone, or has the most in a map that is nearly full. */
export type AffinityDeletion = "gone" | "crowded";

/** What {@link AffinityPoller} needs. */
export interface AffinityPollerParts {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly tables: Pick<TableReader, "elements">;
  readonly nft: Nft;
  readonly loop: Pick<SyncLoop, "given" | "between">;
  readonly state: () => RulesetState;
  readonly onDeleted: (reason: AffinityDeletion, entries: number) => void;
  /** Told of a service port of which clients were forgotten because it has the most. */
  readonly onCrowded: (port: ServicePort) => void;
}

/**
 * Minimum pause between looks, milliseconds, where there is something to delete or where there is not, and its ratio to the
 * length of a look: nft takes 1 s of CPU and 250 MB to list 100,000 entries (1.1.3).
 */
const SHORT_PAUSE = 5000;
const LONG_PAUSE = 60_000;
const PAUSE_RATIO = 50;

/** Entries that one look deletes at most: their keys are held in memory. The next look goes on. */
const MOST_DELETED = 100_000;

/** Entries in one transaction: changes wait for it, and one entry that changed meanwhile has the kernel refuse all of them. */
const ENTRIES_AT_ONCE = 1000;

/** Service ports that are told of at most after one look. */
const MOST_TOLD = 10;

/**
 * Looks at the affinity maps from time to time. Packets fill them, for all Services alike, so that what one tenant's clients
 * leave there is deleted with its Service, and makes room for others where a map is nearly full.
 */
export class AffinityPoller implements SyncSubscriber {
  readonly #parts: AffinityPollerParts;
  readonly #entries = new Map<Family, number>();
  readonly #failures: FailureLog;
  #task: PeriodicTask | undefined;
  #isStopped = false;
  /** The last look left entries that are to go. */
  #isUnfinished = false;

  constructor(parts: AffinityPollerParts) {
    const { logger, clock } = parts;
    this.#parts = parts;
    this.#failures = new FailureLog(
      logger,
      clock,
      "cannot look after the affinity map: entries of deleted Services stay until their timeout",
      "the affinity map can be looked after again",
    );
  }

  /** The entries of each family's map as the last look found them; a family is absent before. */
  get entries(): Partial<ByFamily<number>> {
    return Object.fromEntries(this.#entries);
  }

  /** Looks once, and begins to look from time to time. The kernel must have had the whole desired state. */
  start(): void {
    if (this.#isStopped) return;
    this.#task = new PeriodicTask(
      this.#parts.clock,
      (took) => this.#pause(took),
      () => this.look(),
    );
    void this.look();
  }

  /** Stops looking. */
  stop(): void {
    this.#isStopped = true;
    this.#task?.stop();
  }

  /** Looks sooner where a Service port went. */
  synced(): void {
    this.#task?.periodChanged();
  }

  /** Looks once, where there can be entries, and deletes those that are to go. Never rejects. */
  async look(): Promise<void> {
    this.#isUnfinished = false;
    try {
      for (const family of FAMILIES) await this.#lookAt(family);
      this.#failures.end();
    } catch (error) {
      if (!(error instanceof NftStoppedError)) this.#failures.add(messageOf(error));
    }
  }

  #pause(took: number): number {
    const isUrgent =
      this.#isUnfinished || FAMILIES.some((family) => (this.#state(family)?.heldIds.size ?? 0) > 0);
    return Math.max(isUrgent ? SHORT_PAUSE : LONG_PAUSE, PAUSE_RATIO * took);
  }

  /** Undefined for a family without rules. */
  #state(family: Family): FamilyState | undefined {
    return this.#parts.state().families[family];
  }

  async #lookAt(family: Family): Promise<void> {
    const state = this.#state(family);
    const spec = state?.table.sets.get(AFFINITY)?.spec;
    // While the rules are to be repaired, nothing is known for sure of who has which id.
    if (state === undefined || spec === undefined || this.#parts.loop.given === undefined) return;
    const held = [...state.heldIds];
    const isSticky = (state.table.sets.get(AFFINITY_IDS)?.elements.size ?? 0) > 0;
    if (!isSticky && held.length === 0 && this.#entries.get(family) === 0) return;
    const { total, counts, gone } = await this.#read(state, spec);
    this.#entries.set(family, total);
    const isGone = ({ key }: Element) => this.#state(family)?.ownerOfList(servicePortOf(key)) === undefined;
    const { deleted, isComplete } = await this.#delete(family, spec, gone, isGone);
    if (deleted > 0) this.#parts.onDeleted("gone", deleted);
    if (isComplete && gone.length < MOST_DELETED) state.forgotten(held);
    else this.#isUnfinished = true;
    const excess = excessEntries(counts, spec.size ?? Number.POSITIVE_INFINITY);
    if (excess.size > 0) await this.#makeRoom(state, spec, counts, excess);
  }

  /** The number of entries of all service ports and of each, by id, and entries of service ports that are gone. */
  async #read(state: FamilyState, spec: SetSpec) {
    const counts = new Map<number, number>();
    const gone: Element[] = [];
    let total = 0;
    for await (const batch of this.#parts.tables.elements(state.table.family, spec)) {
      for (const entry of batch) {
        const id = servicePortOf(entry.key);
        total++;
        if (state.ownerOfList(id) !== undefined) counts.set(id, (counts.get(id) ?? 0) + 1);
        else if (gone.length < MOST_DELETED) gone.push(entry);
      }
    }
    return { total, counts, gone };
  }

  /** Deletes entries of the service ports with the most. @param excess how many of each, by id */
  async #makeRoom(
    state: FamilyState,
    spec: SetSpec,
    counts: ReadonlyMap<number, number>,
    excess: ReadonlyMap<number, number>,
  ): Promise<void> {
    const { tables, onDeleted, onCrowded, logger } = this.#parts;
    const { family } = state.table;
    this.#isUnfinished = true;
    const left = new Map(excess);
    const entries: Element[] = [];
    for await (const batch of tables.elements(family, spec)) {
      for (const entry of batch) {
        const id = servicePortOf(entry.key);
        const more = left.get(id) ?? 0;
        if (more === 0 || entries.length === MOST_DELETED) continue;
        left.set(id, more - 1);
        entries.push(entry);
      }
    }
    const { deleted } = await this.#delete(family, spec, entries, () => true);
    if (deleted > 0) onDeleted("crowded", deleted);
    const ports = [...excess]
      .sort(([, a], [, b]) => b - a)
      .flatMap(([id]) => {
        const port = state.ownerOfList(id);
        return port === undefined ? [] : [{ port, had: counts.get(id) }];
      });
    const told = ports.slice(0, MOST_TOLD);
    const most = told.map(({ port, had }) => `${port.name}: ${had}`);
    logger.warn(
      { family, size: spec.size, deleted, servicePorts: ports.length, most },
      "the affinity map is nearly full: forgot clients of the service ports with the most",
    );
    for (const { port } of told) onCrowded(port);
  }

  /**
   * @param isWanted asked at the moment of the deletion, when no sync is under way
   * @returns how many were deleted, and whether the kernel refused none
   */
  async #delete(
    family: Family,
    spec: SetSpec,
    entries: readonly Element[],
    isWanted: (entry: Element) => boolean,
  ): Promise<{ readonly deleted: number; readonly isComplete: boolean }> {
    const { loop, nft } = this.#parts;
    let deleted = 0;
    let isComplete = true;
    for (let from = 0; from < entries.length && !this.#isStopped; from += ENTRIES_AT_ONCE) {
      const chunk = entries.slice(from, from + ENTRIES_AT_ONCE);
      try {
        deleted += await loop.between(async () => {
          const wanted = chunk.filter(isWanted);
          if (wanted.length > 0) await nft.apply(forgetTransaction(family, spec, wanted));
          return wanted.length;
        });
      } catch (error) {
        // A client got another endpoint meanwhile. The next look tries again.
        if (!(error instanceof NftRefusedError)) throw error;
        isComplete = false;
      }
    }
    return { deleted, isComplete };
  }
}

/** The id of the service port to which a client's entry belongs; 0, which nobody has, for another key. */
function servicePortOf(key: string): number {
  return parseId(Number.parseInt(key, 10))?.servicePort ?? 0;
}
