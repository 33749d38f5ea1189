import type { DaemonPart, FeatureHost } from "../features/seam/daemon-part.ts";
import type { Feature } from "../features/seam/feature.ts";
import { workingFeatures } from "../features/selection.ts";
import type { DaemonInput } from "./daemon-input.ts";
import type { EventRecorder } from "./events/event-recorder.ts";
import { serviceSubject, warning } from "./events/events.ts";
import type { Metrics } from "./metrics/metrics.ts";
import type { Proxier } from "./proxier.ts";
import { affinityPoller } from "./readings/affinity-poller.ts";

/** Readings of the entries that packets added to our tables: periodic, or on demand. */
export type Readings = Readonly<ReturnType<typeof createReadings>>;

/** Makes the readings; nothing is read yet. */
export function createReadings(
  { nodeName, tables, nft, system, logger, dryRun, options }: DaemonInput,
  { cache, loop, reconciler, nodeContext, stateParts }: Proxier,
  metrics: Metrics,
  events: EventRecorder,
) {
  const lent: Omit<FeatureHost, "shown"> = {
    clock: system.clock,
    logger,
    nft,
    tables,
    files: system.files,
    flows: system.flows,
    listenToFlows: system.listenToFlows,
    cache,
    state: () => reconciler.state,
    nodeContext: () => nodeContext.current(),
    settings: options.settings,
    requestSync: () => loop.request(),
    betweenSyncs: (change) =>
      loop.betweenSyncs(async () => {
        const tables = loop.desiredUnlessRepairing;
        if (tables !== undefined) await change(tables);
      }),
    localAddresses: () => nodeContext.host.local,
    warn: (service, event) =>
      events.record({ type: "Warning", regarding: serviceSubject(cache, service), ...event }),
  };
  /** Makes what an enabled feature does, and its metrics. */
  const daemonPart = ({ name, createDaemonPart }: Feature): DaemonPart[] => {
    if (createDaemonPart === undefined) return [];
    const ofState = stateParts.find((one) => one.name === name);
    const part = createDaemonPart({ ...lent, shown: () => ofState?.shown() });
    metrics.addFeature(part);
    return [part];
  };
  return {
    affinity: affinityPoller({
      clock: system.clock,
      logger,
      tables,
      nft,
      loop,
      state: () => reconciler.state,
      onCrowded({ service, name }) {
        const note = `some clients of ${name}, the port with the most clients, lost their endpoint because the affinity map of node ${nodeName} was nearly full: raise --affinity-map-size or lower --max-affinity-timeout`;
        events.record(warning(serviceSubject(cache, service.name), "AffinityMapNearlyFull", "Sync", note));
      },
    }),
    features: dryRun ? [] : workingFeatures(options).flatMap(daemonPart),
  };
}
