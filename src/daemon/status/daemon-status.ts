import type { ByFamily } from "../../base/family.ts";
import type { ConnectionLookup, FeatureCard, Fill } from "../../features/seam/daemon-part.ts";
import type { ContainerMemory, ProgramMemory } from "../../kernel/memory-usage.ts";
import type { CostlyTable } from "../../kernel/others-sets.ts";
import type { HostVersions } from "../../kernel/versions.ts";
import { type ServiceName, serviceOf } from "../../model/ids.ts";
import type { ObjectCache } from "../../model/object-cache.ts";
import type { NodeContext } from "../../ruleset/node-context.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";
import type { DaemonProblem, DaemonState } from "../../socket/daemon-protocol.ts";
import type { Quarantine } from "../../sync/quarantine-changes.ts";
import type { SyncSubscriber } from "../../sync/sync-report.ts";
import type { HealthReport } from "../health/health.ts";
import type { SyncHistory, TimelineMinute } from "../health/sync-history.ts";
import type { CountedClients } from "../readings/affinity-poller.ts";

/** The state of a daemon at one moment, for the status page. Times are milliseconds since 1970. */
export interface DaemonStatus
  extends Pick<DaemonState, "version" | "startedAt" | "now" | "dryRun" | "sources"> {
  readonly hostVersions: HostVersions;
  readonly cache: ObjectCache;
  readonly nodeContext: NodeContext;
  readonly state: RulesetState;
  readonly quarantined: Quarantine;
  readonly health: HealthReport;
  readonly problems: readonly DaemonProblem[];
  readonly history: Readonly<Omit<SyncHistory, "verified" | keyof SyncSubscriber>>;
  readonly pending: Pending;
  /** The last hour, oldest minute first. */
  readonly timeline: readonly TimelineMinute[];
  /** The cards of features; absent for none. */
  readonly cards?: readonly FeatureCard[];
  /** What features have that has a limit; absent for nothing. */
  readonly fills?: readonly Fill[];
  /** Tables of other software that slow transactions down, the costliest first. */
  readonly costlyTables: readonly CostlyTable[];
  /** Undefined if connections are not counted. */
  readonly connections: ConnectionLookup | undefined;
  readonly memory: MemoryStatus;
  /** Entries of each family's affinity map, as last read. */
  readonly affinityEntries: Partial<ByFamily<number>>;
  /** Clients in sets of features, as last read. */
  readonly countedClients: readonly CountedClients[];
  /** Tracked connections, and their maximum number; undefined while the kernel tracks none. */
  readonly conntrack: { readonly entries: number | undefined; readonly capacity: number | undefined };
}

/** Memory of the daemon, its container and its programs. Bytes. */
interface MemoryStatus {
  /** Resident memory of the daemon itself. */
  readonly own: number;
  /** Undefined outside a container. */
  readonly container: ContainerMemory | undefined;
  readonly programs: readonly ProgramMemory[];
}

/** Desired changes that are not in the kernel yet. */
export interface Pending {
  /** Time of the first, milliseconds since 1970; undefined if the kernel is up to date. */
  readonly since: number | undefined;
  /** Sorted; empty if something else is pending, such as a changed option. */
  readonly services: readonly ServiceName[];
}

/**
 * Returns the Services that changed since the last successful sync: not rendered yet, or in a failed sync.
 */
export function pendingServices(
  cache: Pick<ObjectCache, "dirty">,
  { families }: RulesetState,
): ServiceName[] {
  const rendered = Object.values(families).flatMap((family) =>
    family.uncommitted().map(({ key }) => serviceOf(key)),
  );
  return [...new Set([...cache.dirty, ...rendered])].sort();
}
