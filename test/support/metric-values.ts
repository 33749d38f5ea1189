import { createMetrics, type Metrics } from "../../src/daemon/metrics/metrics.ts";

/** The daemon's metrics. */
export function testMetrics(): Metrics {
  return createMetrics("1");
}

/** The value of the first sample whose name begins with `name` and whose labels contain `labels`; NaN for none. */
export async function metricValue({ registry }: Metrics, name: string, labels = ""): Promise<number> {
  const lines = (await registry.metrics()).split("\n");
  const line = lines.find((text) => text.startsWith(name) && text.includes(labels));
  return Number(line?.split(" ").at(-1) ?? Number.NaN);
}
