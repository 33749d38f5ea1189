import { type ClusterSize, sizeText } from "../cluster-objects.ts";
import { atMost, type Figure, megabytes, time, type Work } from "../figures.ts";
import { follow } from "../follow.ts";
import { type Memory, peakBytes, residentBytes } from "../memory.ts";
import { pause } from "../programs.ts";

const SIZE = { services: 10_000, endpoints: 10 };
const LARGE = { services: 40_000, endpoints: 2 };
const CHANGES = 300;
const GAP = 50;
const REST = 20_000;

/** A daemon's first minute: lists, the first sync, some changes, a verification; and what memory it keeps. */
interface FirstMinute {
  readonly startMs: number;
  /** Until the first sync. */
  readonly peaks: Memory;
  /** Of node alone, in the whole minute, bytes. */
  readonly nodePeak: number;
  /** Resident at the end, bytes. */
  readonly steady: number;
}

async function firstMinute(size: ClusterSize): Promise<FirstMinute> {
  return await follow(size, ["--iptables-min-sync-period=1ms"], async ({ daemon, churn, startMs }) => {
    const peaks = daemon.memory.stop();
    for (let i = 0; i < CHANGES; i++) {
      churn.replace(i, 0);
      await pause(GAP);
    }
    await pause(REST);
    return { startMs, peaks, nodePeak: peakBytes(daemon.pid), steady: residentBytes(daemon.pid) };
  });
}

function steadyMemory(size: ClusterSize, bytes: number, limit: number): Figure {
  return {
    work: `resident memory, steady, ${sizeText(size)}`,
    value: megabytes(bytes),
    budget: atMost(bytes, limit, megabytes(limit)),
  };
}

/** The start of a daemon, and its memory. */
export const start: Work = {
  name: "start",
  summary: "the daemon from its start to synced, and its memory",
  run: async () => {
    const { startMs, peaks, nodePeak, steady } = await firstMinute(SIZE);
    return [
      {
        work: `start to synced, from an API server, ${sizeText(SIZE)}`,
        value: time(startMs),
        budget: atMost(startMs, 3000, "3 s"),
        memory: peaks,
      },
      steadyMemory(SIZE, steady, 150e6),
      {
        work: `resident memory, peak of node alone, ${sizeText(SIZE)}`,
        value: megabytes(nodePeak),
        budget: atMost(nodePeak, 300e6, "300 MB"),
      },
      {
        work: `resident memory, peak of node and nft together, ${sizeText(SIZE)}`,
        value: megabytes(peaks.together),
        budget: atMost(peaks.together, 400e6, "400 MB"),
      },
    ];
  },
};

/** The memory of a daemon in a cluster of many small Services. */
export const memory: Work = {
  name: "memory",
  summary: "the daemon's memory with 40,000 Services",
  run: async () => [steadyMemory(LARGE, (await firstMinute(LARGE)).steady, 250e6)],
};
