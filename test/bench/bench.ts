// npm run bench [-- --save] [NAME...]: runs all benchmarks, or the named ones, and prints a table of their
// figures. With --save, writes it to RESULTS.md.
import { messageOf } from "../../src/base/errors.ts";
import { type Figure, tableText, type Work } from "./figures.ts";
import { clearTables } from "./kernel.ts";
import { loadBefore, saveResults } from "./results.ts";
import { apply } from "./works/apply.ts";
import { busy } from "./works/busy.ts";
import { besideOthers, change, growth, listGrowth } from "./works/change.ts";
import { commandLine } from "./works/command-line.ts";
import { connectionRate } from "./works/connection-rate.ts";
import { connections } from "./works/connections.ts";
import { counters } from "./works/counters.ts";
import { deadNode } from "./works/dead-node.ts";
import { firstPacket } from "./works/first-packet.ts";
import { fleet } from "./works/fleet.ts";
import { fullSync } from "./works/full-sync.ts";
import { hostile } from "./works/hostile.ts";
import { loopback } from "./works/loopback.ts";
import { observe } from "./works/observe.ts";
import { outcomes } from "./works/outcomes.ts";
import { repair } from "./works/repair.ts";
import { resync } from "./works/resync.ts";
import { rollingUpdate } from "./works/rolling-update.ts";
import { rollout } from "./works/rollout.ts";
import { scaling } from "./works/scaling.ts";
import { memory, start } from "./works/start.ts";
import { underWay } from "./works/under-way.ts";
import { verification } from "./works/verification.ts";

const SAVE = "--save";

const WORKS: readonly Work[] = [
  start,
  memory,
  fullSync,
  apply,
  change,
  besideOthers,
  growth,
  scaling,
  listGrowth,
  rollingUpdate,
  busy,
  rollout,
  deadNode,
  underWay,
  resync,
  repair,
  verification,
  firstPacket,
  connectionRate,
  counters,
  commandLine,
  connections,
  loopback,
  observe,
  outcomes,
  fleet,
  hostile,
];

function chosen(names: readonly string[]): readonly Work[] {
  const unknown = names.find((name) => !WORKS.some((work) => work.name === name));
  if (unknown === undefined)
    return names.length === 0 ? WORKS : WORKS.filter(({ name }) => names.includes(name));
  const known = WORKS.map(({ name, summary }) => `  ${name.padEnd(14)}${summary}`).join("\n");
  throw new Error(`no benchmark is called "${unknown}"; there are\n${known}`);
}

/**
 * Runs one benchmark and returns its figures. Returns undefined if it failed, so that the others' figures are
 * kept.
 */
async function figuresOf(work: Work): Promise<readonly Figure[] | undefined> {
  try {
    return await work.run();
  } catch (error) {
    console.error(`bench: ${work.name} failed: ${messageOf(error)}`);
    return undefined;
  } finally {
    await clearTables();
  }
}

try {
  const figures: Figure[] = [];
  const load = loadBefore();
  const words = process.argv.slice(2);
  const names = words.filter((word) => word !== SAVE);
  const measured: string[] = [];
  for (const work of chosen(names)) {
    console.error(`${work.name}: ${work.summary} ...`);
    const found = await figuresOf(work);
    if (found === undefined) continue;
    figures.push(...found);
    measured.push(work.name);
  }
  const isComplete = measured.length === chosen(names).length;
  console.log(tableText(figures));
  if (words.includes(SAVE)) await saveResults(figures, load, isComplete ? names : measured);
  process.exitCode = isComplete && figures.every(({ budget }) => budget?.holds !== false) ? 0 : 1;
} catch (error) {
  console.error(`bench: ${messageOf(error)}`);
  process.exitCode = 2;
}
