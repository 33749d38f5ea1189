import type { Clock, Timer } from "../base/clock.ts";
import type { ProxyOptions } from "../config/options.ts";
import type { StatePart } from "../features/seam/state-part.ts";
import { stateParts } from "../features/selection.ts";
import { ObjectCache } from "../model/object-cache.ts";
import { BoundedFrequencyRunner } from "../sync/bounded-frequency-runner.ts";
import { ChangeTracker } from "../sync/change-tracker.ts";
import { type HostView, NodeContextReader } from "../sync/node-context.ts";
import { Reconciler } from "../sync/reconciler.ts";
import { SyncLoop } from "../sync/sync-loop.ts";
import type { DaemonInput } from "./daemon-input.ts";
import type { OriginObserver } from "./object-source.ts";

/**
 * The parts that program the kernel from the objects of the cluster, in the order in which they process a
 * change.
 */
export type Proxier = Readonly<ReturnType<typeof createProxier>>;

/**
 * Makes a proxier; nothing runs yet.
 * @param options returns the current options
 * @param host the host at the start
 * @param observer callbacks about the API server
 */
export function createProxier(
  { options: initial, nodeName, nft, tables, system, logger, objects, dryRun }: DaemonInput,
  options: () => ProxyOptions,
  host: HostView,
  observer: OriginObserver,
) {
  const { clock } = system;
  const cache = new ObjectCache(nodeName, options());
  const runner = new BoundedFrequencyRunner(clock, () => options().minSyncPeriodMs);
  const awaitsPodCIDRs = initial.detectLocal.kind === "node-cidr";
  const onChange = () => runner.request();
  const tracker = new ChangeTracker({ cache, clock, logger, onChange, awaitsPodCIDRs });
  const source = objects.makeSource(tracker.handlers(), () => cache.countNodes(), observer);
  const { readHost } = system;
  const { apiServers } = objects;
  const nodeContext = new NodeContextReader({ options, cache, host, apiServers, readHost });
  /** What features add to the desired state. */
  const parts = stateParts(initial, { cache, clock, isFinal: false });
  const reconciler = new Reconciler({ cache, nft, tables, stateParts: parts, checksHealth: !dryRun });
  const loop = new SyncLoop({ clock, logger, tracker, runner, reconciler, nodeContext });
  return { source, tracker, cache, runner, nodeContext, stateParts: parts, reconciler, loop };
}

/**
 * Returns a subscriber that requests a sync when a part of the desired state has another result. @param parts
 * those of features
 */
export function changeTimer(
  parts: readonly Pick<StatePart, "nextChangeAt">[],
  clock: Clock,
  request: () => void,
): { readonly synced: () => void } {
  let timer: Timer | undefined;
  return {
    synced() {
      timer?.cancel();
      const next = Math.min(...parts.map((part) => part.nextChangeAt()));
      if (next === Number.POSITIVE_INFINITY) return;
      timer = clock.after(Math.max(0, next - clock.monotonic()), request);
    },
  };
}
