import { SyncHistory } from "../../src/daemon/health/sync-history.ts";
import type { ScrapedParts } from "../../src/daemon/metrics/metric.ts";
import { Metrics } from "../../src/daemon/metrics/metrics.ts";
import { FEATURES } from "../../src/features/registry.ts";
import type { FeatureHost } from "../../src/features/seam/daemon-part.ts";
import { INITIAL_STATE } from "../../src/kube/source.ts";
import { renderAll } from "./build.ts";
import { ManualClock } from "./manual-clock.ts";
import { memoryLogger } from "./memory-logger.ts";

/** Reads the daemon's metrics. */
export function testMetrics(): Metrics {
  return new Metrics();
}

/** Adds the metrics of all features on a node without Services. */
export function addFeatureMetrics(metrics: Metrics): void {
  const { state } = renderAll({});
  const host = { clock: new ManualClock(), logger: memoryLogger(), state: () => state, settings: {} };
  for (const { createDaemonPart } of FEATURES)
    metrics.addFeature(createDaemonPart?.(host as unknown as FeatureHost) ?? {});
}

/**
 * Returns the value of the first sample whose name begins with `name` and whose labels contain `labels`, or
 * NaN if there is none.
 */
export async function metricValue({ registry }: Metrics, name: string, labels = ""): Promise<number> {
  const lines = (await registry.metrics()).split("\n");
  const line = lines.find((text) => text.startsWith(name) && text.includes(labels));
  return Number(line?.split(" ").at(-1) ?? Number.NaN);
}

/** Returns the parts of a daemon that metrics read at a scrape. All are empty except `parts`. */
export function scrapedParts(parts: Partial<ScrapedParts> = {}): ScrapedParts {
  const state = INITIAL_STATE;
  const none = { total: 0, unsynced: 0 };
  return {
    reconciler: { state: renderAll({}).state, quarantined: new Map(), excludedFamilies: new Map() },
    tracker: { serviceChanges: none, endpointChanges: none, nodeLacks: [] },
    runner: { lastRequestedAt: undefined },
    health: { pendingSince: undefined },
    history: new SyncHistory(),
    source: { states: () => ({ services: state, endpointslices: state, nodes: state, servicecidrs: state }) },
    config: () => ({ problem: undefined, needRestart: [] }),
    conntrack: { entries: async () => undefined, capacity: async () => undefined },
    memory: { own: () => 0, container: async () => undefined, programs: async () => [] },
    loopback: { listeners: { ip: 0, ip6: 0 }, connections: 0, refused: { limit: 0, unreachable: 0 } },
    affinity: { entries: {}, countedClients: [], deleted: { gone: 0, crowded: 0 } },
    ...parts,
  };
}
