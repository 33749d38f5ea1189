// npm run soak [-- --minutes N] [--seed N] [--faults TEXT] [--save]: an hour of everything, or so many
// minutes, or of the faults whose names contain a text. Ends with tables and, if asked to, writes them to
// RESULTS.md. Exit code 1: see the last lines; 2: it could not run.
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { messageOf } from "../../src/base/errors.ts";
import { time } from "../bench/figures.ts";
import { seededRandom } from "../support/kill-rounds.ts";
import type { Harm } from "./attribution.ts";
import { Clients } from "./clients.ts";
import { FAULTS, type Fault, flushed } from "./faults.ts";
import { finalDifferences } from "./final-rules.ts";
import {
  type FaultTally,
  failureTexts,
  resultsText,
  type SoakResults,
  saveResults,
  unexplainedFailures,
} from "./report.ts";
import { FOLDER, now, Stage } from "./stage.ts";
import { measureVitals, vitalProblems } from "./vitals.ts";

/** How long a fault may take to be repaired, milliseconds. */
const PATIENCE = 30_000;

/** How long something that was deleted may be missing in the kernel, milliseconds. */
const LONGEST_ABSENCE = 1000;

/** One run: injects faults, and keeps what they did. */
class Soak {
  readonly problems: string[] = [];
  readonly remarks: string[] = [];
  readonly faults = new Map<string, FaultTally>();
  readonly harms: Harm[] = [];
  readonly #seed: number;
  readonly #began = now();
  #injected = 0;

  constructor(seed: number) {
    this.#seed = seed;
  }

