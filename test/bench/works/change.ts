import { bareChangeTimes } from "../bare-change.ts";
import { type ClusterSize, sizeText } from "../cluster-objects.ts";
import { atMost, type Figure, percentile, time, type Work } from "../figures.ts";
import { type Follower, followClosely } from "../follow.ts";
import type { KernelMonitor } from "../kernel-monitor.ts";
import { OTHER_SETS, withOtherSets } from "../other-sets.ts";
import { pause } from "../programs.ts";

const CHANGES = 300;
/** Changes before the measurement, during which Node compiles the code. */
const WARM_UP = 20;
/**
 * Pause from a change's commit to the next change, milliseconds. It is long enough for all the work after the
 * commit.
 */
const ALONE = 60;
/**
 * The same pause, but so short that the previous nft has committed and not ended yet. Closing its netlink
 * socket waits for the kernel's next RCU grace period, 10 to 30 ms, and meanwhile no other nft can commit.
 */
const CLOSE = 15;

/** Flag without which the pause after the previous sync would be part of the measurement. */
const NO_WAIT = ["--iptables-min-sync-period=1ms"];

/** Measures the times of single changed endpoints to the kernel, one after the other. Milliseconds. */
async function changeTimes(
  size: ClusterSize,
  gap: number,
  { churn }: Follower,
  monitor: KernelMonitor,
): Promise<number[]> {
  const times: number[] = [];
  for (let i = 0; i < CHANGES + WARM_UP; i++) {
    const started = performance.now();
    const address = churn.replace((i * 7919) % size.services, (i * 31) % size.endpoints);
    times.push((await monitor.added(address)) - started);
    await pause(gap);
  }
  return times.slice(WARM_UP);
}

/** The budget, milliseconds. */
interface Limits {
  readonly p50: number;
  readonly p99?: number;
}

function percentiles(times: readonly number[]): string {
  return `p50 ${time(percentile(times, 0.5))}, p99 ${time(percentile(times, 0.99))}`;
}

/** Returns one figure for each percentile. */
function figuresOf(work: string, times: readonly number[], limits: Limits): Figure[] {
  return (["p50", "p99"] as const).map((name) => {
    const ms = percentile(times, name === "p50" ? 0.5 : 0.99);
    const limit = limits[name];
    return {
      work: `${work}, ${name}`,
      value: time(ms),
      ...(limit !== undefined && { budget: atMost(ms, limit, time(limit)) }),
    };
  });
}

async function measureAlone(size: ClusterSize, limits: Limits): Promise<Figure[]> {
  const times = await followClosely(size, NO_WAIT, (...all) => changeTimes(size, ALONE, ...all));
  return figuresOf(`one endpoint changed, event to kernel, ${sizeText(size)}`, times, limits);
}

/** Measures with the pause that shows the kernel's own wait, and compares with nft alone. */
async function measureClose(size: ClusterSize): Promise<Figure> {
  const bare = await bareChangeTimes(size.services * size.endpoints, CHANGES, CLOSE);
  const times = await followClosely(size, NO_WAIT, (...all) => changeTimes(size, CLOSE, ...all));
  return {
    work: `endpoints changed ${CLOSE} ms after one another, event to kernel, ${sizeText(size)}`,
    value: percentiles(times),
    floor: `${percentiles(bare)} (nft -j -f, one element of a map of ${(size.services * size.endpoints).toLocaleString("en")})`,
    ratio: percentile(times, 0.5) / percentile(bare, 0.5),
  };
}

/** Measures one changed endpoint without and with a table of other software. */
async function measureBeside(size: ClusterSize): Promise<Figure> {
  const [alone, beside] = await followClosely(size, NO_WAIT, async (...all) => [
    await changeTimes(size, ALONE, ...all),
    await withOtherSets(() => changeTimes(size, ALONE, ...all)),
  ]);
  return {
    work: `one endpoint changed, ${sizeText(size)}, beside a table of others with ${OTHER_SETS.toLocaleString("en")} sets`,
    value: percentiles(beside),
    floor: `${percentiles(alone)} (without that table)`,
    ratio: percentile(beside, 0.5) / percentile(alone, 0.5),
  };
}

/** Measures the same change on a node where other software has many sets. */
export const besideOthers: Work = {
  name: "others",
  summary: "one endpoint changed, beside 5,000 sets of other software",
  run: async () => [await measureBeside({ services: 10_000, endpoints: 10 })],
};

/** Measures from the API server's event to the kernel's commit, in a large cluster and in a large Service. */
export const change: Work = {
  name: "change",
  summary: "one endpoint changed, event to kernel",
  run: async () => [
    ...(await measureAlone({ services: 10_000, endpoints: 10 }, { p50: 3.5, p99: 8 })),
    await measureClose({ services: 10_000, endpoints: 10 }),
    ...(await measureAlone({ services: 10_000, endpoints: 10, loadBalancers: true }, { p50: 3.5, p99: 8 })),
    ...(await measureAlone({ services: 1, endpoints: 5000 }, { p50: 12 })),
  ],
};

/** Returns one figure for each size. */
async function growthOf(sizes: readonly ClusterSize[]): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const size of sizes) {
    const times = await followClosely(size, NO_WAIT, (...all) => changeTimes(size, ALONE, ...all));
    figures.push({
      work: `growth: one endpoint changed, ${sizeText(size)}`,
      value: percentiles(times),
    });
  }
  return figures;
}

/** Measures the same change in clusters of growing size. */
export const growth: Work = {
  name: "growth",
  summary: "one endpoint changed, at 1,000, 10,000 and 40,000 Services",
  run: () => growthOf([1000, 10_000, 40_000].map((services) => ({ services, endpoints: 2 }))),
};

/** Measures the same change in endpoint lists of growing length. */
export const listGrowth: Work = {
  name: "list-growth",
  summary: "one endpoint changed, in a Service of 10, 1,000 and 5,000 endpoints",
  run: () => growthOf([10, 1000, 5000].map((endpoints) => ({ services: 1, endpoints }))),
};
