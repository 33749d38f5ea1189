import { existsSync } from "node:fs";
import { atMost, type Figure, median, megabytes, time, type Work } from "../figures.ts";
import { bareRuleset, clearTables } from "../kernel.ts";
import { writeKubeProxyShape } from "../kube-proxy-shape.ts";
import type { Memory } from "../memory.ts";
import { mustRun, nftProxy } from "../programs.ts";
import { CLUSTER_CIDR, NODE_NAME, sizeText, type WorldSize } from "../world.ts";
import { cachePath, worldDirectory } from "../world-files.ts";

const ROUNDS = 3;
const COMPARED = { services: 10_000, endpoints: 10 };
const OTHERS: readonly WorldSize[] = [
  { services: 44_000, endpoints: 2 },
  { services: 5000, endpoints: 50 },
];

async function applyOnce(size: WorldSize): Promise<{ readonly ms: number; readonly memory: Memory }> {
  const from = await worldDirectory(size);
  await clearTables();
  return await mustRun(
    nftProxy("apply", `--hostname-override=${NODE_NAME}`, `--cluster-cidr=${CLUSTER_CIDR}`, `--from=${from}`),
  );
}

/** The whole command, from files to the kernel, against nft alone loading the same world in kube-proxy's shape. */
export const apply: Work = {
  name: "apply",
  summary: "apply --from, the whole process, against bare nft with kube-proxy's shape",
  run: async () => {
    const shape = cachePath("kube-proxy-shape.nft");
    if (!existsSync(shape)) await writeKubeProxyShape(shape, COMPARED);
    const bare = await bareRuleset(shape);
    const floor = `${time(bare.ms)}, ${megabytes(bare.memory.node)} (nft -f, kube-proxy's shape of ${sizeText(COMPARED)})`;
    const figures: Figure[] = [];
    for (const size of [COMPARED, ...OTHERS]) {
      const runs = [];
      for (let i = 0; i < ROUNDS; i++) runs.push(await applyOnce(size));
      const ms = median(runs.map((run) => run.ms));
      const share = size === COMPARED ? 1 / 4 : 1 / 2;
      const budget = atMost(ms / bare.ms, share, `1/${1 / share} of kube-proxy's shape`);
      const memory = runs[0]?.memory;
      figures.push({
        work: `apply --from, the whole process, ${sizeText(size)}`,
        value: time(ms),
        floor,
        ratio: ms / bare.ms,
        budget,
        ...(memory && { memory }),
      });
    }
    return figures;
  },
};
