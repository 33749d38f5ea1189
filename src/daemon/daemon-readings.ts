import type { DaemonPart, FeatureHost } from "../features/seam/daemon-part.ts";
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
  input: DaemonInput,
  proxier: Proxier,
  metrics: Metrics,
  events: EventRecorder,
) {
  const { nodeName, tables, nft, system, logger, dryRun } = input;
  const { cache, loop, reconciler } = proxier;
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
    features: dryRun ? [] : daemonParts(input, proxier, metrics, events),
  };
}

/** Makes what enabled features do, and their metrics. */
function daemonParts(
  { system, logger, nft, tables, options }: DaemonInput,
  { cache, reconciler, nodeContext, loop, stateParts }: Proxier,
  metrics: Metrics,
  events: EventRecorder,
): readonly DaemonPart[] {
  const host: Omit<FeatureHost, "shown"> = {
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
  return workingFeatures(options).flatMap(({ name, createDaemonPart }) => {
    if (createDaemonPart === undefined) return [];
    const ofState = stateParts.find((one) => one.name === name);
    const part = createDaemonPart({ ...host, shown: () => ofState?.shown() });
    metrics.addFeature(part);
    return [part];
  });
}