  /**
   * Injects all of some faults in random order, and again, until it is `until`; each of them once in the run
   * at least.
   */
  async inject(stage: Stage, clients: Clients, faults: readonly Fault[], until: number): Promise<void> {
    while (now() < until) {
      const shuffled = seededRandom(this.#seed + this.#injected);
      const deck = faults.map((fault) => ({ fault, order: shuffled() })).sort((a, b) => a.order - b.order);
      for (const { fault } of deck) {
        if (now() < until || !this.faults.has(fault.name)) await this.#injectOne(stage, clients, fault);
      }
    }
  }

  /** Notes what must not be. */
  problem(text: string): void {
    this.problems.push(text);
    this.say(`PROBLEM: ${text}`);
  }

  /** Prints a line with the time since the beginning. */
  say(text: string): void {
    const seconds = Math.floor((now() - this.#began) / 1000);
    const clock = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
    console.error(`${clock.padStart(6)}  ${text}`);
  }

  async #injectOne(stage: Stage, clients: Clients, { name, steps }: Fault): Promise<void> {
    const random = seededRandom(this.#seed + 1_000_003 * ++this.#injected);
    const tally = this.faults.get(name) ?? { injected: 0, repairs: [], absences: [] };
    this.faults.set(name, tally);
    tally.injected++;
    for (const step of steps) {
      const failed = clients.failures.length;
      await sleep(1000 + random() * 3000);
      try {
        const { since, harm, isRepaired = async () => true, absence } = await step(stage, random);
        await this.#repaired(stage, name, isRepaired);
        if (harm !== undefined) this.harms.push({ ...harm, fault: name, until: now() });
        if (!(await stage.isServing(PATIENCE))) this.problem(`${name}: a new Service is not served in time`);
        tally.repairs.push(now() - since);
        const missing = absence === undefined ? "" : `, missing for ${this.#absence(name, tally, absence())}`;
        const failures = clients.failures.length - failed;
        this.say(`${name}: ${time(now() - since)}${missing}, ${failures} connections failed`);
      } catch (error) {
        this.problem(`${name}: ${messageOf(error)}`);
      }
    }
  }

  /** Notes for how long something was missing. @returns the text of it */
  #absence(name: string, { absences }: FaultTally, ms: number | undefined): string {
    if (ms === undefined) {
      this.problem(`${name}: the kernel did not tell that what was deleted is there again`);
      return "a time unknown";
    }
    absences.push(ms);
    if (ms > LONGEST_ABSENCE) this.remarks.push(`${name}: missing for ${time(ms)}`);
    return time(ms);
  }

  /**
   * Waits until a fault is repaired: first while objects change, which is noted when it takes too long, then
   * without changes. What is not repaired then is a problem; the rules are made anew, so that the next fault
   * is judged by itself.
   */
  async #repaired(stage: Stage, name: string, isRepaired: () => Promise<boolean>): Promise<void> {
    if (await stage.until(isRepaired, PATIENCE)) return;
    this.remarks.push(`${name}: not repaired within ${time(PATIENCE)} while objects change`);
    stage.churn.pause();
    if (!(await stage.until(isRepaired, PATIENCE))) {
      this.problem(`${name}: not repaired within ${time(PATIENCE)} without changes of objects either`);
      const flush = await flushed(stage);
      await stage.until(flush.isRepaired, PATIENCE);
      this.harms.push({ ...flush.harm, fault: name, until: now() });
    }
    stage.churn.start();
  }
}

/** Runs everything for so many minutes. */
async function run(minutes: number, seed: number, faults: readonly Fault[], save: boolean): Promise<boolean> {
  const soak = new Soak(seed);
  const stage = await Stage.open(seededRandom(seed - 1), (problem) => soak.problem(problem));
  try {
    soak.say(`${minutes} minutes, seed ${seed}; the daemon's log: ${FOLDER}/daemon.log`);
    const began = now();
    const clients = new Clients(stage.lab.lab);
    const start = await measureVitals(stage);
    // A daemon that is killed leaks nothing: it is one process from a third on, which by the middle has done
    // most things once.
    const gentle = faults.filter(({ restarts }) => restarts !== true);
    await soak.inject(stage, clients, faults, began + minutes * 20_000);
    await soak.inject(stage, clients, gentle, began + minutes * 30_000);
    const middle = await measureVitals(stage);
    await soak.inject(stage, clients, gentle, began + minutes * 60_000 - 30_000);
    const end = await measureVitals(stage);
    for (const problem of vitalProblems(middle, end)) soak.problem(problem);
    for (const line of await finalDifferences(stage))
      soak.problem(`the tables differ from what dump says: ${line}`);
    await clients.stop();
    for (const text of failureTexts(unexplainedFailures(clients.failures, soak.harms))) {
      soak.problem(`unexplained: ${text}`);
    }
    const { harms, problems, remarks } = soak;
    const vitals = { start, middle, end };
    const results: SoakResults = {
      minutes,
      seed,
      changes: stage.churn.changes,
      faults: soak.faults,
      harms,
      clients,
      vitals,
      problems,
      remarks,
    };
    for (const [message, times] of stage.warnings) soak.say(`logged ${times} times: ${message}`);
    console.log(resultsText(results));
    if (save) await saveResults(results, await stage.lab.nft("--version"));
    return problems.length === 0;
  } finally {
    await stage.close();
  }
}

try {
  const { values } = parseArgs({
    options: {
      minutes: { type: "string" },
      seed: { type: "string" },
      faults: { type: "string" },
      save: { type: "boolean" },
    },
  });
  const minutes = Number(values.minutes ?? 60);
  const seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 31));
  if (!(minutes >= 3)) throw new Error(`--minutes is a number, at least 3, not "${values.minutes}"`);
  if (!Number.isInteger(seed)) throw new Error(`--seed is a whole number, not "${values.seed}"`);
  const faults = FAULTS.filter(({ name }) => name.includes(values.faults ?? ""));
  if (faults.length === 0) throw new Error(`no fault is called "${values.faults}"`);
  process.exitCode = (await run(minutes, seed, faults, values.save === true)) ? 0 : 1;
} catch (error) {
  console.error(`soak: ${messageOf(error)}`);
  process.exit(2);
}
