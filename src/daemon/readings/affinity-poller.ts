import type { Clock } from "../../base/clock.ts";
import { excessOver } from "../../base/equal-shares.ts";
import { FailureLog } from "../../base/failure-log.ts";
import { FAMILIES, type Family } from "../../base/family.ts";
import { addToCount } from "../../base/group-by.ts";
import type { Logger } from "../../base/logger.ts";
import { PeriodicTask } from "../../base/periodic-task.ts";
import { loggedReading } from "../../kernel/logged-reading.ts";
import type { Nft } from "../../kernel/nft.ts";
import { NftRefusedError } from "../../kernel/nft-errors.ts";
import type { TableReader } from "../../kernel/table-reader.ts";
import type { ServicePort } from "../../model/service-port.ts";
import type { SetSpec, Table } from "../../nft/ast/ruleset.ts";
import type { Element } from "../../nft/elements.ts";
import { deletionTransaction } from "../../nft/transaction.ts";
import type { FamilyState } from "../../ruleset/family-state.ts";
import { parseId } from "../../ruleset/list-ids.ts";
import type { RulesetPart } from "../../ruleset/node-context.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";
import { AFFINITY, AFFINITY_IDS } from "../../ruleset/sets.ts";
import type { SyncLoop } from "../../sync/sync-loop.ts";
import type { SyncSubscriber } from "../../sync/sync-report.ts";

/** Parts of {@link AffinityPoller}. */
export interface AffinityPollerParts {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly tables: Pick<TableReader, "elements">;
  readonly nft: Nft;
  readonly loop: Pick<SyncLoop, "desiredUnlessRepairing" | "betweenSyncs">;
  readonly state: () => RulesetState;
  /** Called for a service port that lost entries because it had the most. */
  readonly onCrowded: (port: ServicePort) => void;
}

/** Delay from the first sync to the first reading, as a start is busy. Milliseconds. */
const FIRST_DELAY = 5000;

/** Minimum pause between readings while there are entries to delete. Milliseconds. */
const SHORT_PAUSE = 5000;

/** Minimum pause between other readings. Milliseconds. */
const LONG_PAUSE = 60_000;

/** Minimum ratio of a pause to a reading: 100,000 entries take 0.3 s of CPU (6.18). */
const PAUSE_RATIO = 50;

/**
 * Maximum number of entries that one reading deletes, as it holds their keys in memory. The next one
 * continues.
 */
const MOST_DELETED = 100_000;

/**
 * Maximum number of entries in one transaction. Changes wait for it, and the kernel refuses all of it if one
 * entry has changed.
 */
const ENTRIES_PER_TRANSACTION = 1000;

/** Maximum number of service ports reported after one reading. */
const MOST_REPORTED = 10;

/**
 * Reads the affinity maps periodically. The packets of all Services fill them, so the entries of a deleted
 * Service are deleted, and in a nearly full map those of the service ports with the most. Also counts the
 * clients with limits, whose entries the kernel deletes itself. The ids of deleted service ports are free
 * when no entry has them any longer.
 */
export class AffinityPoller implements SyncSubscriber {
  readonly #parts: AffinityPollerParts;
  #entries: Readonly<Partial<Record<Family, number>>> = {};
  readonly #limited = new Map<Family, readonly CountedClients[]>();
  readonly #failures: FailureLog;
  #task: PeriodicTask | undefined;
  #hasRead = false;
  readonly #deleted = { gone: 0, crowded: 0 };
  /** Deleted entries: their service port is gone, or has the most entries of a nearly full map. */
  readonly deleted: Readonly<Record<"gone" | "crowded", number>> = this.#deleted;
  #isStopped = false;
  /** Whether the last reading left entries to delete. */
  #isUnfinished = false;

