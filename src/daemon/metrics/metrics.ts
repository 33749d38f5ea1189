import { Registry } from "prom-client";
import { createKubeProxyMetrics, type KubeProxyMetrics } from "./kube-proxy-metrics.ts";
import { createOwnMetrics, type OwnMetrics } from "./own-metrics.ts";
import { addProcessMetrics, type ProcessUsage } from "./process-metrics.ts";

/** Every metric of the daemon, and the registry that prints them. */
export interface Metrics {
  readonly registry: Registry;
  readonly kubeProxy: KubeProxyMetrics;
  readonly own: OwnMetrics;
}

/** Makes the daemon's metrics in a registry of their own. `version` is the product's. */
export function createMetrics(version: string, usage: ProcessUsage): Metrics {
  const registry = new Registry();
  const metrics: Metrics = {
    registry,
    kubeProxy: createKubeProxyMetrics(registry),
    own: createOwnMetrics(registry),
  };
  metrics.own.buildInfo.set({ version }, 1);
  addProcessMetrics(registry, usage);
  return metrics;
}
