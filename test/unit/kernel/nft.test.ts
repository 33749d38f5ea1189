import { describe, expect, test } from "vitest";
import { dryRunNft } from "../../../src/kernel/daemon-nft.ts";
import { nftProgram } from "../../../src/kernel/nft.ts";
import { DAEMON_LIMITS } from "../../../src/kernel/nft-limits.ts";
import { listTable } from "../../../src/kernel/nft-listings.ts";
import { OwnCommits } from "../../../src/kernel/own-commits.ts";
import type { RunProcess } from "../../../src/kernel/process.ts";
import type { Command, Transaction } from "../../../src/nft/ast/json.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { memoryLogger } from "../../support/memory-logger.ts";

type Family = "ip" | "ip6";
const element = (family: Family): Command => ({
  add: {
    element: {
      family,
      table: "nft-proxy",
      name: "cluster-ips",
      elem: [family === "ip" ? "10.0.0.1" : "fd00::1"],
    },
  },
});
const table = (family: Family): Command => ({ add: { table: { family, name: "nft-proxy" } } });
const LISTING = { list: { counters: { family: "ip", table: "nft-proxy" } } };

/** The end of a process that nobody stopped. */
const ENDED = {
  startError: undefined,
  signal: undefined,
  stdout: "",
  timedOut: false,
  tooMuchOutput: false,
  aborted: false,
  durationMs: 1,
};

/** An nft that refuses what `refuses` says, and what it was sent. */
function recording(
  refuses: (commands: readonly unknown[]) => boolean = () => false,
  error = "Error: unknown command",
) {
  const sent: (readonly unknown[])[] = [];
  const timeouts: number[] = [];
  const run: RunProcess = async (_path, _args, input, { timeoutMs }) => {
    timeouts.push(timeoutMs);
    const { nftables } = JSON.parse(input) as { nftables: readonly unknown[] };
    sent.push(nftables);
    const exitCode = refuses(nftables) ? 1 : 0;
    return { ...ENDED, exitCode, stderr: exitCode === 0 ? "" : error };
  };
  return { nft: nftProgram({ path: "nft", run }), sent, timeouts };
}

const of = (...nftables: readonly Command[]): Transaction => ({ nftables });
const hasListing = (commands: readonly unknown[]) =>
  JSON.stringify(commands.at(-1)) === JSON.stringify(LISTING);

describe("a transaction", () => {
  test("of one family ends with a listing of its table, so that nft reads no sets of other tables", async () => {
    const { nft, sent } = recording();
    await nft.apply(of(element("ip")));
    expect(sent).toEqual([[element("ip"), LISTING]]);
  });

  test("has 10 s for each started megabyte, but no more than any other call", async () => {
    const { nft, timeouts } = recording();
    const elements = (count: number): Command => ({
      add: {
        element: {
          family: "ip",
          table: "nft-proxy",
          name: "cluster-ips",
          elem: Array(count).fill("10.123.123.123"),
        },
      },
    });
    for (const count of [1, 100_000, 1_000_000]) await nft.apply(of(elements(count)));
    await nft.check(of(element("ip")));
    expect(timeouts).toEqual([10_000, 20_000, 120_000, 10_000]);
  });

  test.each([
    ["of both families", of(element("ip"), element("ip6"))],
    ["that makes its table", of(table("ip"), element("ip"))],
    ["without a command", of()],
  ])("%s is sent as it is", async (_what, transaction) => {
    const { nft, sent } = recording();
    await nft.apply(transaction);
    expect(sent).toEqual([transaction.nftables]);
  });

  test("that nft cannot read because of the listing is applied without it, and later ones have none", async () => {
    const { nft, sent } = recording(hasListing);
    await nft.apply(of(element("ip")));
    await nft.apply(of(element("ip")));
    expect(sent.map(hasListing)).toEqual([true, false, false]);
  });

  test("that nft cannot read in either form is refused, and later ones still have the listing", async () => {
    let isRefusing = true;
    const { nft, sent } = recording(() => isRefusing);
    await expect(nft.apply(of(element("ip")))).rejects.toThrow("refused");
    isRefusing = false;
    await nft.apply(of(element("ip")));
    expect(sent.map(hasListing)).toEqual([true, false, true]);
  });

  test("is not sent again if the kernel refuses it", async () => {
    const { nft, sent } = recording(() => true, "Error: Could not process rule: File exists");
    await expect(nft.apply(of(element("ip")))).rejects.toThrow("refused");
    expect(sent).toHaveLength(1);
  });
});

