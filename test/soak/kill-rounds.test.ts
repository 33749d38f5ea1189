import { afterAll, beforeAll, expect, test } from "vitest";
import { DaemonLab } from "../support/daemon-lab.ts";
import { affinityEntries, killRounds, putSteady, rememberClients, seededRandom } from "../support/kill-rounds.ts";
import { loadTown } from "../support/stub-api/town.ts";

const ROUNDS = 200;
const CLIENTS = 2000;
/** Says which changes and moments there were: give it as SOAK_SEED to have them again. */
const SEED = Number(process.env.SOAK_SEED ?? Math.floor(Math.random() * 2 ** 31));

let lab: DaemonLab;
beforeAll(async () => {
  lab = await DaemonLab.create();
  loadTown(lab.cluster);
  putSteady(lab.cluster);
});
afterAll(() => lab?.close());

test(`${ROUNDS} rounds of random changes and kill -9 (seed ${SEED}) leave the right rules and all affinity`, async () => {
  const first = lab.start();
  await lab.converged();
  await rememberClients(lab, CLIENTS);
  const before = await affinityEntries(lab);
  expect(before.size).toBe(CLIENTS);
  await first.stop();
  const random = seededRandom(SEED);
  for (let done = 0; done < ROUNDS; done += 20) {
    await killRounds(lab, 20, random);
    const last = lab.start();
    await lab.converged();
    await last.stop();
  }
  expect(await affinityEntries(lab)).toEqual(before);
});
