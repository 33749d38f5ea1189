import { cachePath } from "../cluster-files.ts";
import { type ClusterSize, sizeText } from "../cluster-objects.ts";
import { type Figure, median, time, type Work } from "../figures.ts";
import { follow, followClosely } from "../follow.ts";
import { bareRuleset, clearTables } from "../kernel.ts";
import { writeKubeProxyShape, writeKubeProxyShapeChange } from "../kube-proxy-shape.ts";
import type { Point } from "../plot.ts";
import { mustRun, pause } from "../programs.ts";

const SIZES: readonly ClusterSize[] = [100, 1000, 5000, 10_000].map((services) => ({
  services,
  endpoints: 10,
}));
const ROUNDS = 3;
/** Number of measured changes of nft-proxy. */
const CHANGES = 100;
/** Number of measured changes of kube-proxy's shape in each round. */
const SHAPE_CHANGES = 5;
const GAP = 60;
/**
 * Time for the kernel to free a ruleset in kube-proxy's shape, which delays the next measurement.
 * Milliseconds.
 */
const SETTLING = 5000;

/**
 * Measures from a daemon's start until it has programmed everything. Takes the minimum of some rounds,
 * because other work can only make it longer.
 */
async function startOf(size: ClusterSize): Promise<number> {
  const rounds: number[] = [];
  for (let i = 0; i < ROUNDS; i++) rounds.push(await follow(size, [], async ({ startMs }) => startMs));
  return Math.min(...rounds);
}

/**
 * Measures from the API server's event about an endpoint to the kernel's commit. Takes the median of many.
 */
async function changeOf(size: ClusterSize): Promise<number> {
  return await followClosely(size, ["--iptables-min-sync-period=1ms"], async ({ churn }, monitor) => {
    const times: number[] = [];
    for (let i = 0; i < CHANGES; i++) {
      const started = performance.now();
      const address = churn.replace((i * 7919) % size.services, i % size.endpoints);
      times.push((await monitor.added(address)) - started);
      await pause(GAP);
    }
    return median(times);
  });
}

/** Measures nft alone with kube-proxy's rules and transactions. */
async function ofShape(size: ClusterSize): Promise<{ readonly startMs: number; readonly changeMs: number }> {
  const [ruleset, change] = [cachePath("kube-proxy-shape.nft"), cachePath("kube-proxy-change.nft")];
  await writeKubeProxyShape(ruleset, size);
  const starts: number[] = [];
  const changes: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    starts.push((await bareRuleset(ruleset)).ms);
    for (let i = 0; i < SHAPE_CHANGES; i++) {
      writeKubeProxyShapeChange(change, size, (i * 7919) % size.services);
      changes.push((await mustRun(["nft", "-f", change])).ms);
    }
    await clearTables();
    await pause(SETTLING);
  }
  return { startMs: Math.min(...starts), changeMs: median(changes) };
}

function figure(of: Point["of"], size: ClusterSize, ms: number, shapeMs: number): Figure {
  const { services } = size;
  return {
    work: `scaling: ${of === "start" ? "start to synced" : "one endpoint changed, p50"}, ${sizeText(size)}`,
    value: time(ms),
    floor: `${time(shapeMs)} (nft -f of the same in kube-proxy's shape)`,
    ratio: ms / shapeMs,
    points: [
      { of, curve: "nft-proxy", services, ms },
      { of, curve: "kube-proxy's rules, loaded by nft", services, ms: shapeMs },
    ],
  };
}

/** Measures the cost of a start and of a change in clusters of growing size, for docs/scaling.svg. */
export const scaling: Work = {
  name: "scaling",
  summary:
    "start and one changed endpoint at 100 to 10,000 Services, beside kube-proxy's shape; with --save the plot",
  run: async () => {
    const figures: Figure[] = [];
    for (const size of SIZES) {
      const shape = await ofShape(size);
      figures.push(figure("start", size, await startOf(size), shape.startMs));
      figures.push(figure("change", size, await changeOf(size), shape.changeMs));
    }
    return figures;
  },
};
