import type { ResourceName, SourceState } from "../../kube/source.ts";
import type { ObjectCache } from "../../model/object-cache.ts";
import type { NodeContext } from "../../ruleset/node-context.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";
import type { Quarantine } from "../../sync/sync-report.ts";
import type { VanishedEndpoint } from "../../sync/vanished-endpoints.ts";
import type { HealthReport } from "../health/health.ts";
import type { ConnectionCounts } from "../metrics/connection-metrics.ts";
import type { RecentRefusals } from "../refusals/recent-refusals.ts";
import type { Pending } from "./pending-services.ts";
import type { SyncHistorySnapshot } from "./sync-history.ts";
import type { TimelineMinute } from "./sync-timeline.ts";

/** Endpoints whose connections are reset. */
export interface VanishedStatus {
  /** Those that left first first. */
  readonly held: readonly VanishedEndpoint[];
  /** Since the rules were made. */
  readonly resetPackets: number;
}

/** A daemon as the status page sees it at one moment. Times are milliseconds since 1970. */
export interface DaemonStatus {
  readonly version: string;
  readonly startedAt: number;
  readonly now: number;
  /** Applies nothing. */
  readonly dryRun: boolean;
  readonly cache: ObjectCache;
  readonly nodeContext: NodeContext;
  readonly state: RulesetState;
  readonly quarantined: Quarantine;
  readonly health: HealthReport;
  readonly sources: Readonly<Record<ResourceName, SourceState>>;
  readonly history: SyncHistorySnapshot;
  readonly pending: Pending;
  /** The last hour, oldest minute first. */
  readonly timeline: readonly TimelineMinute[];
  /** Absent where refusals are not recorded, and before they were first looked at. */
  readonly refusals?: RecentRefusals;
  /** Absent where connections to vanished endpoints are not reset. */
  readonly vanished?: VanishedStatus;
  /** undefined where connections are not counted. */
  readonly counts: ConnectionCounts | undefined;
}
