import type { Clock } from "../base/clock.ts";
import { FEATURES } from "../features/registry.ts";
import type { DaemonPart, FeatureHost } from "../features/seam/daemon-part.ts";
import { isEnabled } from "../features/selection.ts";
import type { DaemonInput } from "./daemon-input.ts";
import type { EventRecorder } from "./events/event-recorder.ts";
import { affinityCrowdedEvent, featureEvent, serviceSubject } from "./events/events.ts";
import { FastPathDevices } from "./fast-path-devices.ts";
import type { Metrics } from "./metrics/metrics.ts";
import type { Proxier } from "./proxier.ts";
import { AffinityPoller } from "./readings/affinity-poller.ts";

/**
 * Readings of the entries that packets added to our tables, and of the flow tables: periodic, or on demand.
 */
export interface Readings {
  readonly affinity: AffinityPoller;
  /** Undefined if no connection takes the fast path. */
  readonly fastPath: FastPathDevices | undefined;
  /** None in a dry run. */
  readonly features: readonly DaemonPart[];
}

/** Delay from the first sync to the first reading of the affinity maps, as a start is busy. Milliseconds. */
const AFFINITY_DELAY = 5000;

/** Makes the readings; nothing is read yet. */
export function createReadings(
  input: DaemonInput,
  proxier: Proxier,
  metrics: Metrics,
  events: EventRecorder,
): Readings {
  const { dryRun, options } = input;
  return {
    affinity: affinityPoller(input, proxier, metrics, events),
    fastPath: options.fastPath && !dryRun ? fastPathDevices(input, proxier) : undefined,
    features: dryRun ? [] : daemonParts(input, proxier, metrics, events),
  };
}

/** Starts the periodic reading of the affinity maps. Call it after the first sync. */
export function startAffinityPoller({ affinity }: Readings, clock: Clock): void {
  clock.after(AFFINITY_DELAY, () => affinity.start());
}

function affinityPoller(
  { nodeName, tables, nft, system, logger }: DaemonInput,
  { cache, loop, reconciler }: Proxier,
  metrics: Metrics,
  events: EventRecorder,
): AffinityPoller {
  return new AffinityPoller({
    clock: system.clock,
    logger,
    tables,
    nft,
    loop,
    state: () => reconciler.state,
    onDeleted: (reason, entries) => metrics.observe("affinityDeleted", { reason, entries }),
    onCrowded: ({ service, name }) =>
      events.record(affinityCrowdedEvent(serviceSubject(cache, service.name), name, nodeName)),
  });
}

/** Makes what enabled features do, and their metrics. */
function daemonParts(
  { system, logger, tables, options }: DaemonInput,
  { cache, reconciler, nodeContext, loop, parts }: Proxier,
  metrics: Metrics,
  events: EventRecorder,
): readonly DaemonPart[] {
  const host: Omit<FeatureHost, "shown"> = {
    clock: system.clock,
    logger,
    tables,
    flows: system.flows,
    cache,
    state: () => reconciler.state,
    nodeContext: () => nodeContext.current(),
    settings: options.settings,
    requestSync: () => loop.request(),
    localAddresses: system.localAddresses,
    warn: (service, event) => events.record(featureEvent(serviceSubject(cache, service), event)),
  };
  return FEATURES.flatMap((feature) => {
    const { name, createDaemonPart } = feature;
    if (createDaemonPart === undefined || !isEnabled(feature, options)) return [];
    const ofState = parts.find((one) => one.name === name);
    const part = createDaemonPart({ ...host, shown: () => ofState?.shown() });
    metrics.addFeature(part);
    return [part];
  });
}

function fastPathDevices({ nft, system, logger, options }: DaemonInput, { loop }: Proxier): FastPathDevices {
  const interfaces = system.interfaces(options.fastPathInterfaces);
  return new FastPathDevices({ nft, clock: system.clock, logger, interfaces, loop });
}
