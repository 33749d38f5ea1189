import type { Family } from "../base/family.ts";
import type { AppliedTransaction } from "../kernel/nft.ts";
import type { ServiceName, ServicePortKey } from "../model/ids.ts";
import type { TableDelta } from "../nft/delta.ts";
import type { Feature } from "../ruleset/feature-budget.ts";
import type { ConflictChanges } from "../ruleset/lost-frontends.ts";
import type { NodeContext } from "../ruleset/node-context.ts";
import type { RulesetState } from "../ruleset/ruleset-state.ts";
import type { ChangeTriggerTime } from "./change-tracker.ts";
import type { Quarantine, QuarantineChange } from "./quarantine-changes.ts";

/** Why a full sync was asked for. */
export type FullSyncReason = "start" | "periodic" | "failure" | "drift" | "configuration";

/** How a sync brought the kernel to the desired state. */
export interface SyncOutcome {
  readonly kind: "nothing" | "partial" | "full";
  /** Set for a full sync and for a repair. */
  readonly reason?: FullSyncReason;
  /** Services rendered since the last successful sync: they, their slices or the node context changed. */
  readonly rendered: ReadonlySet<ServiceName>;
  /** Services that changed and whose rules are not complete in the kernel: later syncs go on with them. */
  readonly waiting: ReadonlySet<ServiceName>;
  /** The differences that were sent to the kernel. */
  readonly deltas: readonly TableDelta[];
  /** The transactions that carried them, in order. */
  readonly applied: readonly AppliedTransaction[];
  /** Differences that were repaired and that our own pending changes do not explain: changes made by someone else. */
  readonly drift: readonly TableDelta[];
  /** The program whose changes were repaired; absent where it is not known. */
  readonly author?: string;
  /** How long our tables were compared for this sync, before it, milliseconds. */
  readonly comparisonMs?: number | undefined;
  /** Why our tables could not be read and were rebuilt; undefined when they could be read. */
  readonly unreadable?: string | undefined;
  /** Service ports that the kernel refused in this sync. */
  readonly refused: readonly ServicePortKey[];
}

/** The changes of others that a sync repaired. */
export interface DriftSummary {
  /** `table`: one of our tables was missing or could not be changed in place; `element`: something in it differed. */
  readonly kind: "table" | "element";
  /** How many chains, sets and elements differed; 0 after a rebuild, which does not know. */
  readonly differences: number;
  /** In words, for logs and Events. */
  readonly text: string;
}

/** What is told of a sync, computed once for the log, Events, metrics and the history. */
export interface SyncNews {
  /** What somebody else had changed, and was repaired; undefined for nothing. */
  readonly repaired: DriftSummary | undefined;
  readonly conflicts: ConflictChanges;
  readonly quarantineChange: QuarantineChange;
  /** The same of service ports that are served without a feature that they ask for. */
  readonly featureChanges: Readonly<Record<Feature, QuarantineChange>>;
}

/** A successful sync. Times are milliseconds since 1970 by the wall clock of its start, whatever that is set to meanwhile. */
export interface SyncReport extends SyncOutcome, SyncNews {
  readonly startedAt: number;
  readonly endedAt: number;
  /** What it took, with the comparison before it. Milliseconds. */
  readonly durationMs: number;
  /** The endpoint changes that reached the kernel with this sync. */
  readonly triggerTimes: readonly ChangeTriggerTime[];
  /** When each change that reached the kernel with this sync was received. */
  readonly receivedAt: readonly number[];
  readonly nodeContext: NodeContext;
  /** The desired state, which at this moment is also the committed one. */
  readonly state: RulesetState;
  readonly quarantined: Quarantine;
  /** Every family without tables because the kernel refuses these, with its reason. */
  readonly excludedFamilies: ReadonlyMap<Family, string>;
}

/** A sync that did not succeed and will be retried. Times are milliseconds since 1970. */
export interface SyncFailure {
  readonly startedAt: number;
  readonly endedAt: number;
  readonly error: unknown;
  /** It was to compare everything with the kernel. */
  readonly isFull: boolean;
}

/** Takes the result of every sync. Called in turn, synchronously; must not hold up the next sync. */
export interface SyncSubscriber {
  synced(report: SyncReport): void;
  failed?(failure: SyncFailure): void;
  /** Stale chains could not be deleted; it is tried again later. They do no harm. */
  cleanUpFailed?(error: unknown): void;
}
