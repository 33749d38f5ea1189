import { FailureLog } from "../base/failure-log.ts";
import { readRefusals } from "../kernel/refusals.ts";
import { readResetPackets } from "../kernel/vanished.ts";
import { REFUSAL_TIMEOUT } from "../ruleset/refusal-rules.ts";
import { REFUSED } from "../ruleset/sets.ts";
import type { CoreParts, CoreState } from "./core-state.ts";
import { readConnectionCounts } from "./metrics/connection-counts.ts";
import { addConnectionMetrics } from "./metrics/connection-metrics.ts";
import { addVanishedMetrics } from "./metrics/vanished-metrics.ts";
import { RefusalWatch } from "./refusals/refusal-watch.ts";

/** How long a reading of counters is good for, milliseconds. */
const COUNTERS_MAX_AGE = 5000;

/** Adds the metrics of connections. @returns their counts, undefined where these are not counted */
export function connectionCounts({ nft, system, logger }: CoreParts, { options, metrics, reconciler }: CoreState) {
  if (options.value.serviceCounters === "off") return undefined;
  return addConnectionMetrics(metrics.registry, {
    read: () => readConnectionCounts(nft, reconciler.state),
    now: () => system.clock.monotonic(),
    maxAge: COUNTERS_MAX_AGE,
    failures: new FailureLog(
      logger,
      system.clock,
      "cannot read the connection counters",
      "the connection counters can be read again",
    ),
  });
}

/** Adds the metric of resets. @returns the packets that were reset, undefined where none are */
export function resetPacketCounts({ nft, system, logger }: CoreParts, { metrics, families, vanished }: CoreState) {
  if (vanished === undefined) return undefined;
  return addVanishedMetrics(metrics.registry, {
    read: async () =>
      Object.fromEntries(
        await Promise.all(families.map(async (family) => [family, await readResetPackets(nft, family)])),
      ),
    now: () => system.clock.monotonic(),
    maxAge: COUNTERS_MAX_AGE,
    failures: new FailureLog(
      logger,
      system.clock,
      "cannot read the count of resets",
      "the count of resets can be read again",
    ),
  });
}

/** Watches what the rules refuse. @returns undefined where refusals are not recorded */
export function refusalWatch({ nft, logger, dryRun }: CoreParts, state: CoreState): RefusalWatch | undefined {
  const { clock, options, metrics, events, reconciler, families } = state;
  if (dryRun || options.value.refusalLogSize === 0) return undefined;
  return new RefusalWatch({
    clock,
    logger,
    read: async () => (await readRefusals(nft, families, { set: REFUSED, timeout: REFUSAL_TIMEOUT })) ?? [],
    state: () => reconciler.state,
    onPackets: (name, reason, packets) => {
      const [namespace = "", service = ""] = name.split("/");
      metrics.own.refusedPackets.inc({ namespace, service, reason }, packets);
    },
    onRefused: (service, summary) => events.refused(service, summary),
  });
}
