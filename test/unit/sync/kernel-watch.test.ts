import { describe, expect, test } from "vitest";
import { type ForeignChange, KernelWatch } from "../../../src/sync/kernel-watch.ts";
import { QuietTime } from "../../../src/sync/quiet-time.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { memoryLogger } from "../../support/memory-logger.ts";

const turn = () => new Promise((resolve) => setImmediate(resolve));

/** A watch over a monitor whose lines a test writes. */
async function setUp({ elements = 10, listens = true } = {}) {
  const clock = new ManualClock(1000);
  const quiet = new QuietTime(clock);
  const nft = { path: "nft", commits: 5, isApplying: false };
  const foreign: ForeignChange[] = [];
  const monitors: { print: (line: string) => void; fail: (error: Error) => void; isStopped: boolean }[] = [];
  const state = { begun: 0, listens };
  let startListening = () => {};
  const watch = new KernelWatch({
    nft,
    quiet,
    clock,
    logger: memoryLogger(),
    elements: () => elements,
    onForeign: (change) => foreign.push(change),
    onBegun: () => state.begun++,
    follow: (_path, args, print) => {
      expect(args).toEqual(["monitor"]);
      const monitor = { print, fail: (_error: Error) => {}, isStopped: false };
      const ended = new Promise<void>((_, reject) => {
        monitor.fail = reject;
      });
      monitors.push(monitor);
      return { pid: 4711, stop: () => (monitor.isStopped = true), ended } as never;
    },
    isListening: () =>
      new Promise((resolve) => {
        startListening = resolve;
        if (state.listens) resolve();
      }),
  });
  watch.start();
  await turn();
  const commit = (...lines: readonly string[]) => {
    for (const line of [...lines, "# new generation 7 by process 99 (other)"]) monitors.at(-1)?.print(line);
  };
  const listen = async () => {
    startListening();
    await turn();
  };
  return { clock, quiet, nft, foreign, monitors, state, watch, commit, listen };
}

const OURS = "add element ip nft-proxy endpoints { 1 : 10.0.0.1 . 80 }";
const AUTHOR = "other (process 99)";

