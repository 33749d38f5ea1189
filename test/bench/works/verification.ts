import { sizeText } from "../cluster-objects.ts";
import { DAEMON_SOCKET } from "../daemon-process.ts";
import { percentile, time, type Work } from "../figures.ts";
import { follow } from "../follow.ts";
import { nftProxy, pause, runProgram } from "../programs.ts";

const SIZE = { services: 10_000, endpoints: 10 };
/** Time to wait after the first sync, because the daemon gives memory back after 3 s. Milliseconds. */
const SETTLING = 5000;
const IDLE = 3000;

const text = (times: readonly number[]): string =>
  `p50 ${time(percentile(times, 0.5))}, p99 ${time(percentile(times, 0.99))}, at most ${time(Math.max(...times))}`;

/** Measures how long the daemon is blocked while it compares all elements with the kernel. */
export const verification: Work = {
  name: "verification",
  summary: "how long requests wait while all elements are compared with the kernel",
  run: async () =>
    follow(SIZE, [], async ({ daemon }) => {
      await pause(SETTLING);
      const comparing = await daemon.waits(runProgram(nftProxy("diff", `--daemon-socket=${DAEMON_SOCKET}`)));
      const idle = await daemon.waits(pause(IDLE));
      return [
        {
          work: `a request to the daemon while it compares ${sizeText(SIZE)} for \`diff\` waits`,
          value: text(comparing),
          floor: `${text(idle)} (idle)`,
        },
      ];
    }),
};
