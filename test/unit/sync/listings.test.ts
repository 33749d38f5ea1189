import { beforeEach, describe, expect, test } from "vitest";
import { isNftAtFault } from "../../../src/kernel/read-kernel.ts";
import { QuietListings } from "../../../src/sync/listings.ts";
import { QuietTime } from "../../../src/sync/quiet-time.ts";
import { ManualClock } from "../../support/manual-clock.ts";

let clock: ManualClock;
let quiet: QuietTime;
let listings: QuietListings;

beforeEach(() => {
  clock = new ManualClock();
  quiet = new QuietTime(clock);
  // An nft that lists without end, until it is killed.
  const hanging = (signal?: AbortSignal) =>
    new Promise<string>((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason)));
  const nft = {
    listTable: (_family: string, signal?: AbortSignal) => hanging(signal),
    listSet: () => hanging(),
    listChains: async () => "",
    listTableOf: (_table: object, _as: string, signal?: AbortSignal) => hanging(signal),
    streamSet: () => {
      throw new Error("not to be called");
    },
  };
  listings = new QuietListings(nft, quiet, clock);
});

const turn = () => new Promise((resolve) => setImmediate(resolve));

/** Has syncs wait for as long as they may. */
async function spend(): Promise<void> {
  for (let n = 0; n < 3; n++) {
    const listing = await quiet.begin();
    const sync = quiet.sync(async () => {});
    clock.advance(900);
    listing.end();
    await sync;
  }
}

describe("QuietListings", () => {
  test("end a listing beside syncs after 8 s, as a failure of nft that says nothing of our tables", async () => {
    await spend();
    expect(quiet.isSpent).toBe(true);
    const listing = listings.listTable("ip").catch((error: unknown) => error);
    await turn();
    clock.advance(7999);
    expect(clock.timers).toBe(1);
    clock.advance(1);
    const error = await listing;
    expect(error).toMatchObject({ code: "NFT_TIMEOUT" });
    expect(isNftAtFault(error)).toBe(true);
    expect(clock.timers).toBe(0);
  });
});
