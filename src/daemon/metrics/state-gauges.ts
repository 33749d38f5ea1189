import { FAMILIES, FAMILY_NAMES } from "../../base/family.ts";
import type { FamilyState } from "../../ruleset/family-state.ts";
import type { BoundedFrequencyRunner } from "../../sync/bounded-frequency-runner.ts";
import type { ChangeTracker } from "../../sync/change-tracker.ts";
import type { Reconciler } from "../../sync/reconciler.ts";
import type { HealthTracker } from "../health/health-tracker.ts";
import type { Metrics } from "./metrics.ts";

/** What the gauges show. */
export interface GaugeSources {
  readonly reconciler: Pick<Reconciler, "state" | "quarantined" | "excludedFamilies">;
  readonly tracker: Pick<ChangeTracker, "services" | "endpoints">;
  readonly runner: Pick<BoundedFrequencyRunner, "lastRequestedAt">;
  readonly health: Pick<HealthTracker, "pendingSince">;
  readonly history: { snapshot(): { readonly verifiedAt: number | undefined } };
}

/** Sets the gauges that show the present state; for each scrape. */
export function setStateGauges(metrics: Metrics, sources: GaugeSources): void {
  const { reconciler, tracker, runner, health, history } = sources;
  metrics.own.quarantined.set(reconciler.quarantined.size);
  for (const family of FAMILIES) {
    const isExcluded = reconciler.excludedFamilies.has(family);
    metrics.own.excludedFamily.set({ ip_family: FAMILY_NAMES[family] }, isExcluded ? 1 : 0);
    const state = reconciler.state.families[family];
    if (state === undefined) continue;
    setMapGauges(metrics, state);
    setMissingEndpoints(metrics, state);
    if (runner.lastRequestedAt !== undefined) {
      metrics.kubeProxy.lastQueued.set({ ip_family: FAMILY_NAMES[family] }, runner.lastRequestedAt / 1000);
    }
  }
  metrics.own.outOfSyncSince.set((health.pendingSince ?? 0) / 1000);
  metrics.own.lastVerified.set((history.snapshot().verifiedAt ?? 0) / 1000);
  setChangeCounts(metrics, tracker);
}

function setMapGauges({ own }: Metrics, { table: { family, sets } }: FamilyState): void {
  let sourceRanges = 0;
  for (const { spec, elements } of sets.values()) {
    if (spec.dynamic) own.mapCapacity.set({ family, map: spec.name }, spec.size ?? 0);
    else if (spec.interval) sourceRanges += elements.size;
    else own.mapElements.set({ family, map: spec.name }, elements.size);
  }
  // One series for all of them: Services decide how many such sets there are.
  own.mapElements.set({ family, map: "source-ranges" }, sourceRanges);
}

function setMissingEndpoints({ kubeProxy }: Metrics, state: FamilyState): void {
  const missing = { internal: 0, external: 0 };
  for (const { noLocalEndpoints } of state.allServicePortRules()) {
    for (const policy of noLocalEndpoints) missing[policy]++;
  }
  for (const policy of ["internal", "external"] as const) {
    const labels = { ip_family: FAMILY_NAMES[state.table.family], traffic_policy: policy };
    kubeProxy.noLocalEndpoints.set(labels, missing[policy]);
  }
}

/** kube-proxy counts changes as they come; ours are counted by the change tracker and copied here. */
function setChangeCounts({ kubeProxy }: Metrics, { services, endpoints }: GaugeSources["tracker"]): void {
  for (const [counter, pending, { total, unsynced }] of [
    [kubeProxy.serviceChanges, kubeProxy.serviceChangesPending, services],
    [kubeProxy.endpointChanges, kubeProxy.endpointChangesPending, endpoints],
  ] as const) {
    counter.reset();
    counter.inc(total);
    pending.set(unsynced);
  }
}
