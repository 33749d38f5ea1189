import { cachePath, clusterDirectory } from "../cluster-files.ts";
import { CLUSTER_CIDR, NODE_NAME, sizeText } from "../cluster-objects.ts";
import { atMost, type Figure, timeWithCpu, type Work } from "../figures.ts";
import { bareRuleset } from "../kernel.ts";
import { writeKubeProxyShape } from "../kube-proxy-shape.ts";
import { mustRun, nftProxy } from "../programs.ts";

const SIZE = { services: 10_000, endpoints: 10 };

/** Measures the comparison of every frontend with kube-proxy's tables, as before a migration. */
export const outcomes: Work = {
  name: "outcomes",
  summary: "diff --with kube-proxy, against the kernel's listing of its tables",
  run: async () => {
    const shape = cachePath("kube-proxy-shape.nft");
    await writeKubeProxyShape(shape, SIZE);
    await bareRuleset(shape);
    const bare = await mustRun(["nft", "-j", "list", "table", "ip", "kube-proxy"], { output: "/dev/null" });
    const from = await clusterDirectory(SIZE);
    const options = [`--from=${from}`, `--hostname-override=${NODE_NAME}`, `--cluster-cidr=${CLUSTER_CIDR}`];
    const { ms, cpuMs, memory, stdout } = await mustRun(nftProxy("diff", "--with", "kube-proxy", ...options));
    if (!stdout.startsWith("no difference: "))
      throw new Error(`kube-proxy's shape differs: ${stdout.slice(0, 1000)}`);
    const figure: Figure = {
      work: `diff --with kube-proxy, ${sizeText(SIZE)}`,
      value: timeWithCpu(ms, cpuMs),
      floor: `${timeWithCpu(bare.ms, bare.cpuMs)} (nft -j list table)`,
      ratio: ms / bare.ms,
      budget: atMost(ms, 30_000, "30 s"),
      memory,
    };
    return [figure];
  },
};
