import { sizeText } from "../cluster-objects.ts";
import { atMost, median, time, type Work } from "../figures.ts";
import { follow } from "../follow.ts";
import { mustRun, pause, runProgram } from "../programs.ts";

const SIZE = { services: 10_000, endpoints: 10 };
const ROUNDS = 7;
/** Idle before each flush: memory is given back after much work, and polls of the daemon come at any time within it. */
const REST = 4000;
const LIMIT = 1200;
const RESOLUTION = 25;

/** Base chains come last, those of IPv6 at the very end. */
const COMPLETE = ["nft", "list", "chain", "ip6", "nft-proxy", "nat-prerouting"];

/** From `nft flush ruleset` by another hand until the whole ruleset is back. Milliseconds. */
async function repairTime(): Promise<number> {
  await pause(REST + Math.random() * 500);
  await mustRun(["nft", "flush", "ruleset"]);
  const flushed = performance.now();
  while ((await runProgram(COMPLETE)).exitCode !== 0) await pause(RESOLUTION);
  return performance.now() - flushed;
}

/** Somebody flushes the ruleset: the daemon notices, and makes everything anew. */
export const repair: Work = {
  name: "repair",
  summary: "a flushed ruleset, until it is complete again",
  run: async () =>
    follow(SIZE, [], async () => {
      const times: number[] = [];
      for (let i = 0; i < ROUNDS; i++) times.push(await repairTime());
      const ms = median(times);
      return [
        {
          work: `ruleset flushed, until complete again, ${sizeText(SIZE)}, p50 of ${ROUNDS}`,
          value: `${time(ms)} (${time(Math.min(...times))} to ${time(Math.max(...times))})`,
          budget: atMost(ms, LIMIT, time(LIMIT)),
        },
      ];
    }),
};
