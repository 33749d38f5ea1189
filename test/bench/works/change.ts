import { type ClusterSize, sizeText } from "../cluster-objects.ts";
import { atMost, type Figure, percentile, time, type Work } from "../figures.ts";
import { type Follower, followClosely } from "../follow.ts";
import type { KernelMonitor } from "../kernel-monitor.ts";
import { pause } from "../programs.ts";

const CHANGES = 300;
/** The first changes compile code that later ones find compiled. */
const WARM_UP = 20;
/** Idle between changes, so that each is one sync. */
const GAP = 15;

/** Without it, the pause after the sync before would be part of what is measured. */
const AT_ONCE = ["--iptables-min-sync-period=1ms"];

/** How long one changed endpoint takes to the kernel, one after the other. Milliseconds. */
async function changeTimes(size: ClusterSize, { churn }: Follower, monitor: KernelMonitor): Promise<number[]> {
  const times: number[] = [];
  for (let i = 0; i < CHANGES + WARM_UP; i++) {
    const started = performance.now();
    const address = churn.replace((i * 7919) % size.services, (i * 31) % size.endpoints);
    times.push((await monitor.added(address)) - started);
    await pause(GAP);
  }
  return times.slice(WARM_UP);
}

/** The most that is allowed, milliseconds. */
interface Limits {
  readonly p50: number;
  readonly p99?: number;
}

async function measure(size: ClusterSize, limits: Limits): Promise<Figure[]> {
  const times = await followClosely(size, AT_ONCE, (...all) => changeTimes(size, ...all));
  const figure = (what: keyof Limits, ms: number): Figure => {
    const limit = limits[what];
    return {
      work: `one endpoint changed, event to kernel, ${sizeText(size)}, ${what}`,
      value: time(ms),
      ...(limit !== undefined && { budget: atMost(ms, limit, time(limit)) }),
    };
  };
  return [figure("p50", percentile(times, 0.5)), figure("p99", percentile(times, 0.99))];
}

/** The API server's event to the kernel's commit, in a large cluster and in a large Service. */
export const change: Work = {
  name: "change",
  summary: "one endpoint changed, event to kernel",
  run: async () => [
    ...(await measure({ services: 10_000, endpoints: 10 }, { p50: 8, p99: 25 })),
    ...(await measure({ services: 1, endpoints: 5000 }, { p50: 12 })),
  ],
};

/** One line for each size. */
async function growthOf(sizes: readonly ClusterSize[]): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const size of sizes) {
    const times = await followClosely(size, AT_ONCE, (...all) => changeTimes(size, ...all));
    const [p50, p99] = [percentile(times, 0.5), percentile(times, 0.99)];
    figures.push({
      work: `growth: one endpoint changed, ${sizeText(size)}`,
      value: `p50 ${time(p50)}, p99 ${time(p99)}`,
    });
  }
  return figures;
}

/** The same change in ever larger clusters. */
export const growth: Work = {
  name: "growth",
  summary: "one endpoint changed, at 1,000, 10,000 and 40,000 Services",
  run: () => growthOf([1000, 10_000, 40_000].map((services) => ({ services, endpoints: 2 }))),
};

/** The same change in ever longer lists of endpoints. */
export const listGrowth: Work = {
  name: "list-growth",
  summary: "one endpoint changed, in a Service of 10, 1,000 and 5,000 endpoints",
  run: () => growthOf([10, 1000, 5000].map((endpoints) => ({ services: 1, endpoints }))),
};
