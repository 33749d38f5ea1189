import { AppError, type ErrorCode } from "../../base/errors.ts";
import { FAMILIES } from "../../base/family.ts";
import { one, type Sample } from "../../base/sample.ts";
import type { ContainerMemory, ProgramMemory } from "../../kernel/memory-usage.ts";
import type { SourceState } from "../../kube/source.ts";
import { type ServiceName, serviceLabels, serviceOf } from "../../model/ids.ts";
import { NODE_FIELDS } from "../../model/object-cache.ts";
import type { ElementSet } from "../../nft/ast/ruleset.ts";
import { deltaSize } from "../../nft/delta.ts";
import { eachFamily, type Metric, type ScrapedParts } from "./metric.ts";

const ELEMENT_BUCKETS = [1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144];
const BYTE_BUCKETS = [1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864];
const LAG_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 1, 2, 5, 10, 30, 60];
const NFT_BUCKETS = Array.from({ length: 14 }, (_, index) => 2 ** index / 1000);

/** `family` is `ip` or `ip6`, as in nft. */
const OF_MAP = ["family", "map"];

/** `refused`: the kernel or our schema refused a transaction. `missing`: nft is not installed. */
const NFT_FAILURES = ["refused", "timeout", "missing", "other"] as const;

const OF_SERVICE = ["namespace", "service"];

/** Maximum number of Services with a series of their own: tenants choose how many have a fault. */
const MOST_NAMED = 100;

function namedServices<Item>(items: Iterable<Item>, nameOf: (item: Item) => ServiceName): readonly Sample[] {
  const found = new Set<ServiceName>();
  for (const item of items) {
    found.add(nameOf(item));
    if (found.size === MOST_NAMED) break;
  }
  return Array.from(found, (name) => ({ labels: serviceLabels(name), value: 1 }));
}

