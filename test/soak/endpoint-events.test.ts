import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import type { DaemonProcess } from "../bench/daemon-process.ts";
import { follow } from "../bench/follow.ts";
import { residentBytes } from "../bench/memory.ts";

const SIZE = { services: 10_000, endpoints: 10 };
const EVENTS = 100_000;
const AT_ONCE = 500;

/** Resident memory when nothing happens, MB: the least of ten seconds, in which garbage is collected once at least. */
async function steadyMemory({ pid }: DaemonProcess): Promise<number> {
  await sleep(20_000);
  const samples: number[] = [];
  for (let n = 0; n < 10; n++) {
    samples.push(residentBytes(pid) / 1e6);
    await sleep(1000);
  }
  return Math.min(...samples);
}

test(`${EVENTS} endpoint events at 10,000 Services x 10 leave the memory where it was`, async () => {
  const [before = 0, after = 0] = await follow(SIZE, [], async ({ daemon, churn }) => {
    const steady = await steadyMemory(daemon);
    for (let event = 0; event < EVENTS; event++) {
      churn.replace(event % SIZE.services, Math.floor(event / SIZE.services) % SIZE.endpoints);
      if (event % AT_ONCE === AT_ONCE - 1) await sleep(250);
    }
    return [steady, await steadyMemory(daemon)];
  });
  expect(after, `MB, of ${before} MB before`).toBeLessThan(before * 1.1);
});
