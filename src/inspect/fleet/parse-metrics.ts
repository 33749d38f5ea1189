import type { FleetMetrics } from "./fleet-report.ts";

interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/**
 * Reads the metrics of one nft-proxy.
 * @param text in Prometheus' text format
 * @param now the node's time, seconds since 1970
 */
export function metricsOf(text: string, now: number): FleetMetrics | undefined {
  const samples = text.split("\n").flatMap(sampleOf);
  const of = (name: string) => samples.filter((sample) => sample.name === `nft_proxy_${name}`);
  const sum = (name: string) => of(name).reduce((total, { value }) => total + value, 0);
  const [build] = of("build_info");
  if (build === undefined) return undefined;
  const since = sum("out_of_sync_since_timestamp_seconds");
  const lagP99 = quantile(0.99, of("change_lag_seconds_bucket"));
  return {
    version: build.labels.version ?? "",
    outOfSyncFor: since === 0 ? 0 : Math.max(0, Math.round(now - since)),
    driftRepairs: sum("drift_repairs_total"),
    quarantined: sum("quarantined_service_ports"),
    refused: sum("refused_packets_total"),
    ...(lagP99 === undefined ? {} : { lagP99 }),
  };
}

function sampleOf(line: string): Sample[] {
  const [, name = "", labels = "", value] = /^(nft_proxy_\w+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
  if (value === undefined) return [];
  const pairs = [...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, key = "", text = ""]) => [key, text]);
  return [{ name, labels: Object.fromEntries(pairs), value: Number(value) }];
}

/** The upper bound of the bucket with the quantile; undefined without observations, or above the last bound. */
function quantile(share: number, buckets: readonly Sample[]): number | undefined {
  const sorted = buckets
    .map(({ labels, value }) => ({ bound: labels.le === "+Inf" ? Number.POSITIVE_INFINITY : Number(labels.le), value }))
    .sort((a, b) => a.bound - b.bound);
  const all = sorted.at(-1)?.value ?? 0;
  const bound = all === 0 ? undefined : sorted.find(({ value }) => value >= share * all)?.bound;
  return bound === undefined || !Number.isFinite(bound) ? undefined : bound;
}
