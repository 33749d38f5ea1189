import { readFileSync, writeFileSync } from "node:fs";
import { cpus, loadavg, release, totalmem } from "node:os";
import { updateDocuments } from "./documents.ts";
import { type Figure, megabytes, tableRows, tableText } from "./figures.ts";
import { type Point, plotText } from "./plot.ts";
import { mustRun } from "./programs.ts";

const RESULTS = new URL("RESULTS.md", import.meta.url).pathname;
const POINTS = new URL("scaling.json", import.meta.url).pathname;
const PLOT = new URL("../../docs/scaling.svg", import.meta.url).pathname;

/** How busy the machine was with other things before a run began. */
export function loadBefore(): string {
  return (loadavg()[0] ?? 0).toFixed(1);
}

/**
 * Writes RESULTS.md: the figures, and what they were measured on. Then writes them into the documents that give them.
 * @param names the benchmarks that were measured; empty for all. The lines of the others stay as they are
 */
export async function saveResults(
  figures: readonly Figure[],
  load: string,
  names: readonly string[],
): Promise<void> {
  savePlot(figures.flatMap(({ points = [] }) => points));
  const [before, sections] = readResults();
  const isPart = names.length > 0;
  const head = isPart ? partHead(before, load, names) : await wholeHead(load);
  const table = tableText(figures, isPart ? tableRows(before) : []);
  writeFileSync(RESULTS, `${head}\n${table}\n${sections}`);
  await updateDocuments();
}

/** The lines above the table after a run of some benchmarks: each of them is named in the line of its last run alone. */
function partHead(before: string, load: string, names: readonly string[]): string {
  const kept = before
    .slice(0, before.indexOf("\n| "))
    .split("\n")
    .flatMap((line) => {
      const [, measured, run] = /^- (.*)(: measured alone on .*)$/.exec(line) ?? [];
      if (measured === undefined) return [line];
      const others = measured.split(", ").filter((name) => !names.includes(name));
      return others.length === 0 ? [] : [`- ${others.join(", ")}${run}`];
    });
  const alone = `- ${names.join(", ")}: measured alone on ${today()}, load ${load} before the run\n`;
  return `${kept.join("\n")}${alone}`;
}

/** The lines above the table after a run of all benchmarks. */
async function wholeHead(load: string): Promise<string> {
  const nft = (await mustRun(["nft", "--version"])).stdout.trim();
  const processors = `${cpus().length} x ${cpus()[0]?.model ?? "unknown processor"}`;
  const lines = [
    "# What nft-proxy takes",
    "",
    "`npm run bench -- --save` measures this anew; `npm run bench -- NAME` runs one of the benchmarks under `works/`, and",
    "with `--save` replaces its lines. Real kernel, real nft, an API server on loopback, in namespaces of its own.",
    "`10,000 x 10` is 10,000 Services of one port with 10 endpoints each. kube-proxy's shape is a chain with an anonymous",
    "map for every service port.",
    "",
    `- Date: ${today()}`,
    `- Machine: ${processors}, ${megabytes(totalmem())}, load ${load} before the run`,
    `- Kernel ${release()}, ${nft}, Node ${process.version}`,
    "",
  ];
  return lines.join("\n");
}

/** What scaling.json holds: the points of docs/scaling.svg, and when and on what they were measured. */
export interface Scaling {
  readonly measured: string;
  readonly points: readonly Point[];
}

/**
 * kube-proxy's own figures, which no benchmark measures anew: its start with a real kube-apiserver, once beside nft-proxy's,
 * and the middle of 3.4 to 3.9 s for one changed endpoint (docs/why-nft-proxy.md).
 */
const KUBE_PROXY: readonly Point[] = [
  { of: "start", curve: "kube-proxy 1.36.2 itself", services: 10_000, ms: 55_000 },
  { of: "change", curve: "kube-proxy 1.36.2 itself", services: 10_000, ms: 3_650 },
];

/** The plot of docs/scaling.svg. */
export function scalingPlot({ measured, points }: Scaling): string {
  const shape = "kube-proxy's shape: nft -f of its rules and changes, without kube-proxy's own work";
  return plotText(
    [...points, ...KUBE_PROXY],
    [
      `${shape}. Itself: measured once, in a real cluster.`,
      `Both axes are logarithmic. Measured ${measured}: npm run bench -- --save scaling`,
    ],
  );
}

function savePlot(points: readonly Point[]): void {
  if (points.length === 0) return;
  const rounded = points.map((point) => ({ ...point, ms: Number(point.ms.toPrecision(3)) }));
  const scaling: Scaling = {
    measured: `${today()}, Linux ${release().split("-", 1)[0]}, ${cpus().length} cores`,
    points: rounded,
  };
  writeFileSync(POINTS, `${JSON.stringify(scaling, null, 2)}\n`);
  writeFileSync(PLOT, scalingPlot(scaling));
}

/** RESULTS.md as it is: what the benchmarks wrote, and the sections after it, which are measured otherwise. */
function readResults(): readonly [string, string] {
  const text = readFileSync(RESULTS, "utf8");
  const sections = text.indexOf("\n## ");
  return sections === -1 ? [text, ""] : [text.slice(0, sections), text.slice(sections)];
}

function today(): string {
  return new Date().toISOString().slice(0, 10);
}
