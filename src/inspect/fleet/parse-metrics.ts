import type { FleetMetrics } from "./fleet-report.ts";

interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/**
 * Reads the metrics of one nft-proxy; undefined for those of another program.
 * @param text in Prometheus' text format
 */
export function metricsOf(text: string): FleetMetrics | undefined {
  const samples = text.split("\n").flatMap(sampleOf);
  const of = (name: string) => samples.filter((sample) => sample.name === `nft_proxy_${name}`);
  const sum = (name: string) => of(name).reduce((total, { value }) => total + value, 0);
  const [build] = of("build_info");
  if (build === undefined) return undefined;
  return {
    version: build.labels.version ?? "",
    driftRepairs: sum("drift_repairs_total"),
    refused: sum("refused_packets_total"),
    ...lagOf(of("change_lag_seconds_bucket")),
  };
}

function sampleOf(line: string): Sample[] {
  const [, name = "", labels = "", value] = /^(nft_proxy_\w+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
  if (value === undefined) return [];
  const pairs = [...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, key = "", text = ""]) => [key, text]);
  return [{ name, labels: Object.fromEntries(pairs), value: Number(value) }];
}

/** The upper bound of the bucket of a histogram that has the 99th percentile of the lag. */
function lagOf(buckets: readonly Sample[]): Pick<FleetMetrics, "lagP99" | "lagP99Above"> {
  const sorted = buckets
    .map(({ labels, value }) => ({ bound: labels.le === "+Inf" ? Number.POSITIVE_INFINITY : Number(labels.le), value }))
    .sort((a, b) => a.bound - b.bound);
  const all = sorted.at(-1)?.value ?? 0;
  if (all === 0) return {};
  const bound = sorted.find(({ value }) => value >= 0.99 * all)?.bound ?? Number.POSITIVE_INFINITY;
  return Number.isFinite(bound) ? { lagP99: bound } : { lagP99Above: sorted.at(-2)?.bound ?? 0 };
}
