import { readdirSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { peakBytes, residentBytes } from "../bench/memory.ts";
import type { Stage } from "./stage.ts";

/** What the daemon's process takes while nothing happens. */
export interface Vitals {
  readonly pid: number;
  /** After a collection of all garbage, bytes. */
  readonly resident: number;
  /** Bytes of its heap that are in use then, those that the engine has reserved for it, and those of buffers outside of it. */
  readonly heap: number;
  readonly reserved: number;
  readonly buffers: number;
  /** The most that was resident since the process began, bytes. */
  readonly peak: number;
  /** Open file descriptors. */
  readonly descriptors: number;
}

/** Work that is under way ends in this time, and idle connections to the API server are closed, milliseconds. */
const REST = 15_000;
const SAMPLES = 5;

/** How much more than in the middle the daemon may take at the end. */
const GROWTH = 1.05;

/** Descriptors that come and go: a connection to the API server that is not used any more, an nft that waits. */
const PASSING_DESCRIPTORS = 3;

/**
 * Gives all Services what they had at first, waits until nothing happens and has the daemon collect its garbage: what it
 * takes then is what it needs, wherever its heap was between two collections. The least of some samples counts.
 */
export async function measureVitals(stage: Stage): Promise<Vitals> {
  stage.churn.pause();
  stage.churn.reset();
  await sleep(REST);
  const { heapUsed, heapTotal, external } = await stage.collectGarbage();
  const samples = [];
  for (let n = 0; n < SAMPLES; n++) {
    await sleep(1000);
    samples.push({ resident: residentBytes(stage.pid), descriptors: descriptorsOf(stage.pid) });
  }
  stage.churn.start();
  return {
    pid: stage.pid,
    heap: heapUsed,
    reserved: heapTotal,
    buffers: external,
    resident: Math.min(...samples.map(({ resident }) => resident)),
    descriptors: Math.min(...samples.map(({ descriptors }) => descriptors)),
    peak: peakBytes(stage.pid),
  };
}

/** What is wrong with the vitals of the end, in words. */
export function vitalProblems(middle: Vitals, end: Vitals): readonly string[] {
  if (middle.pid !== end.pid) return ["memory: the process of the middle is not that of the end"];
  const growth = end.resident / middle.resident;
  return [
    ...(growth > GROWTH ? [`memory grew by ${((growth - 1) * 100).toFixed(1)} % from the middle to the end`] : []),
    ...(end.descriptors > middle.descriptors + PASSING_DESCRIPTORS
      ? [`descriptors grew from ${middle.descriptors} in the middle to ${end.descriptors} at the end`]
      : []),
  ];
}

function descriptorsOf(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}
