import type { Clock } from "../base/clock.ts";
import { byFamily } from "../base/family.ts";
import type { Logger } from "../base/logger.ts";
import { NamespaceTokens } from "../base/namespace-tokens.ts";
import type { EndpointSlice } from "../model/endpoint-slice.ts";
import type { ServiceName } from "../model/ids.ts";
import type { ObjectCache } from "../model/object-cache.ts";
import type { Service } from "../model/service.ts";
import type { SyncReport } from "../sync/sync-report.ts";

/** Rate of lines about all Services together. */
const LINES = { burst: 20, refillMs: 500 };

/** Maximum number of endpoints in a Service's slices for which a line says how many are ready. */
const MOST_COUNTED = 20_000;

/** A Service when it was last programmed. */
interface Programmed {
  readonly service: Service;
  readonly slices: readonly EndpointSlice[];
}

type Change = "added" | "deleted" | "service" | "endpoints";

/**
 * Returns a subscriber that logs a line for each Service that a sync changed. Beyond a rate, lines are only
 * counted.
 */
export function serviceChangeLog(cache: ObjectCache, clock: Pick<Clock, "monotonic">, logger: Logger) {
  const tokens = new NamespaceTokens(clock, LINES);
  const programmed = new Map<ServiceName, Programmed>();
  let isFirst = true;

  /** Counts endpoints only for a line that is written. */
  const log = (name: ServiceName, change: Change, before: readonly EndpointSlice[]) => {
    const taken = tokens.take("");
    if (taken === undefined) return;
    const counts = change === "deleted" ? undefined : readyEndpoints(cache.slices(name));
    const was = counts && change === "endpoints" ? readyEndpoints(before)?.ready : undefined;
    const { ready, nodes } = counts ?? {};
    const linesLeftOut = taken.missed || undefined;
    logger.info({ service: name, change, ready, was, nodes, linesLeftOut }, "programmed");
  };

  /** Stores the current state of a Service. Returns how it changed; undefined if it did not. */
  const store = (name: ServiceName, before: Programmed | undefined): Change | undefined => {
    const service = cache.service(name);
    if (service === undefined) {
      programmed.delete(name);
      return before === undefined ? undefined : "deleted";
    }
    const slices = cache.slices(name);
    programmed.set(name, { service, slices });
    if (before === undefined) return "added";
    if (before.service !== service) return "service";
    return areSameSlices(before.slices, slices) ? undefined : "endpoints";
  };

  return {
    synced({ rendered }: Pick<SyncReport, "rendered">): void {
      for (const name of rendered) {
        const before = programmed.get(name);
        const change = store(name, before);
        // The first sync adds all Services.
        if (change !== undefined && !isFirst) log(name, change, before?.slices ?? []);
      }
      isFirst = false;
    },
  };
}

/** Compares slices one by one: the cache makes a new list for a Service with no slice or with many. */
function areSameSlices(before: readonly EndpointSlice[], after: readonly EndpointSlice[]): boolean {
  return before.length === after.length && before.every((slice, index) => slice === after[index]);
}

/**
 * Counts distinct ready endpoints and their nodes. Both families mostly have the same Pods, so the number of
 * the larger one counts. Undefined if there are too many to count.
 */
function readyEndpoints(slices: readonly EndpointSlice[]): { ready: number; nodes: number } | undefined {
  if (slices.reduce((sum, { endpoints }) => sum + endpoints.length, 0) > MOST_COUNTED) return undefined;
  const addresses = byFamily(() => new Set<string>());
  const nodes = new Set<string>();
  for (const { family, endpoints } of slices) {
    for (const { address, nodeName, ready } of endpoints) {
      if (!ready) continue;
      addresses[family].add(address);
      nodes.add(nodeName);
    }
  }
  return { ready: Math.max(addresses.ip.size, addresses.ip6.size), nodes: nodes.size };
}
