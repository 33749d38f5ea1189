import { FAMILIES } from "../../src/base/family.ts";
import { judgeHealth } from "../../src/daemon/health/health.ts";
import type { DaemonStatus } from "../../src/daemon/status/daemon-status.ts";
import { INITIAL_STATE } from "../../src/kube/source.ts";
import { Renderer } from "../../src/ruleset/renderer.ts";
import { cacheOf, type Objects, testNodeContext } from "./build.ts";

/** The time at which tests view a page, milliseconds. */
export const NOW = Date.parse("2026-01-31T12:00:00Z");

const UP_TO_DATE = {
  fullSync: undefined,
  repair: undefined,
  lastSyncedAt: NOW - 3000,
  verifiedAt: NOW - 3000,
  problem: undefined,
  excludedFamilies: new Map(),
};

/** Returns the status of a daemon that has programmed some objects. By default it is healthy. */
export function daemonStatus(objects: Objects, options: Partial<DaemonStatus> = {}): DaemonStatus {
  const cache = cacheOf(objects);
  const nodeContext = testNodeContext();
  const renderer = new Renderer(cache, nodeContext);
  renderer.update(cache.takeDirty());
  const current = { lastSynced: NOW - 3000, pendingSince: undefined, problem: "" };
  const followed = {
    ...INITIAL_STATE,
    synced: true,
    objects: cache.serviceCount,
    lastEventAt: NOW - 2000,
    lastSyncAt: NOW - 3_600_000,
    followedSince: NOW - 3_599_000,
  };
  return {
    version: "1.2.3",
    hostVersions: {
      nft: "nftables v1.1.3 (Commodore Bullmoose #4)",
      kernel: "6.12.48",
      socat: "1.8.0.3",
      nodejs: "v20.19.2",
    },
    startedAt: NOW - 3_600_000,
    now: NOW,
    dryRun: false,
    cache,
    nodeContext,
    state: renderer.state,
    quarantined: new Map(),
    health: judgeHealth(
      { ...current, families: FAMILIES, excluded: {}, nodeName: cache.node.name, node: cache.node },
      NOW,
      60_000,
    ),
    problems: [],
    sources: { services: followed, endpointslices: followed, nodes: followed, servicecidrs: followed },
    history: { syncs: 12, failures: 0, repairs: 0, ...UP_TO_DATE },
    pending: { since: undefined, services: [] },
    timeline: Array.from({ length: 60 }, () => ({ syncs: 0, outOfSyncMs: 0 })),
    costlyTables: [],
    connections: undefined,
    memory: { own: 92_400_000, container: undefined, programs: [] },
    affinityEntries: {},
    countedClients: [],
    conntrack: { entries: 812, capacity: 262_144 },
    ...options,
  };
}