/** Metrics that kube-proxy does not have. */
export const OWN_METRICS: Readonly<Record<string, Metric>> = {
  nft_proxy_build_info: {
    help: "1, with the versions of nft-proxy, nft, the kernel and Node.js",
    labels: ["version", "nft", "kernel", "nodejs"],
    started: ({ version, nft, kernel, nodejs }) =>
      one(1, { version, nft: /\bv(\d\S*)/.exec(nft)?.[1] ?? nft, kernel, nodejs }),
  },
  /** `table`: our table was missing or empty. `element`: something in it differed. */
  nft_proxy_drift_repairs_total: {
    help: "Repairs of changes by other programs",
    zero: [{ kind: "table" }, { kind: "element" }],
    synced: ({ report: { repaired } }) => (repaired ? one(1, { kind: repaired.kind }) : []),
  },
  nft_proxy_quarantined_service_ports: {
    help: "Service ports without rules because the kernel refuses them or they exceed a limit",
    scrape: ({ reconciler }) => one(reconciler.quarantined.size),
  },
  nft_proxy_service_quarantined: {
    help: "1 for each of the first 100 Services with a quarantined service port",
    labels: OF_SERVICE,
    scrape: ({ reconciler }) => namedServices(reconciler.quarantined.keys(), serviceOf),
  },
  nft_proxy_node_lacks: {
    help: "1 for a field that our Node object had and lacks now (addresses, podCIDRs, zone), so that its last known value is used",
    labels: ["field"],
    scrape: ({ tracker }) =>
      NODE_FIELDS.map((field) => ({ labels: { field }, value: tracker.nodeLacks.includes(field) ? 1 : 0 })),
  },
  nft_proxy_config_last_reload_successful: {
    help: "0 if the configuration changed and cannot be used, so that the one of before stays in force",
    scrape: ({ config }) => one(config().problem === undefined ? 1 : 0),
  },
  nft_proxy_config_settings_awaiting_restart: {
    help: "Changed settings that take effect only after a restart",
    scrape: ({ config }) => one(config().needRestart.length),
  },
  nft_proxy_excluded_family: {
    help: "1 for a family without rules because the kernel refuses its tables",
    labels: ["ip_family"],
    scrape: ({ reconciler: { excludedFamilies } }) =>
      eachFamily(FAMILIES, (family) => (excludedFamilies.has(family) ? 1 : 0)),
  },
  nft_proxy_contested_service_ports: {
    help: "Service ports that lost an address and port to another",
    synced: ({ report: { conflicts } }) => one(conflicts.count),
  },
  nft_proxy_service_contested: {
    help: "1 for each of the first 100 Services that lost an address and port to another",
    labels: OF_SERVICE,
    scrape: ({ reconciler: { state } }) =>
      namedServices(
        state.conflicts(MOST_NAMED).flatMap(({ losers }) => losers),
        ({ service }) => service.name,
      ),
  },
  nft_proxy_change_lag_seconds: {
    help: "Time from the receipt of a change to its rules in the kernel",
    buckets: LAG_BUCKETS,
    synced: ({ report: { receivedAt, endedAt } }) =>
      receivedAt.flatMap((at) => one(Math.max(0, endedAt - at) / 1000)),
  },
  nft_proxy_transaction_elements: {
    help: "Elements added or removed by a transaction",
    buckets: ELEMENT_BUCKETS,
    synced: ({ report: { applied, deltas } }) => (applied.length > 0 ? one(deltaSize(deltas).elements) : []),
  },
  nft_proxy_transaction_bytes: {
    help: "Transaction size as JSON",
    buckets: BYTE_BUCKETS,
    synced: ({ report: { applied } }) => applied.flatMap(({ bytes }) => one(bytes)),
  },
  nft_proxy_nft_duration_seconds: {
    help: "Time of a run of nft that applies a transaction",
    buckets: NFT_BUCKETS,
    synced: ({ report: { applied } }) => applied.flatMap(({ durationMs }) => one(durationMs / 1000)),
  },
  nft_proxy_nft_failures_total: {
    help: "Syncs that failed, by cause",
    zero: NFT_FAILURES.map((cause) => ({ cause })),
    syncFailed: ({ failure }) => one(1, { cause: failureCause(failure.error) }),
  },
  nft_proxy_map_elements: {
    help: "Elements in a set or map",
    ...ofMaps(false, ({ elements }) => elements.size),
  },
  /** Their elements are not counted at a scrape, as that may take seconds. */
  nft_proxy_map_capacity: {
    help: "Maximum number of elements of a set or map that packets fill",
    ...ofMaps(true, ({ spec }) => spec.size ?? 0),
  },
  /** See `nft_proxy_map_capacity` of the map `affinity-clients` for the maximum. */
  nft_proxy_affinity_entries: {
    help: "Clients with session affinity, as last read",
    labels: ["family"],
    scrape: ({ affinity }) =>
      Object.entries(affinity.entries).flatMap(([family, value]) => one(value, { family })),
  },
  nft_proxy_affinity_entries_deleted_total: {
    help: "Entries of session affinity that were deleted, because their Service port is gone or the map was nearly full",
    labels: ["reason"],
    scrape: ({ affinity }) => byReason(affinity.deleted),
  },
  /** See `nft_proxy_map_capacity` of the same map for the maximum. */
  nft_proxy_limited_clients: {
    help: "Clients, by Service port, whose connections a feature counts, as last read",
    labels: OF_MAP,
    scrape: ({ affinity }) =>
      affinity.countedClients.map(({ family, set, entries }) => mapSample(family, set, entries)),
  },
  nft_proxy_full_resyncs_total: {
    help: "Full resyncs, which compare the kernel with the desired rules",
    zero: [{ result: "same" }, { result: "repaired" }, { result: "failed" }],
    synced: ({ report }) => {
      if (report.kind !== "full") return [];
      return one(1, { result: report.repaired === undefined ? "same" : "repaired" });
    },
    syncFailed: ({ failure }) => (failure.isFull ? one(1, { result: "failed" }) : []),
  },
  nft_proxy_full_resync_differences_total: {
    help: "Differences found by comparisons",
    synced: ({ report: { repaired } }) => (repaired ? one(repaired.differences) : []),
  },
  nft_proxy_last_verified_timestamp_seconds: {
    help: "When the rules in the kernel were last verified",
    scrape: ({ history }) => one((history.verifiedAt ?? 0) / 1000),
  },
  nft_proxy_out_of_sync_since_timestamp_seconds: {
    help: "Time since which the rules have been out of date, 0 while they are up to date",
    scrape: ({ health }) => one((health.pendingSince ?? 0) / 1000),
  },
  nft_proxy_events_dropped_total: {
    help: "Kubernetes Events that were not delivered",
    eventDropped: () => one(1),
  },
  nft_proxy_localhost_nodeport_connections: {
    help: "Connections through loopback NodePorts",
    scrape: ({ loopback }) => one(loopback.connections),
  },
  nft_proxy_localhost_nodeport_refused_total: {
    help: "Connections to loopback NodePorts that were not served: over the limit, or no endpoint reached",
    labels: ["reason"],
    scrape: ({ loopback }) => byReason(loopback.refused),
  },
  nft_proxy_reflector_last_event_timestamp_seconds: {
    help: "When a list, an event or a bookmark of a resource last arrived",
    ...ofResource(({ lastEventAt }) => lastEventAt / 1000),
  },
  nft_proxy_reflector_objects: {
    help: "Valid objects of a resource",
    ...ofResource(({ objects }) => objects),
  },
  nft_proxy_reflector_connected: {
    help: "1 while a resource is followed, 0 while it is not",
    ...ofResource(({ synced, failure }) => (synced && failure === "" ? 1 : 0)),
  },
  nft_proxy_reflector_relists_total: {
    help: "Lists of a resource after the first",
    ...ofResource(({ relists }) => relists),
  },
  nft_proxy_reflector_errors_total: {
    help: "Failures to list or watch a resource",
    labels: ["resource", "kind"],
    scrape: ({ source }) =>
      Object.entries(source.states()).flatMap(([resource, { errors }]) =>
        Object.entries(errors).flatMap(([kind, count]) => one(count, { resource, kind })),
      ),
  },
  nft_proxy_conntrack_entries: {
    help: "Connections that the kernel tracks",
    scrape: async ({ conntrack }) => one((await conntrack.entries()) ?? 0),
  },
  nft_proxy_conntrack_capacity: {
    help: "Maximum number of connections that the kernel tracks",
    scrape: async ({ conntrack }) => one((await conntrack.capacity()) ?? 0),
  },
  /** These three have no value outside a container. */
  nft_proxy_container_memory_working_set_bytes: {
    help: "Memory of all processes of the container together, without inactive page cache",
    ...ofContainer(({ workingSet }) => workingSet),
  },
  nft_proxy_container_memory_limit_bytes: {
    help: "Memory limit of the container",
    ...ofContainer(({ limit }) => limit),
  },
  nft_proxy_container_memory_peak_bytes: {
    help: "Maximum memory of the container so far, with all page cache (Linux 5.19 or newer)",
    ...ofContainer(({ peak }) => peak),
  },
  nft_proxy_program_memory_bytes: {
    help: "Resident memory of the processes of a program that the daemon runs, at the time of the scrape",
    ...ofPrograms(({ resident }) => resident),
  },
  nft_proxy_program_memory_peak_bytes: {
    help: "Maximum resident memory of one process of a program so far",
    ...ofPrograms(({ peak }) => peak),
  },
};

