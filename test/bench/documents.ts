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

/** Returns the paths of the documents that contain figures of RESULTS.md, relative to the project. */
export function documentPaths(): string[] {
  const pages = readdirSync(join(ROOT, "docs"), { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".md"))
    .map((path) => `docs/${path}`);
  return ["README.md", "SECURITY.md", "deploy/README.md", ...pages.sort()];
}

/**
 * Returns a document with the figures of RESULTS.md in every link that names one of its rows.
 * @param text a document in Markdown
 * @param results the text of RESULTS.md
 * @throws Error for a title that names no existing row
 */
export function withFigures(text: string, results: string): string {
  const rows = new Map(tableRows(results).map((row) => [row[0] ?? "", row]));
  return text.replace(
    LINK,
    (_, _text, up, title) => `[${figureOf(rows, title)}](${up}${RESULTS} "${title}")`,
  );
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
