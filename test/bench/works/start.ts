import { type ClusterSize, sizeText } from "../cluster-objects.ts";
import { DaemonProcess } from "../daemon-process.ts";
import { atMost, type Figure, median, megabytes, time, timeWithCpu, type Work } from "../figures.ts";
import { follow } from "../follow.ts";
import { cpuMs, type Memory, peakBytes, residentBytes, togetherBytes } from "../memory.ts";
import { mustRun, pause } from "../programs.ts";

const SIZE = { services: 10_000, endpoints: 10 };

/** Bytes. */
interface TogetherBudget {
  readonly atRest: number;
  readonly atMost: number;
}

/** The sizes for which deploy/README.md lists the memory. */
const TOGETHER: readonly { readonly size: ClusterSize; readonly budget?: TogetherBudget }[] = [
  { size: { services: 1000, endpoints: 10 } },
  { size: SIZE, budget: { atRest: 150e6, atMost: 350e6 } },
  { size: { services: 44_000, endpoints: 2 } },
];

const CHANGES = 300;
const GAP = 50;
const REST = 20_000;

/**
 * Measures a daemon's first minute: lists, the first sync, some changes, a verification, and the memory that
 * it keeps.
 */
interface FirstMinute {
  readonly startMs: number;
  /** Time until the first sync, milliseconds. */
  readonly peaks: Memory;
  /** Peak memory of node alone in the whole minute, bytes. */
  readonly nodePeak: number;
  /** Resident memory at the end, bytes. */
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

/** Half of the pods are on our node, which gives 180,000 elements. */
const RESTARTED: ClusterSize = { ...SIZE, nodes: 2 };
const RESTARTS = 3;

/** The time of a start until it is synced, and the CPU time of all processes, milliseconds. */
interface Start {
  readonly ms: number;
  readonly cpuMs: number;
}

/** Measures a cold start, and another start with the resulting rules in place. */
async function startTwice(size: ClusterSize): Promise<{ readonly cold: Start; readonly warm: Start }> {
  return await follow(size, [], async ({ api, daemon, startMs }) => {
    const cold = { ms: startMs, cpuMs: cpuMs(daemon.pid) };
    await daemon.stop();
    const started = performance.now();
    const again = new DaemonProcess(api.url);
    try {
      await again.synced();
      return { cold, warm: { ms: performance.now() - started, cpuMs: cpuMs(again.pid) } };
    } finally {
      again.memory.stop();
      await again.stop();
    }
  });
}

async function restartFigures(): Promise<Figure[]> {
  const all: Awaited<ReturnType<typeof startTwice>>[] = [];
  for (let i = 0; i < RESTARTS; i++) all.push(await startTwice(RESTARTED));
  const middle = (of: (one: (typeof all)[number]) => number) => median(all.map(of));
  const cold = middle((one) => one.cold.ms);
  const warm = middle((one) => one.warm.ms);
  const what = `${sizeText(RESTARTED)}, half of it local`;
  return [
    {
      work: `start to synced, cold, ${what}`,
      value: timeWithCpu(
        cold,
        middle((one) => one.cold.cpuMs),
      ),
    },
    {
      work: `start to synced, with the rules in force, ${what}`,
      value: timeWithCpu(
        warm,
        middle((one) => one.warm.cpuMs),
      ),
      budget: atMost(warm, cold, "a cold start"),
    },
  ];
}

/** Measures the start of a daemon, and its memory. */
export const start: Work = {
  name: "start",
  summary: "the daemon from its start to synced, cold and with the rules in force, and its memory",
  run: async () => {
    const { startMs, peaks, nodePeak, steady } = await firstMinute(SIZE);
    return [
      {
        work: `start to synced, from an API server, ${sizeText(SIZE)}`,
        value: time(startMs),
        budget: atMost(startMs, 2200, "2.20 s"),
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
      ...(await restartFigures()),
    ];
  },
};

/**
 * The memory of all processes of a daemon together, bytes: idle after some changes, and the peak while it
 * creates all rules.
 */
interface Together {
  readonly size: ClusterSize;
  readonly atRest: number;
  readonly atMost: number;
  readonly nodeAtRest: number;
}

/**
 * Measures a minute as {@link firstMinute}, and another one in which another program flushes all rules and
 * they are rebuilt.
 */
async function together(size: ClusterSize): Promise<Together> {
  return await follow(size, [], async ({ daemon, churn }) => {
    for (let i = 0; i < CHANGES; i++) {
      churn.replace(i, 0);
      await pause(GAP);
    }
    await pause(REST);
    const [atRest, nodeAtRest] = [togetherBytes(daemon.pid), residentBytes(daemon.pid)];
    await mustRun(["nft", "flush", "ruleset"]);
    await pause(REST);
    return { size, atRest, nodeAtRest, atMost: daemon.memory.stop().together };
  });
}

/** Measures the memory of all processes of a daemon, and of node with 44,000 Services. */
export const memory: Work = {
  name: "memory",
  summary: "the daemon's processes together, at rest and at most, with 1,000, 10,000 and 44,000 Services",
  run: async () => {
    const all: Together[] = [];
    for (const { size } of TOGETHER) all.push(await together(size));
    const last = all.at(-1);
    return [
      ...all.flatMap((one, index) => togetherFigures(one, TOGETHER[index]?.budget)),
      ...(last === undefined ? [] : [steadyMemory(last.size, last.nodeAtRest, 250e6)]),
    ];
  },
};

function togetherFigures(
  { size, atRest, atMost: most }: Together,
  budget: TogetherBudget | undefined,
): Figure[] {
  const figure = (when: string, bytes: number, limit: number | undefined): Figure => ({
    work: `memory of all processes together, ${when}, ${sizeText(size)}`,
    value: megabytes(bytes),
    ...(limit === undefined ? {} : { budget: atMost(bytes, limit, megabytes(limit)) }),
  });
  return [figure("at rest", atRest, budget?.atRest), figure("at most", most, budget?.atMost)];
}
