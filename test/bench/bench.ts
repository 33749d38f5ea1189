// npm run bench [-- NAME...]: runs the benchmarks, all or those named, and prints a table of their figures.
import { messageOf } from "../../src/base/errors.ts";
import { type Figure, tableText, type Work } from "./figures.ts";
import { clearTables } from "./kernel.ts";
import { apply } from "./works/apply.ts";
import { change, growth } from "./works/change.ts";
import { commandLine } from "./works/command-line.ts";
import { fullSync } from "./works/full-sync.ts";
import { resync } from "./works/resync.ts";
import { rollingUpdate } from "./works/rolling-update.ts";
import { start } from "./works/start.ts";

const WORKS: readonly Work[] = [start, fullSync, apply, change, growth, rollingUpdate, resync, commandLine];

function chosen(names: readonly string[]): readonly Work[] {
  const unknown = names.find((name) => !WORKS.some((work) => work.name === name));
  if (unknown === undefined) return names.length === 0 ? WORKS : WORKS.filter(({ name }) => names.includes(name));
  const known = WORKS.map(({ name, summary }) => `  ${name.padEnd(14)}${summary}`).join("\n");
  throw new Error(`no benchmark is called "${unknown}"; there are\n${known}`);
}

try {
  const figures: Figure[] = [];
  for (const work of chosen(process.argv.slice(2))) {
    console.error(`${work.name}: ${work.summary} ...`);
    figures.push(...(await work.run()));
    await clearTables();
  }
  console.log(tableText(figures));
  process.exitCode = figures.every(({ budget }) => budget?.holds !== false) ? 0 : 1;
} catch (error) {
  console.error(`bench: ${messageOf(error)}`);
  process.exitCode = 2;
}
