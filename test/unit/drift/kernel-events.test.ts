import { describe, expect, test } from "vitest";
import { type Commit, KernelEvents } from "../../../src/drift/kernel-events.ts";
import { FakeListener, STRANGER, type Told } from "../../support/fake-listener.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { memoryLogger } from "../../support/memory-logger.ts";

const turn = () => new Promise((resolve) => setImmediate(resolve));

const raw = (key: string) => ({ key, isEnd: false, value: "" });
const elements = (count = 1): Told => ({
  kind: "elements",
  op: "new",
  name: "cluster-ips",
  elements: Array.from({ length: count }, (_, n) => raw(`${n}`)),
});
const DELETED: Told = { kind: "table", op: "delete", name: "nft-proxy" };
/** The beginning of a commit. */
const FIRST_MESSAGE = {
  kind: "table",
  op: "delete",
  portId: 99,
  family: "ip",
  table: "nft-proxy",
  name: "nft-proxy",
  elements: [],
} as const;
const AUTHOR = "other (process 99)";
const OWN = { program: "nft", pid: 7001, portId: 7001 };

/** Events of a kernel whose notifications a test tells; the nft with the process id 7001 is ours. */
async function setUp({ isReady = true } = {}) {
  const clock = new ManualClock(1000);
  const logger = memoryLogger();
  const kernel = new FakeListener();
  kernel.isReadyAtOnce = isReady;
  const commits: Commit[] = [];
  /** The authors of those that are not ours. */
  const foreign: string[] = [];
  const state = { begun: 0, needsElementsOfOwnCommits: false };
  const ownPids = new Set([OWN.portId]);
  const events = new KernelEvents({
    listen: kernel.listen,
    ownCommits: { has: (portId) => ownPids.has(portId), take: (portId) => ownPids.has(portId) },
    clock,
    logger,
    onCommit: (commit) => {
      commits.push(commit);
      if (commit.isForeign) foreign.push(commit.author);
    },
    needsElementsOfOwnCommits: () => state.needsElementsOfOwnCommits,
    onHostChange: () => {},
    onListening: () => state.begun++,
  });
  events.start();
  await turn();
  const pass = async (ms: number) => {
    clock.advance(ms);
    await turn();
  };
  return { clock, logger, kernel, commits, foreign, state, ownPids, events, pass };
}