  constructor(parts: AffinityPollerParts) {
    this.#parts = parts;
    this.#failures = new FailureLog(
      parts,
      "clean up the affinity map",
      ": entries of deleted Services stay until their timeout",
    );
  }

  /** Number of entries of each family's map at the last reading; absent before the first one. */
  get entries(): Readonly<Partial<Record<Family, number>>> {
    return this.#entries;
  }

  /** The clients with limits at the last reading; none if there are no limits. */
  get countedClients(): readonly CountedClients[] {
    return [...this.#limited.values()].flat();
  }

  stop(): void {
    this.#isStopped = true;
    this.#task?.stop();
  }

  /** Starts to read after the first sync. Then reads sooner if a Service port was deleted. */
  synced(): void {
    if (this.#isStopped) return;
    const pause = (took: number) => this.#pause(took);
    this.#task ??= new PeriodicTask(this.#parts.clock, pause, () => this.poll());
    this.#task.periodChanged();
  }

  /** Reads the maps that may have entries, and deletes entries. Never rejects. */
  async poll(): Promise<void> {
    this.#hasRead = true;
    this.#isUnfinished = false;
    await loggedReading(this.#failures, async () => {
      for (const family of FAMILIES) await this.#pollFamily(family);
    });
  }

  #pause(took: number): number {
    if (!this.#hasRead) return FIRST_DELAY;
    const isUrgent = this.#isUnfinished || FAMILIES.some((family) => this.#state(family)?.ids.holdsAny);
    return Math.max(isUrgent ? SHORT_PAUSE : LONG_PAUSE, PAUSE_RATIO * took);
  }

  /** Undefined for a family without rules. */
  #state(family: Family): FamilyState | undefined {
    return this.#parts.state().families[family];
  }

  async #pollFamily(family: Family): Promise<void> {
    const state = this.#state(family);
    const spec = state?.table.sets.get(AFFINITY)?.spec;
    // Until the rules are repaired, it is not certain which service port has which id.
    const isRepairing = this.#parts.loop.desiredUnlessRepairing === undefined;
    if (state === undefined || spec === undefined || isRepairing) return;
    const held = [...state.ids.held];
    const { clients, ids } = await readCountedClients(this.#parts.tables, state.table, state.features);
    this.#limited.set(family, clients);
    const isSticky = (state.table.sets.get(AFFINITY_IDS)?.elements.size ?? 0) > 0;
    if (!isSticky && held.length === 0 && this.#entries[family] === 0) return;
    const { total, counts, gone } = await this.#read(state, spec);
    this.#entries = { ...this.#entries, [family]: total };
    const isGone = ({ key }: Element) => this.#state(family)?.ownerOfList(servicePortOf(key)) === undefined;
    const { deleted, isComplete } = await this.#delete(family, spec, gone, isGone);
    this.#deleted.gone += deleted;
    if (isComplete && gone.length < MOST_DELETED) state.ids.freeHeld(held.filter((id) => !ids.has(id)));
    else this.#isUnfinished = true;
    const excess = excessEntries(counts, spec.size ?? Number.POSITIVE_INFINITY);
    if (excess.size > 0) await this.#makeRoom(state, spec, counts, excess);
  }

  /** Counts the entries of all service ports and of each, by id, and collects those of deleted ones. */
  async #read(state: FamilyState, spec: SetSpec) {
    const counts = new Map<number, number>();
    const gone: Element[] = [];
    let total = 0;
    for await (const batch of this.#parts.tables.elements(state.table.family, spec)) {
      for (const entry of batch) {
        const id = servicePortOf(entry.key);
        total++;
        if (state.ownerOfList(id) !== undefined) addToCount(counts, id, 1);
        else if (gone.length < MOST_DELETED) gone.push(entry);
      }
    }
    return { total, counts, gone };
  }

  /** Deletes entries of the service ports with the most. @param excess how many to delete of each, by id */
  async #makeRoom(
    state: FamilyState,
    spec: SetSpec,
    counts: ReadonlyMap<number, number>,
    excess: ReadonlyMap<number, number>,
  ): Promise<void> {
    const { tables, onCrowded, logger } = this.#parts;
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
    this.#deleted.crowded += deleted;
    const ports = [...excess]
      .sort(([, a], [, b]) => b - a)
      .flatMap(([id]) => {
        const port = state.ownerOfList(id);
        return port === undefined ? [] : [{ port, had: counts.get(id) }];
      });
    const reported = ports.slice(0, MOST_REPORTED);
    const most = reported.map(({ port, had }) => `${port.name}: ${had}`);
    logger.warn(
      { family, size: spec.size, deleted, servicePorts: ports.length, most },
      "the affinity map is nearly full: deleted entries of the service ports with the most",
    );
    for (const { port } of reported) onCrowded(port);
  }

  /**
   * @param isWanted called just before the deletion, while no sync runs
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
    for (let from = 0; from < entries.length && !this.#isStopped; from += ENTRIES_PER_TRANSACTION) {
      const chunk = entries.slice(from, from + ENTRIES_PER_TRANSACTION);
      try {
        deleted += await loop.betweenSyncs(async () => {
          const wanted = chunk.filter(isWanted);
          if (wanted.length > 0) await nft.apply(deletionTransaction(family, spec, wanted));
          return wanted.length;
        });
      } catch (error) {
        // A client has another endpoint now. The next reading tries again.
        if (!(error instanceof NftRefusedError)) throw error;
        isComplete = false;
      }
    }
    return { deleted, isComplete };
  }
}

/** Fill of the affinity map at which entries are deleted, and fill after that. Fractions of its size. */
const NEARLY_FULL = 0.9;
const ENOUGH_ROOM = 0.8;

/**
 * Computes how many entries of each service port to delete from an affinity map that is nearly full. The
 * ports with the most entries are cut to a common maximum, so that ports with fewer entries lose none.
 * @param counts entries by service port, in any order
 * @param size maximum number of entries of the map
 * @returns an empty result if the map has room
 */
export function excessEntries<Port>(
  counts: ReadonlyMap<Port, number>,
  size: number,
): ReadonlyMap<Port, number> {
  let total = 0;
  for (const count of counts.values()) total += count;
  return total <= NEARLY_FULL * size ? new Map() : excessOver(counts, Math.floor(ENOUGH_ROOM * size));
}

/** The number of clients, by service port, in a set of a feature. */
export interface CountedClients {
  readonly family: Family;
  readonly set: string;
  /** What they are: `Clients with limited connections`. */
  readonly what: string;
  /** Maximum number of entries. */
  readonly size: number;
  readonly entries: number;
}

/** Counts the clients in the sets of features, and collects the ids of their service ports. */
async function readCountedClients(
  tables: Pick<TableReader, "elements">,
  { family, sets }: Table,
  features: readonly Pick<RulesetPart, "clientSets">[],
): Promise<{ readonly clients: readonly CountedClients[]; readonly ids: ReadonlySet<number> }> {
  const clients: CountedClients[] = [];
  const ids = new Set<number>();
  for (const [set, what] of features.flatMap(({ clientSets = {} }) => Object.entries(clientSets))) {
    const spec = sets.get(set)?.spec;
    if (spec === undefined) continue;
    let entries = 0;
    for await (const batch of tables.elements(family, spec)) {
      entries += batch.length;
      for (const { key } of batch) ids.add(servicePortOf(key));
    }
    clients.push({ family, set, what, size: spec.size ?? 0, entries });
  }
  return { clients, ids };
}

/** Returns the service port id of an entry; 0, which no service port has, for an unknown key. */
function servicePortOf(key: string): number {
  return parseId(Number.parseInt(key, 10))?.servicePort ?? 0;
}
