// node full-sync-program.ts SIZE COUNTERS MODE: prints a SyncMeasurement as JSON. SIZE is JSON, too.
import { writeFileSync } from "node:fs";
import type { ServiceCounters } from "../../src/features/service-counters/feature.ts";
import { openTables } from "../../src/kernel/netlink-tables.ts";
import { nftProgram } from "../../src/kernel/nft.ts";
import { systemClock } from "../../src/kernel/system-clock.ts";
import { formatClassid } from "../../src/nft/canonical/constant.ts";
import { creation } from "../../src/nft/delta.ts";
import { toTransaction } from "../../src/nft/transaction.ts";
import { Reconciler } from "../../src/sync/reconciler.ts";
import { cachePath } from "./cluster-files.ts";
import type { ClusterSize } from "./cluster-objects.ts";
import { median } from "./figures.ts";
import type { SyncMeasurement, SyncMode } from "./full-sync-measurement.ts";
import { bareTransaction, clearTables } from "./kernel.ts";
import { contextsOf, loadCache } from "./load-cache.ts";
import { cpuMs, MemoryWatch } from "./memory.ts";
import { mustRun } from "./programs.ts";

const ROUNDS = 5;

async function timed(action: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await action();
  return performance.now() - started;
}

/** Deletes every hundredth element of the map of endpoints, as another program would. */
async function drift(reconciler: Reconciler): Promise<void> {
  const elements = reconciler.state.ruleset.ip?.sets.get("endpoints")?.elements ?? new Map<string, string>();
  const victims = [...elements.keys()].filter((_, index) => index % 100 === 0);
  const path = cachePath("drift.nft");
  writeFileSync(path, `delete element ip nft-proxy endpoints { ${victims.map(withClassid).join(", ")} }\n`);
  await mustRun(["nft", "-f", path]);
}

/** Returns a key of `endpoints` in nft's syntax: a list id and a number. */
function withClassid(key: string): string {
  const [id, number] = key.split(" . ");
  return `${formatClassid(Number(id))} . ${number}`;
}

async function resyncs(reconciler: Reconciler, damage: () => Promise<void>): Promise<number> {
  const times: number[] = [];
  for (let i = 0; i < ROUNDS; i++) {
    await damage();
    reconciler.requestFullSync("periodic");
    times.push(await timed(sync));
  }
  return median(times);
}

const [sizeJson = "", counters = "off", mode = "full"] = process.argv.slice(2);
const size = JSON.parse(sizeJson) as ClusterSize;
const cache = loadCache(size);
const nft = nftProgram({ path: "nft" });
await clearTables();
globalThis.gc?.();
const memory = new MemoryWatch(process.pid);
const { tables, close } = await openTables(nft, systemClock);
const reconciler = new Reconciler({ cache, nft, tables });
const nodeContext = contextsOf(cache, counters as ServiceCounters);
const sync = () => reconciler.sync({ nodeContext, services: cache.takeDirty() });
const cpuBefore = cpuMs(process.pid);
const ms = await timed(sync);
const cpu = cpuMs(process.pid) - cpuBefore;
const peaks = memory.stop();
const again: Record<SyncMode, () => Promise<number>> = {
  full: async () => Number.NaN,
  resync: () => resyncs(reconciler, async () => {}),
  drift: () => resyncs(reconciler, () => drift(reconciler)),
};
const resyncMs = await again[mode as SyncMode]();
close();
const path = cachePath(`transaction-${counters}.json`);
const deltas = Object.values(reconciler.state.ruleset).map((table) => creation(table, "create"));
writeFileSync(path, JSON.stringify(toTransaction(deltas)));
const bare = await bareTransaction(path);
const measurement: SyncMeasurement = {
  cpuMs: cpu,
  bareCpuMs: bare.cpuMs,
  ms,
  resyncMs,
  memory: peaks,
  bareMs: bare.ms,
  bareBytes: bare.memory.node,
};
process.stdout.write(JSON.stringify(measurement));
