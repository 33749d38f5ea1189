import { FAMILIES } from "../base/family.ts";
import type { Logger } from "../base/logger.ts";
import type { ProxyOptions } from "../config/options.ts";
import type { Nft } from "../kernel/nft.ts";
import type { ApiRequestObserver } from "../kube/client/client.ts";
import type { ObjectSource, SourceHandlers } from "../kube/source.ts";
import { ObjectCache } from "../model/object-cache.ts";
import { BoundedFrequencyRunner } from "../sync/bounded-frequency-runner.ts";
import { ChangeTracker } from "../sync/change-tracker.ts";
import { CurrentOptions } from "../sync/current-options.ts";
import { NodeContextReader } from "../sync/node-context.ts";
import { Reconciler } from "../sync/reconciler.ts";
import { VANISHED_DELAY, VanishedEndpoints } from "../sync/vanished-endpoints.ts";
import { syncInterval } from "./daemon.ts";
import { EventChannel } from "./events/event-channel.ts";
import type { EventSink } from "./events/event-recorder.ts";
import { type HealthReport, judgeHealth } from "./health/health.ts";
import { HealthTracker } from "./health/health-tracker.ts";
import type { HostSystem } from "./host-system.ts";
import { addConntrackMetrics } from "./metrics/conntrack-metrics.ts";
import { createMetrics } from "./metrics/metrics.ts";
import { countRequest } from "./metrics/rest-client-metrics.ts";
import { addSourceMetrics } from "./metrics/source-metrics.ts";

/** What the command line decides about a daemon. */
export interface CoreParts {
  readonly options: ProxyOptions;
  readonly nodeName: string;
  readonly version: string;
  readonly nft: Nft;
  readonly system: HostSystem;
  readonly logger: Logger;
  readonly makeSource: (handlers: SourceHandlers) => ObjectSource;
  /** Sets the observer of requests to the API server. */
  readonly observeRequests: (observer: ApiRequestObserver) => void;
  /** Where Events go: the API server, or nowhere. */
  readonly eventSink: EventSink;
  readonly dryRun: boolean;
  /** Our rules are in the kernel for the first time, and with them the modules that they need. */
  readonly onFirstSync: () => void;
}

/** Unhealthy is a kernel that has not been brought up to date for this many sync periods, as in kube-proxy. */
const UNHEALTHY_AFTER_PERIODS = 2;

/** The state of a daemon: objects, options, changes, desired rules, health. */
export type CoreState = Awaited<ReturnType<typeof assembleState>>;

/** Puts the state of a daemon together. @throws AppError HOST when the host cannot be read */
export async function assembleState({ options: initial, nodeName, version, nft, system, logger, ...parts }: CoreParts) {
  const { clock } = system;
  const startedAt = clock.now();
  const options = new CurrentOptions(initial);
  const cache = new ObjectCache(nodeName, initial);
  const metrics = createMetrics(version);
  parts.observeRequests((outcome) => countRequest(metrics.restClient, outcome));
  const events = new EventChannel({ sink: parts.eventSink, clock, logger, metrics, cache });
  const host = await system.readHost(initial);
  const readHost = () => system.readHost(options.value);
  const nodeContext = new NodeContextReader({ options, cache, host, readHost });
  const runner = new BoundedFrequencyRunner(clock, syncInterval(initial));
  const tracker = new ChangeTracker({
    cache,
    clock,
    logger,
    onChange: () => runner.request(),
    awaitsPodCIDRs: initial.detectLocal.kind === "node-cidr",
  });
  warnWithoutClusterCIDR(initial, logger);
  const source = parts.makeSource(tracker.handlers());
  addSourceMetrics(metrics.registry, source);
  addConntrackMetrics(metrics.registry, system.conntrack);
  const vanished = initial.resetVanished
    ? new VanishedEndpoints({ cache, now: clock.now, delayMs: VANISHED_DELAY })
    : undefined;
  const reconciler = new Reconciler({ cache, nft, vanished });
  const { families } = host;
  const health = new HealthTracker({ families, startedAt, runner, tracker, cache });
  const judge = (): HealthReport =>
    judgeHealth(health.snapshot(), clock.now(), UNHEALTHY_AFTER_PERIODS * options.value.syncPeriodMs);
  return {
    clock,
    startedAt,
    options,
    cache,
    metrics,
    events,
    nodeContext,
    runner,
    tracker,
    source,
    reconciler,
    vanished,
    families,
    health,
    judge,
  };
}

/** Without cluster CIDRs, nothing can be masqueraded for coming from outside the cluster: kube-proxy warns, too. */
function warnWithoutClusterCIDR({ detectLocal, clusterCIDRs }: ProxyOptions, logger: Logger): void {
  if (detectLocal.kind !== "cluster-cidr" || FAMILIES.some((family) => clusterCIDRs[family].length > 0)) return;
  const hint = "set clusterCIDR, or another detectLocalMode";
  logger.warn({ hint }, "detectLocalMode is ClusterCIDR, but there is no clusterCIDR: pod traffic is not told apart");
}