describe("KernelWatch", () => {
  test("tells of a commit of somebody else in our tables, and who made it", async () => {
    const { foreign, commit, watch, clock } = await setUp();
    expect([watch.isTrusted, await watch.isIntactSince(1000)]).toEqual([true, true]);
    commit("delete element ip nft-proxy endpoints { 1 : 10.0.0.1 . 80 }", OURS);
    expect(foreign).toEqual([{ author: AUTHOR, deletedTables: [] }]);
    expect(await watch.isIntactSince(clock.now())).toBe(false);
    clock.advance(1);
    expect(await watch.isIntactSince(clock.now()), "since then").toBe(true);
  });

  test("tells nothing of our own transactions, nor of tables of others", async () => {
    const { foreign, commit, watch, nft } = await setUp();
    nft.commits++;
    commit(OURS);
    commit("add table ip docker", "add rule ip docker nft-proxy accept");
    expect([foreign, await watch.isIntactSince(1000)]).toEqual([[], true]);
  });

  test("counts a commit that comes while a transaction of ours is under way when that has ended", async () => {
    const { foreign, commit, nft, clock } = await setUp();
    nft.isApplying = true;
    commit(OURS);
    commit(OURS);
    clock.advance(20);
    expect(foreign).toEqual([]);
    nft.commits++;
    nft.isApplying = false;
    clock.advance(20);
    expect(foreign).toHaveLength(1);
  });

  test("is not intact while a transaction of ours has not been told of", async () => {
    const { watch, nft, clock, commit } = await setUp();
    const isIntact = async (meanwhile: () => void) => {
      const answer = watch.isIntactSince(1000);
      meanwhile();
      for (let n = 0; n < 20; n++) {
        clock.advance(50);
        await turn();
      }
      return await answer;
    };
    nft.commits++;
    expect(await isIntact(() => commit(OURS)), "its message came late").toBe(true);
    nft.isApplying = true;
    const ending = () => {
      nft.isApplying = false;
    };
    expect(await isIntact(ending), "it ended").toBe(true);
    nft.commits++;
    expect(await isIntact(() => {}), "there was no message").toBe(false);
    expect(await isIntact(() => {}), "nor will there be one").toBe(true);
    expect(await watch.isIntactSince(999), "it did not listen yet").toBe(false);
  });

  test("keeps the commits of the last 3 seconds, whoever made them, unless they are too large", async () => {
    const { watch, commit, nft, clock, monitors } = await setUp();
    nft.commits++;
    commit(OURS, "add element ip docker names { 1 }");
    clock.advance(2000);
    commit("flush map ip nft-proxy endpoints");
    const own = { lines: [OURS], author: AUTHOR };
    const flush = { lines: ["flush map ip nft-proxy endpoints"], author: AUTHOR };
    expect(watch.recentCommits).toMatchObject([own, flush]);
    clock.advance(2000);
    expect(watch.recentCommits).toMatchObject([flush]);
    commit(...Array.from({ length: 5000 }, () => OURS));
    expect(watch.recentCommits).toBeUndefined();
    clock.advance(3001);
    expect(watch.recentCommits).toEqual([]);
    monitors[0]?.fail(new Error("nft failed"));
    await turn();
    expect(watch.recentCommits, "nothing is known").toBeUndefined();
  });

  test("starts no monitor once it was stopped, also where it waited for a sync to end", async () => {
    const { watch, quiet, monitors, state, clock } = await setUp({ listens: false });
    clock.advance(10_000);
    await turn();
    let endSync = () => {};
    const sync = quiet.sync(
      () =>
        new Promise<void>((resolve) => {
          endSync = resolve;
        }),
    );
    clock.advance(60_000);
    await turn();
    watch.stop();
    endSync();
    await sync;
    await turn();
    expect([monitors.length, state.begun]).toEqual([1, 0]);
    await quiet.sync(async () => {});
  });

  test("replaces a monitor a second after it printed a new rule: it tells nothing of the rule's sets any more", async () => {
    const { commit, watch, monitors, nft, clock } = await setUp();
    nft.commits++;
    commit("delete rule ip nft-proxy services handle 7");
    clock.advance(1000);
    nft.commits++;
    commit("add rule ip nft-proxy services handle 8 ip daddr @cluster-ips accept");
    expect([watch.isTrusted, monitors.length]).toEqual([true, 1]);
    clock.advance(1000);
    expect([watch.isTrusted, monitors[0]?.isStopped]).toEqual([false, true]);
    clock.advance(1000);
    await turn();
    expect([watch.isTrusted, monitors.length]).toEqual([true, 2]);
  });

  test("names deleted tables, and rests while they are made again", async () => {
    const { foreign, commit, watch, monitors, clock } = await setUp();
    commit("delete table ip nft-proxy", "delete table ip6 nft-proxy");
    expect(foreign).toEqual([{ author: AUTHOR, deletedTables: ["ip nft-proxy", "ip6 nft-proxy"] }]);
    expect([watch.isTrusted, monitors[0]?.isStopped]).toEqual([false, true]);
    clock.advance(1000);
    await turn();
    expect([watch.isTrusted, monitors.length]).toEqual([true, 2]);
  });

  test.each([
    ["20 times as long as the last start took, 0.8 s", 800, 16_000],
    ["half a minute where that took 4 s", 4000, 30_000],
  ])("starts monitors no more often than every %s", async (_what, took, period) => {
    const { watch, clock, commit, listen } = await setUp({ listens: false });
    clock.advance(took);
    await listen();
    expect(watch.isTrusted).toBe(true);
    commit("delete table ip nft-proxy");
    clock.advance(period - took - 1);
    await listen();
    expect(watch.isTrusted).toBe(false);
    clock.advance(1);
    await turn();
    await listen();
    expect(watch.isTrusted).toBe(true);
  });

  test.each([
    ["loses messages", (print: (line: string) => void) => print("# ERROR: We lost some netlink events!")],
    [
      "has printed so much that its memory has grown",
      (print: (line: string) => void) => print(`add element ip docker names { ${"x".repeat(9_000_000)} }`),
    ],
    ["ends", (_print: unknown, fail: (error: Error) => void) => fail(new Error("nft failed"))],
  ])("is not trusted when the monitor %s, and starts another", async (_what, happen) => {
    const { watch, monitors, clock, state } = await setUp();
    const [monitor] = monitors;
    if (monitor !== undefined) happen(monitor.print, monitor.fail);
    await turn();
    expect([watch.isTrusted, state.begun]).toEqual([false, 1]);
    clock.advance(30_000);
    await turn();
    expect([watch.isTrusted, state.begun]).toEqual([true, 2]);
  });

  test("gives a start up for a sync that has waited for as long as it may, and tries again later each time", async () => {
    const { watch, monitors, clock, quiet, state, commit } = await setUp();
    commit("delete table ip nft-proxy");
    state.listens = false;
    for (const [wait, most] of [
      [1000, 1000],
      [30_000, 2000],
      [60_000, 4000],
    ] as const) {
      clock.advance(wait);
      await turn();
      const sync = quiet.sync(async () => "synced");
      clock.advance(most);
      expect(await sync).toBe("synced");
      await turn();
      expect([watch.isTrusted, monitors.at(-1)?.isStopped]).toEqual([false, true]);
    }
    expect(monitors).toHaveLength(4);
  });

  test("gives a start up that takes 10 s, as beside changes of others, and tries again later", async () => {
    const { watch, monitors, clock, state, commit } = await setUp();
    commit("delete table ip nft-proxy");
    state.listens = false;
    clock.advance(1000);
    await turn();
    clock.advance(9999);
    await turn();
    expect(monitors[1]?.isStopped).toBe(false);
    clock.advance(1);
    await turn();
    expect([watch.isTrusted, monitors[1]?.isStopped]).toEqual([false, true]);
    state.listens = true;
    clock.advance(30_000);
    await turn();
    expect([watch.isTrusted, monitors.length]).toEqual([true, 3]);
  });

  test("does not start a monitor that would take too much memory", async () => {
    const { watch, monitors } = await setUp({ elements: 200_000 });
    expect([watch.isTrusted, monitors.length]).toEqual([false, 0]);
  });
});
