import { cachePath, clusterDirectory } from "../cluster-files.ts";
import { CLUSTER_CIDR, type ClusterSize, NODE_NAME, sizeText } from "../cluster-objects.ts";
import { atMost, type Figure, megabytes, timeWithCpu, type Work } from "../figures.ts";
import { bareRuleset, clearTables } from "../kernel.ts";
import { writeKubeProxyShape } from "../kube-proxy-shape.ts";
import { mustRun, nftProxy, pause, type Run } from "../programs.ts";

const ROUNDS = 3;
const COMPARED = { services: 10_000, endpoints: 10 };
const SIZES: readonly ClusterSize[] = [
  COMPARED,
  { services: 44_000, endpoints: 2 },
  { services: 5000, endpoints: 50 },
];

/**
 * Time for the kernel to free a ruleset in kube-proxy's shape, which delays the next measurement.
 * Milliseconds.
 */
const SETTLING = 5000;

async function applyOnce(size: ClusterSize): Promise<Run> {
  const from = await clusterDirectory(size);
  await clearTables();
  const options = [`--hostname-override=${NODE_NAME}`, `--cluster-cidr=${CLUSTER_CIDR}`, `--from=${from}`];
  return await mustRun(nftProxy("apply", ...options));
}

/** Returns the run with the median time. */
function middle(runs: readonly Run[]): Run {
  const sorted = [...runs].sort((a, b) => a.ms - b.ms);
  return sorted[Math.floor(sorted.length / 2)] as Run;
}

/**
 * Measures the whole command, from files to the kernel, and nft alone loading the same cache in kube-proxy's
 * shape.
 */
export const apply: Work = {
  name: "apply",
  summary: "apply --from, the whole process, against bare nft with kube-proxy's shape",
  run: async () => {
    const shape = cachePath("kube-proxy-shape.nft");
    await writeKubeProxyShape(shape, COMPARED);
    const bareRuns: Run[] = [];
    const runs = SIZES.map((): Run[] => []);
    for (let round = 0; round < ROUNDS; round++) {
      bareRuns.push(await bareRuleset(shape));
      await clearTables();
      await pause(SETTLING);
      for (const [index, size] of SIZES.entries()) runs[index]?.push(await applyOnce(size));
    }
    const bare = middle(bareRuns);
    const of = `nft -f, kube-proxy's shape of ${sizeText(COMPARED)}`;
    const floor = `${timeWithCpu(bare.ms, bare.cpuMs)}, ${megabytes(bare.memory.node)} (${of})`;
    return SIZES.map((size, index): Figure => {
      const { ms, cpuMs, memory } = middle(runs[index] ?? []);
      const parts = size === COMPARED ? 4 : 2;
      const ratio = ms / bare.ms;
      return {
        work: `apply --from, the whole process, ${sizeText(size)}`,
        value: timeWithCpu(ms, cpuMs),
        floor,
        ratio,
        budget: atMost(ratio, 1 / parts, `1/${parts} of kube-proxy's shape`),
        memory,
      };
    });
  },
};
