import { collectDefaultMetrics, Registry } from "prom-client";
import { createKubeProxyMetrics, type KubeProxyMetrics } from "./kube-proxy-metrics.ts";
import { createOwnMetrics, type OwnMetrics } from "./own-metrics.ts";
import { createRestClientMetrics, type RestClientMetrics } from "./rest-client-metrics.ts";

/** Every metric of the daemon, and the registry that prints them. */
export interface Metrics {
  readonly registry: Registry;
  readonly kubeProxy: KubeProxyMetrics;
  readonly own: OwnMetrics;
  readonly restClient: RestClientMetrics;
}

/** How often the lag of the event loop is sampled, milliseconds. The default of 10 would wake an idle daemon all the time. */
const LOOP_SAMPLING = 200;

/** Makes the daemon's metrics in a registry of their own. `version` is the product's. */
export function createMetrics(version: string): Metrics {
  const registry = new Registry();
  const metrics: Metrics = {
    registry,
    kubeProxy: createKubeProxyMetrics(registry),
    own: createOwnMetrics(registry),
    restClient: createRestClientMetrics(registry),
  };
  metrics.own.buildInfo.set({ version }, 1);
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: LOOP_SAMPLING });
  return metrics;
}
