import type { ServiceCounters } from "../../src/model/service.ts";
import type { ClusterSize } from "./cluster-objects.ts";
import { median } from "./figures.ts";
import type { Memory } from "./memory.ts";
import { mustRun, ownProgram } from "./programs.ts";

/** What is done after the first full sync: nothing, or full syncs of an unchanged or a damaged kernel. */
export type SyncMode = "full" | "resync" | "drift";

/** What full-sync-program.ts prints. */
export interface SyncMeasurement {
  /** Render to kernel, milliseconds. */
  readonly ms: number;
  /** CPU time of it, nft's included. */
  readonly cpuMs: number;
  /** The full syncs after it, the middle one; NaN for none. */
  readonly resyncMs: number;
  readonly memory: Memory;
  /** nft alone, of one transaction that makes the same. */
  readonly bareMs: number;
  readonly bareCpuMs: number;
  /** The peak memory of that nft. */
  readonly bareBytes: number;
}

/** What is measured, and how often: each time in a process of its own, as a proxy starts. */
export interface SyncRequest {
  readonly size: ClusterSize;
  readonly counters?: ServiceCounters;
  readonly mode?: SyncMode;
  readonly rounds?: number;
}

/** Measures full syncs in turn with nft alone; the middle of each figure. */
export async function measureSync({ size, counters = "off", mode = "full", rounds = 3 }: SyncRequest) {
  const argv = [JSON.stringify(size), counters, mode];
  const measured: SyncMeasurement[] = [];
  for (let i = 0; i < rounds; i++) {
    const { stdout } = await mustRun(ownProgram("full-sync-program.ts", ...argv));
    measured.push(JSON.parse(stdout));
  }
  const middle = (of: (one: SyncMeasurement) => number): number => median(measured.map(of));
  return {
    ms: middle((one) => one.ms),
    cpuMs: middle((one) => one.cpuMs),
    resyncMs: middle((one) => one.resyncMs),
    bareMs: middle((one) => one.bareMs),
    bareCpuMs: middle((one) => one.bareCpuMs),
    bareBytes: middle((one) => one.bareBytes),
    memory: {
      node: middle((one) => one.memory.node),
      nft: middle((one) => one.memory.nft),
      together: middle((one) => one.memory.together),
    },
  } satisfies SyncMeasurement;
}
