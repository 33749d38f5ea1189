import { beforeEach, describe, expect, test } from "vitest";
import { QuietTime } from "../../../src/sync/quiet-time.ts";
import { ManualClock } from "../../support/manual-clock.ts";

let clock: ManualClock;
let quiet: QuietTime;

beforeEach(() => {
  clock = new ManualClock();
  quiet = new QuietTime(clock);
});

const turn = () => new Promise((resolve) => setImmediate(resolve));

/** A sync that ends when it is told to. */
function sync() {
  const run = { started: false, end: () => {}, ended: Promise.resolve() };
  run.ended = quiet.sync(() => {
    run.started = true;
    return new Promise<void>((resolve) => {
      run.end = resolve;
    });
  });
  return run;
}

/** Has a sync wait for a listing. */
async function wait(ms: number): Promise<void> {
  const listing = await quiet.begin();
  const waiting = sync();
  clock.advance(ms);
  listing.end();
  await turn();
  waiting.end();
  await waiting.ended;
}

describe("QuietTime", () => {
  test("keeps a sync waiting until a listing ends", async () => {
    const listing = await quiet.begin();
    const waiting = sync();
    await turn();
    expect(waiting.started).toBe(false);
    listing.end();
    await turn();
    expect(waiting.started).toBe(true);
  });

  test("lets a listing begin after the sync that is under way, and after one that waits", async () => {
    const [first, order] = [sync(), [] as string[]];
    const listing = quiet.begin().then((one) => {
      order.push("listing");
      return one;
    });
    await turn();
    expect(order).toEqual([]);
    first.end();
    await turn();
    expect(order).toEqual(["listing"]);
    const second = sync();
    const next = quiet.begin().then(() => order.push("next listing"));
    (await listing).end();
    await turn();
    expect([second.started, order]).toEqual([true, ["listing"]]);
    second.end();
    await next;
  });

  test("ends a listing for which a sync has waited 1 s, and none that keeps nobody waiting", async () => {
    const listing = await quiet.begin();
    clock.advance(60_000);
    expect(listing.signal.aborted).toBe(false);
    const waiting = sync();
    clock.advance(1000);
    expect(listing.signal.reason).toMatchObject({ code: "NFT_TIMEOUT" });
    await turn();
    expect(waiting.started).toBe(true);
  });

  test("has syncs wait longer for those that come after a listing that was ended, up to 4 s, for ten minutes", async () => {
    const endedAfter = async (): Promise<number> => {
      const [listing, since] = [await quiet.begin(), clock.monotonic()];
      const waiting = sync();
      while (!listing.signal.aborted) clock.advance(500);
      await turn();
      waiting.end();
      await waiting.ended;
      const took = clock.monotonic() - since;
      clock.advance(120_000);
      return took;
    };
    const ends = [await endedAfter(), await endedAfter(), await endedAfter(), await endedAfter()];
    expect(ends).toEqual([1000, 2000, 4000, 4000]);
    clock.advance(600_000);
    expect(await endedAfter()).toBe(1000);
  });

  test("has syncs wait 3 % of the time: listings that nobody waits for cost nothing", async () => {
    const free = await quiet.begin();
    clock.advance(10_000);
    free.end();
    await wait(950);
    expect(quiet.isSpent).toBe(false);
    await wait(950);
    expect(quiet.isSpent).toBe(true);
    let begun = false;
    const next = quiet.begin().then(() => {
      begun = true;
    });
    await turn();
    expect(begun).toBe(false);
    clock.advance(10_000);
    await next;
  });

  test("lets a listing begin where no sync has run for a second, and ends it for the first that comes", async () => {
    while (!quiet.isSpent) await wait(950);
    const next = quiet.begin();
    clock.advance(999);
    expect(await Promise.race([next, turn()]), "a sync may come").toBeUndefined();
    clock.advance(1);
    const listing = await next;
    const coming = sync();
    await turn();
    expect([listing.signal.aborted, coming.started]).toEqual([true, true]);
    expect(listing.signal.reason).toMatchObject({ code: "NFT_TIMEOUT" });
    coming.end();
    await coming.ended;
  });

  test("begins at once for what repairs, however long syncs have waited, and does not count that", async () => {
    while (!quiet.isSpent) await wait(950);
    const [listing, waiting] = [await quiet.beginAtOnce(), sync()];
    clock.advance(950);
    listing.end();
    await turn();
    expect(waiting.started).toBe(true);
    waiting.end();
    await waiting.ended;
    clock.advance(10_000);
    expect(quiet.isSpent, "what listings took is made up for").toBe(false);
    const long = await quiet.begin();
    const repairing = quiet.beginAtOnce();
    clock.advance(1000);
    expect(long.signal.aborted, "it waits no longer than a sync").toBe(true);
    (await repairing).end();
    const sooner = sync();
    const next = quiet.beginAtOnce();
    await turn();
    expect(sooner.started).toBe(true);
    sooner.end();
    (await next).end();
  });

  test("ends the signal of a listing whose reader gives up, and begins none for it", async () => {
    const reader = new AbortController();
    const listing = await quiet.begin(reader.signal);
    reader.abort(new Error("gone"));
    expect(listing.signal.aborted).toBe(true);
    listing.end();
    await expect(quiet.begin(reader.signal)).rejects.toThrow("gone");
    for (let n = 0; n < 3; n++) if (!quiet.isSpent) await wait(950);
    const other = new AbortController();
    const late = expect(quiet.begin(other.signal)).rejects.toThrow("not now");
    other.abort(new Error("not now"));
    await late;
    expect(await quiet.beginUnlessSpent(), "others need not wait").toBeUndefined();
    expect(sync().started, "no listing is left").toBe(true);
  });
});
