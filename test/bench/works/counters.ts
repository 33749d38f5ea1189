import { readFileSync } from "node:fs";
import { readConnectionCounts } from "../../../src/features/service-counters/connection-counts.ts";
import type { ServiceCounters } from "../../../src/features/service-counters/feature.ts";
import { openTables } from "../../../src/kernel/netlink-tables.ts";
import { nftProgram } from "../../../src/kernel/nft.ts";
import { systemClock } from "../../../src/kernel/system-clock.ts";
import { Reconciler } from "../../../src/sync/reconciler.ts";
import { sizeText } from "../cluster-objects.ts";
import { type Figure, megabytes, time, type Work } from "../figures.ts";
import { measureSync } from "../full-sync-measurement.ts";
import { clearTables } from "../kernel.ts";
import { contextsOf, loadCache } from "../load-cache.ts";
import { MemoryWatch } from "../memory.ts";

const SIZE = { services: 10_000, endpoints: 10 };

/** Returns the kernel's per-processor memory, which contains the counters. */
function perCpuBytes(): number {
  const [, kilobytes = "0"] = /^Percpu:\s+(\d+) kB/m.exec(readFileSync("/proc/meminfo", "utf8")) ?? [];
  return Number(kilobytes) * 1024;
}

async function measure(counters: ServiceCounters): Promise<{ readonly ms: number; readonly bytes: number }> {
  await clearTables();
  const before = perCpuBytes();
  const { ms } = await measureSync({ size: SIZE, counters });
  return { ms, bytes: perCpuBytes() - before };
}

/**
 * Measures the wait of a scrape with `--service-counters=endpoints`. At most a twentieth of all time is spent
 * on it.
 */
async function measureReading(): Promise<Figure> {
  await clearTables();
  const cache = loadCache(SIZE);
  const nft = nftProgram({ path: "nft" });
  const { tables, close } = await openTables(nft, systemClock);
  const reconciler = new Reconciler({ cache, nft, tables });
  await reconciler.sync({ nodeContext: contextsOf(cache, "endpoints"), services: cache.takeDirty() });
  const memory = new MemoryWatch(process.pid);
  const began = performance.now();
  await readConnectionCounts(tables, reconciler.state);
  const ms = performance.now() - began;
  const { nft: nftBytes } = memory.stop();
  close();
  return {
    work: `reading the counters of all endpoints, ${sizeText(SIZE)}`,
    value: `${time(ms)}, nft ${megabytes(nftBytes)}`,
  };
}

/** Measures the cost of `--service-counters` in time and in kernel memory. */
export const counters: Work = {
  name: "counters",
  summary: "the cost of connection counters",
  run: async () => {
    const off = await measure("off");
    const figures: Figure[] = [];
    for (const kind of ["services", "endpoints"] as const) {
      const { ms, bytes } = await measure(kind);
      figures.push({
        work: `full sync with --service-counters=${kind}, ${sizeText(SIZE)}`,
        value: `${time(ms)}, ${megabytes(bytes - off.bytes)} of per-CPU memory`,
        floor: `${time(off.ms)} (off)`,
        ratio: ms / off.ms,
      });
    }
    return [...figures, await measureReading()];
  },
};
