import type { ResourceName, SourceState } from "../../kube/source.ts";
import type { ServicePortKey } from "../../model/ids.ts";
import type { World } from "../../model/world.ts";
import type { FamilyContext } from "../../ruleset/context.ts";
import type { RulesetState } from "../../ruleset/state.ts";
import type { HealthReport } from "../health.ts";
import type { ConnectionCounts } from "../metrics-connections.ts";
import type { SyncHistorySnapshot } from "./sync-history.ts";

/** A daemon as the status page sees it at one moment. Times are milliseconds since 1970. */
export interface DaemonStatus {
  readonly version: string;
  readonly startedAt: number;
  readonly now: number;
  /** Applies nothing. */
  readonly dryRun: boolean;
  readonly world: World;
  readonly contexts: readonly FamilyContext[];
  readonly state: RulesetState;
  readonly quarantined: ReadonlySet<ServicePortKey>;
  readonly health: HealthReport;
  readonly sources: Readonly<Record<ResourceName, SourceState>>;
  readonly history: SyncHistorySnapshot;
  /** undefined where connections are not counted. */
  readonly counts: ConnectionCounts | undefined;
}