test("a listing of more than 30 MB ends nft, so that the daemon does not run out of memory", async () => {
  const nft = nftProgram({ path: "yes", through: ["sh", "-c", "exec yes"], limits: DAEMON_LIMITS });
  await expect(listTable(nft, "ip")).rejects.toMatchObject({
    code: "NFT_OUTPUT",
    message: "nft printed more than 30000000 bytes",
  });
});

test("a dry run reads and checks with nft, and logs each transaction instead of applying it", async () => {
  const { nft, sent } = recording();
  const logger = memoryLogger();
  const dryRun = dryRunNft(nft, logger);
  await dryRun.check(of(element("ip")));
  expect(await dryRun.apply(of(element("ip")))).toMatchObject({ durationMs: 0 });
  expect(sent).toHaveLength(1);
  expect(logger.lines.map(({ message }) => message)).toContain("dry run: would apply");
});

describe("a commit is ours", () => {
  /** An nft whose processes have ascending ids, from 1 on, and end as `end` says. */
  function numbered(end: () => Partial<Awaited<ReturnType<RunProcess>>> = () => ({})) {
    let pid = 0;
    const whileRunning: ((pid: number) => void)[] = [];
    const run: RunProcess = async (_path, _args, _input, { onStart }) => {
      pid++;
      onStart?.(pid);
      for (const look of whileRunning) look(pid);
      return { ...ENDED, exitCode: 0, stderr: "", ...end() };
    };
    const clock = new ManualClock();
    const own = new OwnCommits(clock);
    const nft = nftProgram({ path: "nft", run, onApply: (pid) => own.started(pid) });
    return { nft, own, clock, whileRunning };
  }

  test("if a process of a transaction made it, and no other process", async () => {
    const { nft, own, whileRunning } = numbered();
    const taken: boolean[] = [];
    whileRunning.push((pid) => taken.push(own.take(pid)));
    await nft.apply(of(element("ip")));
    await nft.check(of(element("ip")));
    await listTable(nft, "ip");
    await nft.apply(of(element("ip6")));
    expect(taken).toEqual([true, false, false, true]);
  });

  test("at most once for each process", async () => {
    const { nft, own } = numbered();
    await nft.apply(of(element("ip")));
    expect([own.take(1), own.take(1), own.take(2)]).toEqual([true, false, false]);
  });

  test("even if its process was killed or the transaction was sent twice", async () => {
    const ends = [
      { exitCode: undefined, timedOut: true },
      { exitCode: 1, stderr: "Error: unknown command" },
      {},
    ];
    const { nft, own } = numbered(() => ends.shift() ?? {});
    await expect(nft.apply(of(element("ip")))).rejects.toThrow();
    await nft.apply(of(element("ip")));
    expect([1, 2, 3].map((pid) => own.take(pid))).toEqual([true, true, true]);
  });

  test("for three minutes: another process may get the id of one whose transaction failed", async () => {
    const { nft, own, clock } = numbered(() => ({
      exitCode: 1,
      stderr: "Error: Could not process rule: No",
    }));
    const failing = () => expect(nft.apply(of(element("ip")))).rejects.toThrow();
    await failing();
    clock.advance(179_999);
    await failing();
    await failing();
    expect([own.has(1), own.take(2)]).toEqual([true, true]);
    clock.advance(1);
    expect([own.has(1), own.take(1), own.take(3)]).toEqual([false, false, true]);
  });
});
