import { sizeText } from "../cluster-objects.ts";
import { atMost, megabytes, time, type Work } from "../figures.ts";
import { follow } from "../follow.ts";
import { residentBytes } from "../memory.ts";
import { pause } from "../programs.ts";

const SIZE = { services: 10_000, endpoints: 10 };
const CHANGES = 300;
const GAP = 50;
const REST = 20_000;

/** A daemon's first minute: lists, the first sync, some changes; and what memory it keeps. */
export const start: Work = {
  name: "start",
  summary: "the daemon from its start to synced, and its memory",
  run: async () =>
    follow(SIZE, ["--iptables-min-sync-period=1ms"], async ({ daemon, churn, startMs }) => {
      const first = daemon.memory.stop();
      for (let i = 0; i < CHANGES; i++) {
        churn.replace(i, 0);
        await pause(GAP);
      }
      await pause(REST);
      const steady = residentBytes(daemon.pid);
      return [
        {
          work: `start to synced, from an API server, ${sizeText(SIZE)}`,
          value: time(startMs),
          budget: atMost(startMs, 3000, "3 s"),
          memory: first,
        },
        {
          work: `resident memory, steady, ${sizeText(SIZE)}`,
          value: megabytes(steady),
          budget: atMost(steady, 180e6, "180 MB"),
        },
        {
          work: `resident memory, peak of node and nft together, ${sizeText(SIZE)}`,
          value: megabytes(first.together),
          budget: atMost(first.together, 400e6, "400 MB"),
        },
      ];
    }),
};
