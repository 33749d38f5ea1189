import { Counter, Gauge, type Registry } from "prom-client";
import { FAMILIES, FAMILY_NAMES } from "../../base/family.ts";
import type { EventChannel } from "../events/event-channel.ts";
import type { LoopbackObserver } from "../loopback/loopback-proxy.ts";
import type { Metrics } from "./metrics.ts";

const REASONS = ["limit", "unreachable"] as const;

/** Turns what happens to loopback NodePorts into metrics and Events. */
export function loopbackObserver({ registry }: Metrics, events: EventChannel): LoopbackObserver {
  const { listeners, failures, connections, refused } = addLoopbackMetrics(registry);
  return {
    changed: (byFamily, open) => {
      for (const family of FAMILIES) listeners.set({ ip_family: FAMILY_NAMES[family] }, byFamily[family]);
      connections.set(open);
    },
    bindFailed: ({ family, port, service }, error) => {
      failures.inc({ ip_family: FAMILY_NAMES[family] });
      events.loopbackNodePortFailed(service, port, error);
    },
    refused: (_, reason) => refused.inc({ reason }),
  };
}

/** Adds the metrics of loopback NodePorts; the first two have kube-proxy 1.37's names. */
export function addLoopbackMetrics(registry: Registry) {
  const registers = [registry];
  const labelNames = ["ip_family"] as const;
  const metrics = {
    listeners: new Gauge({
      name: "kubeproxy_nftables_localhost_nodeport_listeners",
      help: "NodePorts that are listened on at loopback addresses",
      ...{ labelNames, registers },
    }),
    failures: new Counter({
      name: "kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total",
      help: "NodePorts that could not be listened on at loopback addresses",
      ...{ labelNames, registers },
    }),
    connections: new Gauge({
      name: "nft_proxy_localhost_nodeport_connections",
      help: "Connections through loopback NodePorts",
      registers,
    }),
    refused: new Counter({
      name: "nft_proxy_localhost_nodeport_refused_total",
      help: "Connections to loopback NodePorts that were not served: over the limit, or no endpoint reached",
      ...{ labelNames: ["reason"] as const, registers },
    }),
  };
  for (const family of FAMILIES) {
    metrics.listeners.set({ ip_family: FAMILY_NAMES[family] }, 0);
    metrics.failures.inc({ ip_family: FAMILY_NAMES[family] }, 0);
  }
  for (const reason of REASONS) metrics.refused.inc({ reason }, 0);
  return metrics;
}
