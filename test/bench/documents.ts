import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tableRows } from "./figures.ts";
import { mustRun } from "./programs.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
const RESULTS = "test/bench/RESULTS.md";

/**
 * A link to RESULTS.md. Its title names a row of the table, and optionally a column. Its text is the figure.
 */
const LINK = /\[([^\]]*)\]\(((?:\.\.\/)*)test\/bench\/RESULTS\.md "([^"]+)"\)/g;

/** The columns of RESULTS.md that a title may name after ": ". The default is the figure. */
const COLUMN = { "without nft-proxy": 2, budget: 4 } as const;

/**
 * Rows of tables without links, so that their text can be read: the first cell, and the row of RESULTS.md
 * that the second one shows. They may be in any document.
 */
const ROWS: Readonly<Record<string, string>> = {
  "start to synced": "start to synced, from an API server, 10,000 x 10",
  "full sync of all Services": "full sync, render to kernel, 10,000 x 10",
  "full sync of 44,000 Services of 2 endpoints": "full sync, render to kernel, 44,000 x 2",
  "one endpoint changed, until it is in the kernel, median":
    "one endpoint changed, event to kernel, 10,000 x 10, p50",
  "one endpoint changed, 99th percentile": "one endpoint changed, event to kernel, 10,000 x 10, p99",
  "100 endpoints changed a second: delay, 99th percentile":
    "rolling update of 1000 Services of 10,000 x 10, 100 changes/s, 20 s: lag, p99",
  "100 endpoints changed a second: CPU, nft included":
    "rolling update of 1000 Services of 10,000 x 10, 100 changes/s, 20 s: CPU, nft included",
  "all rules deleted by another program, until restored":
    "ruleset flushed, until complete again, 10,000 x 10, p50 of 7",
  "first packet through a ClusterIP, there and back":
    "first packet, UDP round trip through a ClusterIP, 10,000 Services, p50",
  "memory of all processes at rest": "memory of all processes together, at rest, 10,000 x 10",
  "memory of all processes at most": "memory of all processes together, at most, 10,000 x 10",
  "memory at rest, 1,000 Services of 10 endpoints": "memory of all processes together, at rest, 1,000 x 10",
  "memory at most, 1,000 Services of 10 endpoints": "memory of all processes together, at most, 1,000 x 10",
  "memory at rest, 44,000 Services of 2 endpoints": "memory of all processes together, at rest, 44,000 x 2",
  "500 nodes start": "500 nodes, all start: until all follow again",
  "500 nodes, an outage of a minute": "500 nodes, an outage of 60 s: until all follow again",
  "500 nodes, the server restarts, all versions expired":
    "500 nodes, a restart, all versions expired: until all follow again",
  "500 nodes, the same with 10 % of requests answered 429":
    "500 nodes, a restart, 10 % answered with 429: until all follow again",
  "memory at most, 44,000 Services of 2 endpoints": "memory of all processes together, at most, 44,000 x 2",
};

/** A row of a table with at least two cells, up to the end of the second one with its padding. */
const ROW = /^\| ([^|]+?) +\| ([^|]*) \|/gm;

/** Returns the paths of the documents that contain figures of RESULTS.md, relative to the project. */
export function documentPaths(): string[] {
  const pages = readdirSync(join(ROOT, "docs"), { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".md"))
    .map((path) => `docs/${path}`);
  return ["README.md", "SECURITY.md", "deploy/README.md", ...pages.sort()];
}

/**
 * Returns a document with the figures of RESULTS.md in every link that names one of its rows, and in the
 * {@link ROWS} of its tables.
 * @param text a document in Markdown
 * @param results the text of RESULTS.md
 * @throws Error for a title that names no existing row
 */
export function withFigures(text: string, results: string): string {
  const rows = new Map(tableRows(results).map((row) => [row[0] ?? "", row]));
  const linked = text.replace(
    LINK,
    (_, _text, up, title) => `[${figureOf(rows, title)}](${up}${RESULTS} "${title}")`,
  );
  return linked.replace(ROW, (row, label: string, cell: string) => {
    const title = ROWS[label];
    if (title === undefined) return row;
    return `${row.slice(0, row.length - cell.length - 2)}${figureOf(rows, title).padEnd(cell.length)} |`;
  });
}

/** Writes the figures of RESULTS.md into all documents, and pads their tables again. */
export async function updateDocuments(): Promise<void> {
  const results = readFileSync(join(ROOT, RESULTS), "utf8");
  for (const path of documentPaths()) {
    const text = readFileSync(join(ROOT, path), "utf8");
    const updated = withFigures(text, results);
    if (updated !== text) writeFileSync(join(ROOT, path), updated);
  }
  await mustRun(["npx", "biome", "format", "--write", ...documentPaths().map((path) => join(ROOT, path))]);
}

function figureOf(rows: ReadonlyMap<string, readonly string[]>, title: string): string {
  const column = (Object.keys(COLUMN) as (keyof typeof COLUMN)[]).find((name) => title.endsWith(`: ${name}`));
  const work = column === undefined ? title : title.slice(0, -`: ${column}`.length);
  const cell = rows.get(work)?.[column === undefined ? 1 : COLUMN[column]];
  if (cell === undefined || cell === "") throw new Error(`${RESULTS} has no "${title}"`);
  return cell;
}
