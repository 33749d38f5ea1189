import type { ByFamily } from "../../base/family.ts";
import { socketText } from "../../base/text.ts";
import type { FeatureCard, Fill } from "../../features/seam/daemon-part.ts";
import type { ContainerMemory, ProgramMemory } from "../../kernel/memory-usage.ts";
import type { CostlyTable } from "../../kernel/others-sets.ts";
import type { HostVersions } from "../../kernel/versions.ts";
import type { ResourceName, SourceState } from "../../kube/source.ts";
import { type ServiceName, serviceOf } from "../../model/ids.ts";
import type { ObjectCache } from "../../model/object-cache.ts";
import type { ServicePort } from "../../model/service-port.ts";
import type { NodeContext } from "../../ruleset/node-context.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";
import type { FrontendView } from "../../ruleset/service-view.ts";
import type { DaemonProblem } from "../../socket/daemon-protocol.ts";
import type { Quarantine } from "../../sync/quarantine-changes.ts";
import type { HealthReport } from "../health/health.ts";
import {
  type ConnectionCount,
  type ConnectionCounts,
  frontendTarget,
} from "../readings/connection-counts.ts";
import type { CountedClients } from "../readings/counted-clients.ts";
import type { SyncHistorySnapshot, TimelineMinute } from "./sync-history.ts";

/** The state of a daemon at one moment, for the status page. Times are milliseconds since 1970. */
export interface DaemonStatus {
  readonly version: string;
  readonly hostVersions: HostVersions;
  readonly startedAt: number;
  readonly now: number;
  /** Whether nothing is applied. */
  readonly dryRun: boolean;
  readonly cache: ObjectCache;
  readonly nodeContext: NodeContext;
  readonly state: RulesetState;
  readonly quarantined: Quarantine;
  readonly health: HealthReport;
  readonly problems: readonly DaemonProblem[];
  readonly sources: Readonly<Record<ResourceName, SourceState>>;
  readonly history: SyncHistorySnapshot;
  readonly pending: Pending;
  /** The last hour, oldest minute first. */
  readonly timeline: readonly TimelineMinute[];
  /** The cards of features; absent for none. */
  readonly cards?: readonly FeatureCard[];
  /** What features have that has a limit; absent for nothing. */
  readonly fills?: readonly Fill[];
  /** Number of network interfaces between which connections take the fast path; absent if none does. */
  readonly fastPathInterfaces?: number | undefined;
  /** Tables of other software that slow transactions down, the costliest first. */
  readonly costlyTables: readonly CostlyTable[];
  /** Undefined if connections are not counted. */
  readonly counts: ConnectionCounts | undefined;
  readonly memory: MemoryStatus;
  /** Entries of each family's affinity map, as last read. */
  readonly affinityEntries: Partial<ByFamily<number>>;
  /** Clients in sets of features, as last read. */
  readonly countedClients: readonly CountedClients[];
  readonly conntrack: ConntrackStatus;
}

/** Memory of the daemon, its container and its programs. Bytes. */
export interface MemoryStatus {
  /** Resident memory of the daemon itself. */
  readonly own: number;
  /** Undefined outside a container. */
  readonly container: ContainerMemory | undefined;
  readonly programs: readonly ProgramMemory[];
}

/** Tracked connections, and their maximum number; undefined while the kernel tracks none. */
export interface ConntrackStatus {
  readonly entries: number | undefined;
  readonly capacity: number | undefined;
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

/** Finds the number of new connections since a map element was created; undefined if they are not counted. */
export interface ConnectionLookup {
  readonly toFrontend: (port: ServicePort, frontend: FrontendView) => number | undefined;
  readonly toEndpoint: (port: ServicePort, address: string, number: number) => number | undefined;
}

/** Indexes counts. */
export function connectionLookup(counts: ConnectionCounts): ConnectionLookup {
  const frontends = byTarget(counts.frontends);
  const endpoints = counts.endpoints && byTarget(counts.endpoints);
  return {
    toFrontend: (port, { address, ...ports }) =>
      frontends.get(`${keyOf(port)} ${frontendTarget({ address: address || undefined, ...ports })}`),
    // Connections to an interval of ports are counted by the address of the endpoint.
    toEndpoint: (port, address, number) =>
      endpoints &&
      (endpoints.get(`${keyOf(port)} ${socketText(address, number)}`) ?? 0) +
        (endpoints.get(`${keyOf(port)} ${address}`) ?? 0),
  };
}

/** Sums the counts of a target: an endpoint has an element in each list of its service port. */
function byTarget(counts: readonly ConnectionCount[]): Map<string, number> {
  const sums = new Map<string, number>();
  for (const { family, namespace, service, port, protocol, target, connections } of counts) {
    const key = `${family} ${namespace}/${service}:${port}/${protocol} ${target}`;
    sums.set(key, (sums.get(key) ?? 0) + connections);
  }
  return sums;
}

function keyOf({ family, service, spec }: ServicePort): string {
  return `${family} ${service.name}:${spec.name === "" ? spec.port : spec.name}/${spec.protocol}`;
}
