import type { ServiceCounters } from "../../src/features/service-counters/feature.ts";
import type { ClusterSize } from "./cluster-objects.ts";
import { median } from "./figures.ts";
import type { Memory } from "./memory.ts";
import { mustRun, ownProgram } from "./programs.ts";

/**
 * The work after the first full sync: nothing, or full syncs with unchanged or damaged tables in the kernel.
 */
export type SyncMode = "full" | "resync" | "drift";

/** The output of full-sync-program.ts. */
export interface SyncMeasurement {
  /** Time from rendering to the kernel, milliseconds. */
  readonly ms: number;
  /** CPU time of this, including nft's, milliseconds. */
  readonly cpuMs: number;
  /** Median time of the later full syncs, or NaN for none. */
  readonly resyncMs: number;
  readonly memory: Memory;
  /** Time of nft alone for one transaction with the same result. */
  readonly bareMs: number;
  readonly bareCpuMs: number;
  /** The peak memory of that nft. */
  readonly bareBytes: number;
}

/**
 * The measurement and its number of repetitions. Each runs in a new process, as a proxy does at its start.
 */
export interface SyncRequest {
  readonly size: ClusterSize;
  readonly counters?: ServiceCounters;
  readonly mode?: SyncMode;
  readonly rounds?: number;
}

/** Measures full syncs and nft alone in turn. Returns the median of each figure. */
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
