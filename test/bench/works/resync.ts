import { sizeText } from "../cluster-objects.ts";
import { time, type Work } from "../figures.ts";
import { measureSync } from "../full-sync-measurement.ts";
import { mustRun } from "../programs.ts";

const SIZE = { services: 10_000, endpoints: 10 };

/** Measures a full resync, which lists and compares everything. The floor is nft's listing alone. */
export const resync: Work = {
  name: "resync",
  summary: "a periodic full resync: nothing to do, and 1 % drifted",
  run: async () => {
    const calm = await measureSync({ size: SIZE, mode: "resync", rounds: 1 });
    const listing = await mustRun(["nft", "-j", "list", "table", "ip", "nft-proxy"], { output: "/dev/null" });
    const drifted = await measureSync({ size: SIZE, mode: "drift", rounds: 1 });
    const figure = (what: string, ms: number) => ({
      work: `full resync, ${what}, ${sizeText(SIZE)}`,
      value: time(ms),
      floor: `${time(listing.ms)} (nft -j list table)`,
      ratio: ms / listing.ms,
    });
    return [figure("nothing to do", calm.resyncMs), figure("1 % of the endpoints gone", drifted.resyncMs)];
  },
};
