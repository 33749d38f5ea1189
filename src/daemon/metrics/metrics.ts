import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import type { Family } from "../../base/family.ts";
import type { Sample } from "../../base/sample.ts";
import type { DaemonPart } from "../../features/seam/daemon-part.ts";
import type { SyncSubscriber } from "../../sync/sync-report.ts";
import { KUBE_PROXY_METRICS } from "./kube-proxy-metrics.ts";
import type { Metric, Occurrences, SampleMakers, ScrapedParts } from "./metric.ts";
import { OWN_METRICS } from "./own-metrics.ts";

/**
 * Sampling interval of the event loop lag. The default of 10 would keep an idle daemon awake. Milliseconds.
 */
const LOOP_SAMPLING = 200;

/** All metrics by name, except those of the process. */
const METRICS: Readonly<Record<string, Metric>> = { ...KUBE_PROXY_METRICS, ...OWN_METRICS };

type Collector = Counter | Gauge | Histogram;

/** The daemon's metrics, in their own registry. */
export class Metrics {
  readonly registry = new Registry();
  readonly #collectors = new Map<Metric, Collector>();

  constructor() {
    for (const [name, metric] of Object.entries(METRICS)) {
      const collector = newCollector(name, metric, this.registry);
      for (const labels of metric.zero ?? []) {
        if (collector instanceof Histogram) collector.zero(labels);
        else collector.inc(labels, 0);
      }
      this.#collectors.set(metric, collector);
    }
    collectDefaultMetrics({ register: this.registry, eventLoopMonitoringPrecision: LOOP_SAMPLING });
  }

  /** Counts or times an occurrence. */
  observe<Name extends keyof Occurrences>(name: Name, occurrence: Occurrences[Name]): void {
    for (const [metric, collector] of this.#collectors) {
      // By this type, TypeScript knows that the function of a name takes the occurrence of that name.
      const makers: SampleMakers = metric;
      for (const sample of makers[name]?.(occurrence) ?? []) addSample(collector, sample);
    }
  }

  /** Returns a subscriber that counts and times syncs. @param families the programmed ones */
  syncs(families: readonly Family[]): SyncSubscriber {
    return {
      synced: (report) => {
        const programmed = families.filter((family) => !report.excludedFamilies.has(family));
        this.observe("synced", { report, families: programmed });
      },
      failed: (failure) => this.observe("syncFailed", { failure, families }),
      cleanUpFailed: () => this.observe("cleanUpFailed", { families }),
    };
  }

  /** Sets the parts that are read at each scrape. Call it once. */
  readFrom(parts: ScrapedParts): void {
    for (const [{ scrape }, collector] of this.#collectors)
      if (scrape !== undefined) readAtScrape(collector, () => scrape(parts));
  }

  /** Adds the metrics of a feature. */
  addFeature({ metrics = {} }: Pick<DaemonPart, "metrics">): void {
    for (const [name, metric] of Object.entries(metrics))
      readAtScrape(newCollector(name, metric, this.registry), metric.samples);
  }
}

/** Sets no single series: prom-client would find each by its labels, which takes 1.4 s for 110,000. */
function readAtScrape(
  collector: Collector,
  samples: () => readonly Sample[] | Promise<readonly Sample[]>,
): void {
  const declared = collector.get();
  const values = async () => ({ ...(await declared), values: [...(await samples())] });
  // A histogram's text comes from a method of its own.
  Object.assign(collector, { get: values, getForPromString: values });
}

function newCollector(name: string, metric: Metric, registry: Registry): Collector {
  const { help, zero: [first = {}] = [], labels = Object.keys(first), buckets = [] } = metric;
  const options = { name, help, labelNames: [...labels], registers: [registry] };
  const kind = kindOf(name, metric);
  if (kind === "histogram") return new Histogram({ ...options, buckets: [...buckets] });
  return kind === "counter" ? new Counter(options) : new Gauge(options);
}

function kindOf(name: string, { kind, buckets }: Metric): Required<Metric>["kind"] {
  if (kind !== undefined) return kind;
  if (buckets !== undefined) return "histogram";
  return name.endsWith("_total") ? "counter" : "gauge";
}

function addSample(collector: Collector, { labels, value }: Sample): void {
  if (collector instanceof Gauge) collector.set(labels, value);
  else if (collector instanceof Histogram) collector.observe(labels, value);
  else collector.inc(labels, value);
}
