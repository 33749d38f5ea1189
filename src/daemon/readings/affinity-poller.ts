import type { Clock } from "../../base/clock.ts";
import { excessOver } from "../../base/equal-shares.ts";
import { FailureLog } from "../../base/failure-log.ts";
import { type ByFamily, FAMILIES, type Family } from "../../base/family.ts";
import { addToCount } from "../../base/group-by.ts";
import type { Logger } from "../../base/logger.ts";
import { PeriodicTask } from "../../base/periodic-task.ts";
import { loggedReading } from "../../kernel/logged-reading.ts";
import type { Nft } from "../../kernel/nft.ts";
import { NftRefusedError } from "../../kernel/nft-errors.ts";
import type { TableReader } from "../../kernel/table-reader.ts";
import type { ServicePort } from "../../model/service-port.ts";
import type { SetSpec } from "../../nft/ast/ruleset.ts";
import type { Element } from "../../nft/elements.ts";
import { deletionTransaction } from "../../nft/transaction.ts";
import type { FamilyState } from "../../ruleset/family-state.ts";
import { parseId } from "../../ruleset/list-ids.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";
import { AFFINITY, AFFINITY_IDS } from "../../ruleset/sets.ts";
import type { SyncLoop } from "../../sync/sync-loop.ts";

/** Parts of {@link affinityPoller}. */
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

/** Reads the affinity maps, and deletes entries from them. */
export type AffinityPoller = Readonly<ReturnType<typeof affinityPoller>>;

/**
 * Reads the affinity maps periodically. The packets of all Services fill them, so the entries of a deleted
 * Service are deleted, and in a nearly full map those of the service ports with the most. Also counts the
 * clients with limits, whose entries the kernel deletes itself. The ids of deleted service ports are free
 * when no entry has them any longer.
 */