describe("KernelEvents", () => {
  test("reads the elements of foreign commits, and of ours only if they are needed", async () => {
    const { kernel, state } = await setUp();
    const { wantsElements } = kernel.last.handlers;
    expect([wantsElements(STRANGER.portId), wantsElements(OWN.portId)]).toEqual([true, false]);
    state.needsElementsOfOwnCommits = true;
    expect(wantsElements(OWN.portId)).toBe(true);
  });

  test("reports a foreign commit in our tables once, with its author", async () => {
    const { foreign, kernel, events, pass, clock } = await setUp();
    await pass(1);
    kernel.commit([elements(), elements()]);
    expect(foreign).toEqual([AUTHOR]);
    expect(await events.isIntactSince(clock.monotonic()), "at this moment").toBe(false);
    await pass(1);
    expect([await events.isIntactSince(0), await events.isIntactSince(clock.monotonic())]).toEqual([
      false,
      true,
    ]);
  });

  test("reports the changes of a commit in our tables only, whoever made it", async () => {
    const { commits, kernel } = await setUp();
    kernel.commit([elements(), { ...elements(), table: "docker" }], OWN);
    kernel.commit([DELETED, { ...DELETED, family: "ip6" }, { ...DELETED, table: "docker", name: "docker" }]);
    expect(commits).toMatchObject([
      {
        author: "nft (process 7001)",
        isForeign: false,
        messages: [{ kind: "elements", name: "cluster-ips" }],
      },
      { author: AUTHOR, isForeign: true, messages: [{ family: "ip" }, { family: "ip6" }] },
    ]);
    expect(commits.map(({ messages }) => messages.length)).toEqual([1, 2]);
  });

  test("recognises our own commits, also those of an nft that was killed", async () => {
    const { foreign, kernel, events, ownPids } = await setUp();
    kernel.commit([elements(), DELETED], OWN);
    expect([foreign, await events.isIntactSince(0)]).toEqual([[], true]);
    ownPids.delete(OWN.portId);
    kernel.commit([elements()], OWN);
    expect(foreign).toEqual(["nft (process 7001)"]);
  });

  test("uses the port id of the messages, not the process id, which differs in other namespaces", async () => {
    const { foreign, kernel } = await setUp();
    kernel.commit([elements()], { ...OWN, pid: 31_337 });
    expect(foreign).toEqual([]);
    kernel.commit([elements()], { ...OWN, portId: STRANGER.portId });
    expect(foreign).toEqual(["nft (process 7001)"]);
  });

  test("treats a commit as foreign if any of its messages has another port id", async () => {
    const { foreign, kernel } = await setUp();
    kernel.commit([elements(), { ...elements(), portId: STRANGER.portId }], OWN);
    expect(foreign).toHaveLength(1);
  });

  test("ignores commits in tables of others, and of other families", async () => {
    const { commits, kernel, events } = await setUp();
    kernel.commit([
      { ...elements(), table: "docker" },
      { ...elements(), family: undefined },
    ]);
    kernel.commit([]);
    expect([commits, await events.isIntactSince(0)]).toEqual([[], true]);
  });

  test("does not depend on a clock that can be set", async () => {
    const { kernel, events, clock, pass } = await setUp();
    await pass(100);
    clock.set(0);
    kernel.commit([elements()]);
    expect([await events.isIntactSince(99), await events.isIntactSince(101)]).toEqual([false, true]);
  });

  test("reports no commit before its end", async () => {
    const { foreign, kernel } = await setUp();
    kernel.last.handlers.onMessage(FIRST_MESSAGE);
    expect(foreign).toEqual([]);
    kernel.commit([]);
    expect(foreign).toHaveLength(1);
  });

  test("does not report the tables as intact for the time before it listened", async () => {
    const { events, kernel, foreign, state, clock } = await setUp({ isReady: false });
    expect([events.isTrusted, await events.isIntactSince(0)]).toEqual([false, false]);
    kernel.commit([elements()]);
    clock.advance(500);
    kernel.last.ready(true);
    await turn();
    expect([events.isTrusted, state.begun, foreign]).toEqual([true, 1, []]);
    expect([await events.isIntactSince(499), await events.isIntactSince(500)]).toEqual([false, true]);
  });

  test("drops the beginning of a commit that arrived before it was ready", async () => {
    const { kernel, foreign } = await setUp({ isReady: false });
    kernel.last.handlers.onMessage(FIRST_MESSAGE);
    kernel.last.ready(true);
    await turn();
    kernel.commit([]);
    expect(foreign).toEqual([]);
  });

  test("is intact only after all earlier commits were reported", async () => {
    const { events, kernel, pass } = await setUp();
    await pass(1000);
    const pongs: (() => void)[] = [];
    kernel.beforePong = () => new Promise((resolve) => pongs.push(resolve));
    const [intact, broken] = [events.isIntactSince(500), events.isIntactSince(500)];
    pongs[0]?.();
    expect(await intact).toBe(true);
    kernel.commit([elements()]);
    pongs[1]?.();
    expect(await broken).toBe(false);
  });

  test("is not intact when listening ends, or begins anew, while the ping is under way", async () => {
    const { events, kernel, pass } = await setUp();
    let pong: () => void = () => {};
    kernel.beforePong = () =>
      new Promise((resolve) => {
        pong = resolve;
      });
    const ended = events.isIntactSince(0);
    kernel.end();
    pong();
    expect(await ended).toBe(false);
    await pass(1000);
    expect(events.isTrusted).toBe(true);
    const replaced = events.isIntactSince(1000);
    kernel.end();
    await pass(1000);
    expect(events.isTrusted).toBe(true);
    pong();
    expect(await replaced).toBe(false);
  });

  test("listens again after a loss, and does not report the tables as intact for the time before", async () => {
    const { events, kernel, state, foreign, logger, pass } = await setUp();
    kernel.commit([elements()]);
    kernel.end(new Error("the kernel dropped notifications"));
    expect([events.isTrusted, kernel.last.isStopped]).toEqual([false, true]);
    expect(await events.isIntactSince(Number.MAX_SAFE_INTEGER)).toBe(false);
    await pass(99);
    expect(kernel.started).toHaveLength(1);
    await pass(1);
    expect([events.isTrusted, state.begun]).toEqual([true, 2]);
    expect([await events.isIntactSince(99), await events.isIntactSince(100)]).toEqual([false, true]);
    expect(foreign).toHaveLength(1);
    expect(
      logger.lines.map(({ level, fields }) => [level, fields.error]),
      "no warning",
    ).toEqual([["debug", "the kernel dropped notifications"]]);
  });

  test("ignores messages of a listener that was replaced", async () => {
    const { events, kernel, foreign, pass } = await setUp();
    const [old] = kernel.started;
    kernel.end();
    await pass(1000);
    old?.handlers.onEnd(new Error("again"));
    expect([events.isTrusted, kernel.started.length, foreign]).toEqual([true, 2, []]);
  });

  test("tries again later each time, up to 5 minutes, and warns once", async () => {
    const { kernel, logger, pass } = await setUp({ isReady: false });
    const doubled = Array.from({ length: 12 }, (_, n) => 100 * 2 ** n);
    for (const pause of [...doubled, 300_000, 300_000]) {
      const before = kernel.started.length;
      kernel.end(new Error("no socat"));
      await pass(pause - 1);
      expect(kernel.started, `${pause}`).toHaveLength(before);
      await pass(1);
      expect(kernel.started).toHaveLength(before + 1);
    }
    expect(logger.lines.filter(({ level }) => level === "warn")).toMatchObject([
      { fields: { error: "no socat", retrySeconds: 0.1 } },
    ]);
  });

  test("tries again soon only after it has listened for 10 s", async () => {
    const { kernel, pass } = await setUp();
    const endsAndListensAgainAfter = async (ms: number) => {
      const before = kernel.started.length;
      kernel.end();
      await pass(ms - 1);
      expect(kernel.started, `${ms}`).toHaveLength(before);
      await pass(1);
      expect(kernel.started).toHaveLength(before + 1);
    };
    await endsAndListensAgainAfter(100);
    await pass(9999);
    await endsAndListensAgainAfter(200);
    await pass(10_000);
    await endsAndListensAgainAfter(100);
  });

  test.each(["listens", "waits to listen", "is about to be ready"])(
    "does nothing any more when it is stopped while it %s",
    async (when) => {
      const { kernel, events, state, pass } = await setUp({ isReady: when === "listens" });
      if (when === "waits to listen") kernel.end();
      const { started } = kernel;
      if (when === "is about to be ready") kernel.last.ready(true);
      events.stop();
      await pass(600_000);
      expect([events.isTrusted, started.length, started[0]?.isStopped]).toEqual([false, 1, true]);
      expect(state.begun).toBe(when === "listens" ? 1 : 0);
    },
  );
});
