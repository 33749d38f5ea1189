import { Gauge, type Registry } from "prom-client";

/** Reads how full the kernel's connection tracking is. Both give undefined where the kernel tracks nothing yet. */
export interface ConntrackUsage {
  readonly entries: () => Promise<number | undefined>;
  /** New connections are dropped when there are this many entries. */
  readonly capacity: () => Promise<number | undefined>;
}

/** Adds gauges for how full connection tracking is, read at each scrape. */
export function addConntrackMetrics(registry: Registry, { entries, capacity }: ConntrackUsage): void {
  addGauge(registry, "nft_proxy_conntrack_entries", "Connections that the kernel tracks", entries);
  addGauge(registry, "nft_proxy_conntrack_capacity", "Most connections that the kernel tracks", capacity);
}

function addGauge(registry: Registry, name: string, help: string, read: () => Promise<number | undefined>): void {
  new Gauge({
    name,
    help,
    registers: [registry],
    async collect() {
      const value = await read();
      if (value !== undefined) this.set(value);
    },
  });
}
