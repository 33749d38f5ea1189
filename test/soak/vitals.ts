import { readdirSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { peakBytes } from "../bench/memory.ts";
import type { Stage } from "./stage.ts";

/** What the daemon's process takes while nothing happens. */
export interface Vitals {
  readonly pid: number;
  /** After a collection of all garbage, bytes. */
  readonly resident: number;
  /**
   * What it keeps of that, bytes: without the program's own file, whose pages come and go, what the engine
   * holds in reserve, 1 to 8 MB for young objects alone, as its last collections went, and compiled code:
   * more and more functions are compiled in the first half hour.
   */
  readonly kept: number;
  /**
   * Bytes of its heap that are in use then, those of compiled code in it, those that the engine has reserved
   * for it, and those of buffers outside of it.
   */
  readonly heap: number;
  readonly code: number;
  readonly reserved: number;
  readonly buffers: number;
  /** The most that was resident since the process began, bytes. */
  readonly peak: number;
  /** Open file descriptors. */
  readonly descriptors: number;
}

/**
 * Work that is under way ends in this time, and idle connections to the API server are closed, milliseconds.
 */
const REST = 15_000;
/** Samples, each after a collection: pages go back to the system at any time. */
const SAMPLES = 3;

/** How much more than in the middle the daemon may take at the end. */
const GROWTH = 1.05;

/**
 * Descriptors that come and go: a connection to the API server that is not used any more, an nft that waits.
 */
const PASSING_DESCRIPTORS = 3;

/**
 * Gives all Services what they had at first, waits until nothing happens and has the daemon collect its
 * garbage: what it takes then is what it needs, wherever its heap was between two collections. The least of
 * some samples counts.
 */
export async function measureVitals(stage: Stage): Promise<Vitals> {
  stage.churn.pause();
  stage.churn.reset();
  await sleep(REST);
  const samples: Omit<Vitals, "pid" | "peak">[] = [];
  for (let n = 0; n < SAMPLES; n++) {
    const { heapUsed, heapTotal, external, rss: resident, anonymous, code } = await stage.collectGarbage();
    const kept = anonymous - (heapTotal - heapUsed) - code;
    const descriptors = descriptorsOf(stage.pid);
    const outside = { reserved: heapTotal, buffers: external, resident, descriptors };
    samples.push({ heap: heapUsed, code, kept, ...outside });
  }
  stage.churn.start();
  const least = (key: keyof Omit<Vitals, "pid" | "peak">) =>
    Math.min(...samples.map((sample) => sample[key]));
  return {
    pid: stage.pid,
    resident: least("resident"),
    kept: least("kept"),
    heap: least("heap"),
    code: least("code"),
    reserved: least("reserved"),
    buffers: least("buffers"),
    descriptors: least("descriptors"),
    peak: peakBytes(stage.pid),
  };
}

/** What is wrong with the vitals of the end, in words. */
export function vitalProblems(middle: Vitals, end: Vitals): readonly string[] {
  if (middle.pid !== end.pid) return ["memory: the process of the middle is not that of the end"];
  const growth = end.kept / middle.kept;
  return [
    ...(growth > GROWTH
      ? [`memory grew by ${((growth - 1) * 100).toFixed(1)} % from the middle to the end`]
      : []),
    ...(end.descriptors > middle.descriptors + PASSING_DESCRIPTORS
      ? [`descriptors grew from ${middle.descriptors} in the middle to ${end.descriptors} at the end`]
      : []),
  ];
}

function descriptorsOf(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}