export function affinityPoller({ clock, logger, tables, nft, loop, state, onCrowded }: AffinityPollerParts) {
  const failures = new FailureLog(
    { clock, logger },
    "clean up the affinity map",
    ": entries of deleted Services stay until their timeout",
  );
  const entries: Partial<Record<Family, number>> = {};
  const clients = new Map<Family, readonly CountedClients[]>();
  const deleted = { gone: 0, crowded: 0 };
  let task: PeriodicTask | undefined;
  let hasRead = false;
  let isStopped = false;
  /** Whether the last reading left entries to delete. */
  let isUnfinished = false;

  /** Undefined for a family without rules. */
  const stateOf = (family: Family): FamilyState | undefined => state().families[family];

  /** Passes on every entry of a set or map, with the id of its service port. */
  const visit = async (family: Family, spec: SetSpec, onEntry: (id: number, entry: Element) => void) => {
    for await (const batch of tables.elements(family, spec))
      for (const entry of batch) onEntry(servicePortOf(entry.key), entry);
  };

  /** Counts the clients in the sets of features. Returns the ids of their service ports. */
  const countClients = async ({ table: { family, sets }, features }: FamilyState) => {
    const counted: CountedClients[] = [];
    const ids = new Set<number>();
    for (const [set, what] of features.flatMap(({ clientSets = {} }) => Object.entries(clientSets))) {
      const spec = sets.get(set)?.spec;
      if (spec === undefined) continue;
      let count = 0;
      await visit(family, spec, (id) => {
        count++;
        ids.add(id);
      });
      counted.push({ family, set, what, size: spec.size ?? 0, entries: count });
    }
    clients.set(family, counted);
    return ids;
  };

  /**
   * @param isWanted called just before the deletion, while no sync runs
   * @returns how many were deleted, and whether the kernel refused none
   */
  const deleteEntries = async (
    family: Family,
    spec: SetSpec,
    unwanted: readonly Element[],
    isWanted: (entry: Element) => boolean,
  ) => {
    let count = 0;
    let isComplete = true;
    for (let from = 0; from < unwanted.length && !isStopped; from += ENTRIES_PER_TRANSACTION) {
      const chunk = unwanted.slice(from, from + ENTRIES_PER_TRANSACTION);
      try {
        count += await loop.betweenSyncs(async () => {
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
    return { count, isComplete };
  };

  /** Deletes entries of the service ports with the most. @param excess how many to delete of each, by id */
  const makeRoom = async (
    owners: FamilyState,
    spec: SetSpec,
    counts: ReadonlyMap<number, number>,
    excess: ReadonlyMap<number, number>,
  ) => {
    const { family } = owners.table;
    isUnfinished = true;
    const left = new Map(excess);
    const crowded: Element[] = [];
    await visit(family, spec, (id, entry) => {
      const more = left.get(id) ?? 0;
      if (more === 0 || crowded.length === MOST_DELETED) return;
      left.set(id, more - 1);
      crowded.push(entry);
    });
    const { count } = await deleteEntries(family, spec, crowded, () => true);
    deleted.crowded += count;
    const ports = [...excess]
      .sort(([, a], [, b]) => b - a)
      .flatMap(([id]) => {
        const port = owners.ownerOfList(id);
        return port === undefined ? [] : [{ port, had: counts.get(id) }];
      });
    const reported = ports.slice(0, MOST_REPORTED);
    const most = reported.map(({ port, had }) => `${port.name}: ${had}`);
    logger.warn(
      { family, size: spec.size, deleted: count, servicePorts: ports.length, most },
      "the affinity map is nearly full: deleted entries of the service ports with the most",
    );
    for (const { port } of reported) onCrowded(port);
  };

  const pollFamily = async (family: Family) => {
    const owners = stateOf(family);
    const spec = owners?.table.sets.get(AFFINITY)?.spec;
    // Until the rules are repaired, it is not certain which service port has which id.
    const isRepairing = loop.desiredUnlessRepairing === undefined;
    if (owners === undefined || spec === undefined || isRepairing) return;
    const held = [...owners.ids.held];
    const limited = await countClients(owners);
    const isSticky = (owners.table.sets.get(AFFINITY_IDS)?.elements.size ?? 0) > 0;
    if (!isSticky && held.length === 0 && entries[family] === 0) return;
    const counts = new Map<number, number>();
    const gone: Element[] = [];
    let total = 0;
    await visit(family, spec, (id, entry) => {
      total++;
      if (owners.ownerOfList(id) !== undefined) addToCount(counts, id, 1);
      else if (gone.length < MOST_DELETED) gone.push(entry);
    });
    entries[family] = total;
    const isGone = ({ key }: Element) => stateOf(family)?.ownerOfList(servicePortOf(key)) === undefined;
    const { count, isComplete } = await deleteEntries(family, spec, gone, isGone);
    deleted.gone += count;
    if (isComplete && gone.length < MOST_DELETED) owners.ids.freeHeld(held.filter((id) => !limited.has(id)));
    else isUnfinished = true;
    const excess = excessEntries(counts, spec.size ?? Number.POSITIVE_INFINITY);
    if (excess.size > 0) await makeRoom(owners, spec, counts, excess);
  };

  /** Reads the maps that may have entries, and deletes entries. Never rejects. */
  const poll = async (): Promise<void> => {
    hasRead = true;
    isUnfinished = false;
    await loggedReading(failures, async () => {
      for (const family of FAMILIES) await pollFamily(family);
    });
  };

  const pause = (took: number): number => {
    if (!hasRead) return FIRST_DELAY;
    const isUrgent = isUnfinished || FAMILIES.some((family) => stateOf(family)?.ids.holdsAny);
    return Math.max(isUrgent ? SHORT_PAUSE : LONG_PAUSE, PAUSE_RATIO * took);
  };

  return {
    /** Number of entries of each family's map at the last reading; absent before the first one. */
    entries: entries as Partial<ByFamily<number>>,
    /** Deleted entries: their service port is gone, or has the most entries of a nearly full map. */
    deleted: deleted as Readonly<typeof deleted>,
    /** The clients with limits at the last reading; none if there are no limits. */
    get countedClients(): readonly CountedClients[] {
      return [...clients.values()].flat();
    },
    poll,
    /** Starts to read after the first sync. Then reads sooner if a Service port was deleted. */
    synced(): void {
      if (isStopped) return;
      task ??= new PeriodicTask(clock, pause, poll);
      task.periodChanged();
    },
    stop(): void {
      isStopped = true;
      task?.stop();
    },
  };
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

/** Returns the service port id of an entry; 0, which no service port has, for an unknown key. */
function servicePortOf(key: string): number {
  return parseId(Number.parseInt(key, 10))?.servicePort ?? 0;
}
