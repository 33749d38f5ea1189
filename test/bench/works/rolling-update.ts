import { sizeText } from "../cluster-objects.ts";
import { atMost, type Figure, percentile, time, type Work } from "../figures.ts";
import { followClosely } from "../follow.ts";
import { cpuMs } from "../memory.ts";
import { pause } from "../programs.ts";

const SIZE = { services: 10_000, endpoints: 10 };
const UPDATED = 1000;
const PER_SECOND = 100;
const SECONDS = Number(process.env.ROLLING_UPDATE_SECONDS ?? 20);

function lagFigure(work: string, ms: number, limit: number): Figure {
  return { work, value: time(ms), budget: atMost(ms, limit, time(limit)) };
}

/**
 * Measures 20 s of a rolling update of a thousand Services, with a hundred endpoints a second and the default
 * pause between syncs. ROLLING_UPDATE_SECONDS sets another time.
 */
export const rollingUpdate: Work = {
  name: "rolling-update",
  summary: `1,000 Services updated at ${PER_SECOND} changes a second for ${SECONDS} s`,
  run: async () =>
    followClosely(SIZE, [], async ({ daemon, churn }, monitor) => {
      const [cpu, syncs, started] = [cpuMs(daemon.pid), await daemon.syncs(), performance.now()];
      const lags: Promise<number>[] = [];
      for (let i = 0; i < SECONDS * PER_SECOND; i++) {
        await pause(Math.max(0, started + (i * 1000) / PER_SECOND - performance.now()));
        const at = performance.now();
        const address = churn.replace(i % UPDATED, Math.floor(i / UPDATED) % SIZE.endpoints);
        lags.push(monitor.added(address).then((came) => came - at));
      }
      const all = await Promise.all(lags);
      const elapsed = performance.now() - started;
      const share = ((cpuMs(daemon.pid) - cpu) / elapsed) * 100;
      const transactions = (await daemon.syncs()) - syncs;
      const work = `rolling update of ${UPDATED} Services of ${sizeText(SIZE)}, ${PER_SECOND} changes/s, ${SECONDS} s`;
      return [
        lagFigure(`${work}: lag, p50`, percentile(all, 0.5), 40),
        lagFigure(`${work}: lag, p99`, percentile(all, 0.99), 120),
        {
          work: `${work}: CPU, nft included`,
          value: `${share.toFixed(1)} % of one core`,
          budget: atMost(share, 25, "25 %"),
        },
        { work: `${work}: transactions`, value: String(transactions), memory: daemon.memory.stop() },
      ];
    }),
};
