import { sizeText } from "../cluster-objects.ts";
import type { DaemonProcess } from "../daemon-process.ts";
import { percentile, time, type Work } from "../figures.ts";
import { follow } from "../follow.ts";
import { pause } from "../programs.ts";

const SIZE = { services: 10_000, endpoints: 10 };
/** The daemon gives memory back 3 s after its first sync. */
const SETTLING = 5000;
/** A verification takes 1 to 2 s. */
const WINDOW = 3000;
/** The next verification comes after 100 times the length of the last one, if one fell into the start. */
const PATIENCE = 400_000;
const GAP = 2;

/** Asks for /livez until a condition holds. @returns how long each answer of the last 3 s took, milliseconds */
async function waits(daemon: DaemonProcess, isOver: (lastVerified: string | undefined) => boolean): Promise<number[]> {
  const answers: { readonly started: number; readonly ms: number }[] = [];
  for (let lastVerified: string | undefined; !isOver(lastVerified); await pause(GAP)) {
    const started = performance.now();
    lastVerified = await daemon.lastVerified();
    answers.push({ started, ms: performance.now() - started });
  }
  const end = performance.now();
  return answers.filter(({ started }) => started > end - WINDOW).map(({ ms }) => ms);
}

const text = (times: readonly number[]): string =>
  `p50 ${time(percentile(times, 0.5))}, p99 ${time(percentile(times, 0.99))}, at most ${time(Math.max(...times))}`;

/** How long the daemon does nothing else while it compares all elements with the kernel. */
export const verification: Work = {
  name: "verification",
  summary: "how long requests wait while all elements are compared with the kernel",
  run: async () =>
    follow(SIZE, [], async ({ daemon }) => {
      await pause(SETTLING);
      const before = await daemon.lastVerified();
      const until = performance.now() + PATIENCE;
      const verifying = await waits(daemon, (at = before) => at !== before || performance.now() > until);
      if (performance.now() > until) throw new Error(`nft-proxy run did not verify its rules for ${time(PATIENCE)}`);
      const idleUntil = performance.now() + WINDOW;
      const idle = await waits(daemon, () => performance.now() > idleUntil);
      return [
        {
          work: `a request to the daemon while it verifies ${sizeText(SIZE)} waits`,
          value: text(verifying),
          floor: `${text(idle)} (idle)`,
        },
      ];
    }),
};
