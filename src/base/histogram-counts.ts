import type { Labels, Sample } from "./sample.ts";

/** The observations of one series of a histogram, in the form that Prometheus reads. */
export class HistogramCounts {
  readonly #bounds: readonly number[];
  /** The observations of each bucket alone; the last is of those beyond all bounds. */
  readonly #counts: number[];
  #sum = 0;

  /** @param bounds the upper bounds of the buckets, ascending */
  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = Array(bounds.length + 1).fill(0);
  }

  add(value: number): void {
    const found = this.#bounds.findIndex((bound) => value <= bound);
    const bucket = found === -1 ? this.#bounds.length : found;
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1;
    this.#sum += value;
  }

  /** @param name the name of the metric */
  samples(name: string, labels: Labels): Sample[] {
    let total = 0;
    const buckets = this.#counts.map((count, bucket) => {
      total += count;
      const le = String(this.#bounds[bucket] ?? "+Inf");
      return { metricName: `${name}_bucket`, labels: { ...labels, le }, value: total };
    });
    return [
      ...buckets,
      { metricName: `${name}_sum`, labels, value: this.#sum },
      { metricName: `${name}_count`, labels, value: total },
    ];
  }
}
