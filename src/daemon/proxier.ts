import type { ProxyOptions } from "../config/options.ts";
import { VANISHED_DELAY, VanishedEndpoints } from "../conntrack/vanished-endpoints.ts";
import type { ObjectSource, ResourceName } from "../kube/source.ts";
import { ObjectCache } from "../model/object-cache.ts";
import { BoundedFrequencyRunner, type SyncInterval } from "../sync/bounded-frequency-runner.ts";
import { ChangeTracker } from "../sync/change-tracker.ts";
import { type HostView, NodeContextReader } from "../sync/node-context.ts";
import { Reconciler } from "../sync/reconciler.ts";
import { SyncLoop } from "../sync/sync-loop.ts";
import type { DaemonInput } from "./daemon-input.ts";

/**
 * The parts that program the kernel from the objects of the cluster, in the order in which they process a
 * change.
 */
export interface Proxier {
  readonly source: ObjectSource;
  readonly tracker: ChangeTracker;
  readonly cache: ObjectCache;
  readonly runner: BoundedFrequencyRunner;
  readonly nodeContext: NodeContextReader;
  readonly vanished: VanishedEndpoints;
  readonly reconciler: Reconciler;
  readonly loop: SyncLoop;
}

/** First and longest pause before a failed sync is retried; the cause may be transient. Milliseconds. */
const FIRST_RETRY = 500;
const MAX_RETRY = 30_000;

/**
 * Makes a proxier; nothing runs yet.
 * @param options returns the current options
 * @param host the host at the start
 * @param onImplausible called for the first of several lists without any known object
 */
export function createProxier(
  {
    options: { resetVanished, detectLocal },
    nodeName,
    nft,
    tables,
    system,
    logger,
    objects,
    dryRun,
  }: DaemonInput,
  options: () => ProxyOptions,
  host: HostView,
  onImplausible: (resource: ResourceName) => void,
): Proxier {
  const { clock } = system;
  const cache = new ObjectCache(nodeName, options());
  const runner = new BoundedFrequencyRunner(clock, syncInterval(options()));
  const awaitsPodCIDRs = detectLocal.kind === "node-cidr";
  const onChange = () => runner.request();
  const tracker = new ChangeTracker({ cache, clock, logger, onChange, awaitsPodCIDRs });
  const source = objects.makeSource(tracker.handlers(), onImplausible);
  const readHost = () => system.readHost(options());
  const { apiServers } = objects;
  const nodeContext = new NodeContextReader({ options, cache, host, apiServers, readHost });
  const byDefault = resetVanished;
  const vanished = new VanishedEndpoints({
    cache,
    now: () => clock.monotonic(),
    delayMs: VANISHED_DELAY,
    byDefault,
  });
  const reconciler = new Reconciler({ cache, nft, tables, vanished, checksHealth: !dryRun });
  const loop = new SyncLoop({ clock, logger, tracker, runner, reconciler, nodeContext });
  return { source, tracker, cache, runner, nodeContext, vanished, reconciler, loop };
}

/** Returns the interval between syncs; adaptive if the options set none. */
export function syncInterval({ minSyncPeriodMs }: ProxyOptions): SyncInterval {
  return {
    minPeriodMs: minSyncPeriodMs === 0 ? "adaptive" : minSyncPeriodMs,
    firstRetryMs: FIRST_RETRY,
    maxRetryMs: MAX_RETRY,
  };
}
