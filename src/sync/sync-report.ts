import type { Family } from "../base/family.ts";
import { counted } from "../base/text.ts";
import type { AppliedTransaction } from "../kernel/nft.ts";
import type { ServiceName, ServicePortKey } from "../model/ids.ts";
import { deltaSize, type TableDelta } from "../nft/delta.ts";
import { ofKind } from "../nft/table-objects.ts";
import type { ConflictChanges } from "../ruleset/lost-frontends.ts";
import type { FeatureBudgetParts, NodeContext } from "../ruleset/node-context.ts";
import type { RulesetState } from "../ruleset/ruleset-state.ts";
import type { ChangeTriggerTime } from "./change-tracker.ts";
import { type Quarantine, type QuarantineChange, quarantineChanges } from "./quarantine-changes.ts";

/** Why a full sync was requested. */
export type FullSyncReason = "start" | "periodic" | "failure" | "drift" | "configuration";

/** How a sync brought the kernel to the desired state. */
export interface SyncOutcome {
  readonly kind: "nothing" | "partial" | "full";
  /** Set for a full sync and for a repair. */
  readonly reason?: FullSyncReason | undefined;
  /** Services rendered since the last successful sync: they, their slices or the node context changed. */
  readonly rendered: ReadonlySet<ServiceName>;
  /** Changed Services whose rules are not complete in the kernel: later syncs send the rest. */
  readonly waiting: ReadonlySet<ServiceName>;
  /** The differences that were sent to the kernel. */
  readonly deltas: readonly TableDelta[];
  /** The transactions that carried them, in order. */
  readonly applied: readonly AppliedTransaction[];
  /** Repaired differences that other programs made: our own pending changes do not explain them. */
  readonly drift: readonly TableDelta[];
  /** The program whose changes were repaired; absent if unknown. */
  readonly author?: string | undefined;
  /** Duration of the comparison of our tables before this sync and for it. Milliseconds. */
  readonly comparisonMs?: number | undefined;
  /** Why our tables could not be read and were rebuilt; absent if they could be read. */
  readonly unreadable?: string | undefined;
  /** Service ports that the kernel refused in this sync. */
  readonly refused: readonly ServicePortKey[];
}

/** Changes by other programs that a sync repaired. */
export interface DriftSummary {
  /**
   * `table`: one of our tables was missing or could not be changed in place; `element`: something in it
   * differed.
   */
  readonly kind: "table" | "element";
  /** Number of chains, sets and elements that differed; 0 after a rebuild, which cannot count them. */
  readonly differences: number;
  /** As text, for the log, Events and the history. */
  readonly text: string;
  /** The program that made them; undefined if unknown. */
  readonly author?: string | undefined;
}

/**
 * The times of a sync and of its changes. Times are milliseconds since 1970 by the wall clock of its start,
 * except `startedMonotonic`.
 */
export interface SyncTimes {
  readonly startedAt: number;
  readonly endedAt: number;
  /** When it started, milliseconds on the monotonic clock. */
  readonly startedMonotonic: number;
  /** Duration with the comparison before the sync. Milliseconds. */
  readonly durationMs: number;
  /** The endpoint changes that reached the kernel with this sync. */
  readonly triggerTimes: readonly ChangeTriggerTime[];
  /** When each change that reached the kernel with this sync was received. */
  readonly receivedAt: readonly number[];
  readonly nodeContext: NodeContext;
}

/** A successful sync, with everything that is new since the previous one. */
export interface SyncReport
  extends SyncTimes,
    Pick<SyncOutcome, "kind" | "reason" | "rendered" | "waiting" | "deltas" | "applied" | "unreadable"> {
  /** Undefined if no other program had changed anything. */
  readonly repaired: DriftSummary | undefined;
  readonly conflicts: ConflictChanges;
  readonly quarantineChange: QuarantineChange;
  /** Service ports that started or stopped being served without a feature that they ask for. */
  readonly featureChanges: readonly FeatureChange[];
  /** Every family without tables because the kernel refuses these, with its reason. */
  readonly excludedFamilies: ReadonlyMap<Family, string>;
}

/** The service ports that started or stopped being served without a feature. */
interface FeatureChange extends QuarantineChange {
  readonly feature: FeatureBudgetParts;
}

/** A sync that did not succeed and will be retried. Times are milliseconds since 1970. */
export interface SyncFailure {
  readonly startedAt: number;
  readonly endedAt: number;
  readonly error: unknown;
  /** Whether it was a full sync. */
  readonly isFull: boolean;
}

/** Takes the result of every sync. Called in turn, synchronously; must not hold up the next sync. */
export interface SyncSubscriber {
  synced(report: SyncReport): void;
  failed?(failure: SyncFailure): void;
  /** Stale chains could not be deleted. This is harmless, and is tried again later. */
  cleanUpFailed?(error: unknown): void;
}

/** The programmed state as reports need it. */
interface Programmed extends Pick<SyncReport, "excludedFamilies"> {
  readonly state: RulesetState;
  readonly quarantined: Quarantine;
}

/** Makes the reports of one daemon, each with everything that is new since the previous one. */
export function syncReporter(): (
  outcome: SyncOutcome,
  programmed: Programmed,
  times: SyncTimes,
) => SyncReport {
  const quarantineChange = quarantineChanges();
  const changesOf = new Map<string, ReturnType<typeof quarantineChanges>>();
  const featureChange = (feature: FeatureBudgetParts, { budgets }: RulesetState): FeatureChange => {
    const changes = changesOf.get(feature.name) ?? quarantineChanges();
    changesOf.set(feature.name, changes);
    return { feature, ...changes(budgets.without(feature.name)) };
  };
  return (outcome, { state, quarantined, excludedFamilies }, times) => {
    const { kind, reason, rendered, waiting, deltas, applied, unreadable, refused } = outcome;
    return {
      ...{ kind, reason, rendered, waiting, deltas, applied, unreadable, excludedFamilies, ...times },
      repaired: driftSummary(outcome),
      conflicts: state.takeConflictChanges(),
      quarantineChange: quarantineChange(quarantined, refused),
      featureChanges: state.budgets.features.map((feature) => featureChange(feature, state)),
    };
  };
}

function driftSummary({ reason, drift, unreadable, author }: SyncOutcome): DriftSummary | undefined {
  if (unreadable !== undefined) {
    const text = `our tables could not be read and were rebuilt: ${unreadable}`;
    // At the start, this is not drift: the tables belong to another version, or do not exist yet.
    return reason === "start" ? undefined : { kind: "element", differences: 0, text };
  }
  if (drift.length === 0) return undefined;
  const { chains, sets, elements } = deltaSize(drift);
  return {
    kind: drift.some(({ mode }) => mode !== "change") ? "table" : "element",
    differences: chains + sets + elements,
    text: driftText(drift),
    author,
  };
}

/** Describes differences, table by table. */
export function driftText(drift: readonly TableDelta[]): string {
  return drift.map(tableText).join("; ");
}

function tableText(delta: TableDelta): string {
  const table = `table ${delta.family} ${delta.table}`;
  if (delta.mode === "create") return `${table} was missing`;
  if (delta.mode === "recreate") return `${table} had other declarations`;
  const { chains, sets, elements } = deltaSize([delta]);
  const objects = ofKind(delta.objects, "ct timeout").length;
  const timeouts = objects === 0 ? "" : `, ${counted(objects, "object")} with timeouts`;
  return `${table}: ${counted(chains, "chain")}, ${counted(sets, "set")}, ${counted(elements, "element")}${timeouts} differed`;
}