function byReason(counts: Readonly<Record<string, number>>): readonly Sample[] {
  return Object.entries(counts).flatMap(([reason, count]) => one(count, { reason }));
}

const CAUSES: Readonly<Partial<Record<ErrorCode, (typeof NFT_FAILURES)[number]>>> = {
  NFT_REFUSED: "refused",
  INVALID_TRANSACTION: "refused",
  NFT_TIMEOUT: "timeout",
  NFT_MISSING: "missing",
};

function failureCause(error: unknown): (typeof NFT_FAILURES)[number] {
  return (error instanceof AppError && CAUSES[error.code]) || "other";
}

/** The series of the sets that packets fill, or of the others. */
function ofMaps(areDynamic: boolean, figure: (set: ElementSet) => number) {
  const scrape = ({ reconciler }: ScrapedParts): readonly Sample[] =>
    Object.values(reconciler.state.families).flatMap(({ table: { family, sets } }) => {
      const counted = [...sets.values()].filter(({ spec }) => Boolean(spec.dynamic) === areDynamic);
      return counted.map((set) => mapSample(family, set.spec.name, figure(set)));
    });
  return { labels: OF_MAP, scrape };
}

function mapSample(family: string, map: string, value: number): Sample {
  return { labels: { family, map }, value };
}

function ofResource(figure: (state: SourceState) => number) {
  const scrape = ({ source }: ScrapedParts): readonly Sample[] =>
    Object.entries(source.states()).flatMap(([resource, state]) => one(figure(state), { resource }));
  return { labels: ["resource"], scrape };
}

function ofContainer(bytes: (memory: ContainerMemory) => number | undefined) {
  const scrape = async ({ memory }: ScrapedParts): Promise<readonly Sample[]> => {
    const container = await memory.container();
    const value = container && bytes(container);
    return value === undefined ? [] : one(value);
  };
  return { scrape };
}

function ofPrograms(bytes: (memory: ProgramMemory) => number) {
  const scrape = async ({ memory }: ScrapedParts): Promise<readonly Sample[]> =>
    (await memory.programs()).flatMap((program) => one(bytes(program), { program: program.program }));
  return { labels: ["program"], scrape };
}
