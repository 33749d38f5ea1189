import { type ClusterSize, sizeText } from "../cluster-objects.ts";
import { atMost, type Figure, megabytes, time, timeWithCpu, type Work } from "../figures.ts";
import { measureSync } from "../full-sync-measurement.ts";

interface Case {
  readonly size: ClusterSize;
  /** A budget as a multiple of nft's own time, or in milliseconds. */
  readonly limit: { readonly kind: "ratio" | "ms" | "none"; readonly at: number };
}

const CASES: readonly Case[] = [
  { size: { services: 1000, endpoints: 10 }, limit: { kind: "none", at: 0 } },
  { size: { services: 10_000, endpoints: 10 }, limit: { kind: "ratio", at: 1.3 } },
  { size: { services: 10_000, endpoints: 10, loadBalancers: true }, limit: { kind: "ratio", at: 1.3 } },
  { size: { services: 44_000, endpoints: 2 }, limit: { kind: "ms", at: 2000 } },
  { size: { services: 5000, endpoints: 50 }, limit: { kind: "ms", at: 2600 } },
];

/** Measures rendering, comparing, checking and applying, from objects in memory to an empty kernel. */
export const fullSync: Work = {
  name: "full-sync",
  summary: "a cold full sync, render to kernel, at five sizes",
  run: async () => {
    const figures: Figure[] = [];
    for (const { size, limit } of CASES) {
      const { ms, cpuMs, bareMs, bareCpuMs, bareBytes, memory } = await measureSync({ size });
      const ratio = ms / bareMs;
      figures.push({
        work: `full sync, render to kernel, ${sizeText(size)}`,
        value: timeWithCpu(ms, cpuMs),
        floor: `${timeWithCpu(bareMs, bareCpuMs)}, ${megabytes(bareBytes)} (nft -j -f, the same in one transaction)`,
        ratio,
        memory,
        ...(limit.kind === "ratio" && { budget: atMost(ratio, limit.at, `${limit.at} times bare nft`) }),
        ...(limit.kind === "ms" && { budget: atMost(ms, limit.at, time(limit.at)) }),
      });
    }
    return figures;
  },
};
