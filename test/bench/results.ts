import { readFileSync, writeFileSync } from "node:fs";
import { cpus, loadavg, release, totalmem } from "node:os";
import { updateDocuments } from "./documents.ts";
import { type Figure, megabytes, tableRows, tableText } from "./figures.ts";
import { type Point, plotText } from "./plot.ts";
import { mustRun } from "./programs.ts";

const RESULTS = new URL("RESULTS.md", import.meta.url).pathname;
const POINTS = new URL("scaling.json", import.meta.url).pathname;
const PLOT = new URL("../../docs/scaling.svg", import.meta.url).pathname;

/** Returns the machine's load before a run. */
export function loadBefore(): string {
  return (loadavg()[0] ?? 0).toFixed(1);
}

/**
 * Writes the figures and the machine to RESULTS.md, and then the figures to the documents that contain them.
 * @param names the measured benchmarks, or empty for all. The lines of other benchmarks stay unchanged
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

/**
 * Returns the lines above the table after a run of some benchmarks. Each benchmark is only named in the line
 * of its last run.
 */
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

/** Returns the lines above the table after a run of all benchmarks. */
async function wholeHead(load: string): Promise<string> {
  const nft = (await mustRun(["nft", "--version"])).stdout.trim();
  const processors = `${cpus().length} x ${cpus()[0]?.model ?? "unknown processor"}`;
  const lines = [
    "# Benchmark results",
    "",
    "`npm run bench -- --save` measures all figures again. `npm run bench -- NAME` runs one of the",
    "benchmarks under `works/`; with `--save` it replaces its rows. They use a real kernel, real nft and an",
    "API server on loopback, in namespaces of their own. `10,000 x 10` means 10,000 Services with one port",
    "and 10 endpoints each. kube-proxy's shape is a ruleset that has a chain with an anonymous map for",
    "every service port.",
    "",
    `- Date: ${today()}`,
    `- Machine: ${processors}, ${megabytes(totalmem())}, load ${load} before the run`,
    `- Kernel ${release()}, ${nft}, Node ${process.version}`,
    "",
  ];
  return lines.join("\n");
}

/**
 * The content of scaling.json: the points of docs/scaling.svg, and the date and machine of the measurement.
 */
export interface Scaling {
  readonly measured: string;
  readonly points: readonly Point[];
}

/**
 * kube-proxy's own figures, which no benchmark measures again: the middle of 33 to 36 s for its start in a
 * real cluster, and of 3.4 to 3.9 s for one changed endpoint (docs/figures.md).
 */
const KUBE_PROXY: readonly Point[] = [
  { of: "start", curve: "kube-proxy", services: 10_000, ms: 34_500 },
  { of: "change", curve: "kube-proxy", services: 10_000, ms: 3_650 },
];

/** Returns the plot of docs/scaling.svg. */
export function scalingPlot({ measured, points }: Scaling): string {
  return plotText(
    [...points, ...KUBE_PROXY],
    [
      "kube-proxy was measured once: 1.36.3 (start, real cluster) and 1.36.2 (change), nftables mode.",
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

/**
 * Returns the two parts of RESULTS.md: the benchmarks' output, and the later sections, which other programs
 * measure.
 */
function readResults(): readonly [string, string] {
  const text = readFileSync(RESULTS, "utf8");
  const sections = text.indexOf("\n## ");
  return sections === -1 ? [text, ""] : [text.slice(0, sections), text.slice(sections)];
}

function today(): string {
  return new Date().toISOString().slice(0, 10);
}
