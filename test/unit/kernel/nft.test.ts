import { describe, expect, test } from "vitest";
import { DAEMON_LIMITS, Nft } from "../../../src/kernel/nft.ts";
import type { RunProcess } from "../../../src/kernel/process.ts";
import type { Command, Transaction } from "../../../src/nft/ast/json.ts";

type Family = "ip" | "ip6";
const element = (family: Family): Command => ({
  add: {
    element: { family, table: "nft-proxy", name: "cluster-ips", elem: [family === "ip" ? "10.0.0.1" : "fd00::1"] },
  },
});
const table = (family: Family): Command => ({ add: { table: { family, name: "nft-proxy" } } });
const LISTING = { list: { counters: { family: "ip", table: "nft-proxy" } } };

/** An nft that refuses what `refuses` says, and what it was sent. */
function recording(refuses: (commands: readonly unknown[]) => boolean = () => false, error = "Error: unknown command") {
  const sent: (readonly unknown[])[] = [];
  const timeouts: number[] = [];
  const run: RunProcess = async (_path, _args, input, { timeoutMs }) => {
    timeouts.push(timeoutMs);
    const { nftables } = JSON.parse(input) as { nftables: readonly unknown[] };
    sent.push(nftables);
    const exitCode = refuses(nftables) ? 1 : 0;
    const ended = { startError: undefined, signal: undefined, stdout: "", timedOut: false, tooMuchOutput: false };
    return { ...ended, exitCode, stderr: exitCode === 0 ? "" : error, aborted: false, durationMs: 1 };
  };
  return { nft: new Nft({ path: "nft", run }), sent, timeouts };
}

const of = (...nftables: readonly Command[]): Transaction => ({ nftables });
const hasListing = (commands: readonly unknown[]) => JSON.stringify(commands.at(-1)) === JSON.stringify(LISTING);

test("ownPids has the processes of the last 256 transactions, and none of a check or a listing", async () => {
  let pid = 0;
  const run: RunProcess = async (_path, _args, _input, { onStart }) => {
    onStart?.(++pid);
    const ended = { startError: undefined, signal: undefined, stdout: "", timedOut: false, tooMuchOutput: false };
    return { ...ended, exitCode: 0, stderr: "", aborted: false, durationMs: 1 };
  };
  const nft = new Nft({ path: "nft", run });
  await nft.apply(of());
  await nft.check(of());
  await nft.version();
  expect([...nft.ownPids]).toEqual([1]);
  for (let count = 0; count < 256; count++) await nft.apply(of());
  expect(nft.ownPids.size).toBe(256);
  expect([nft.ownPids.has(1), nft.ownPids.has(2), nft.ownPids.has(pid)]).toEqual([false, false, true]);
});

describe("a transaction", () => {
  test("of one family ends with a listing of its table, so that nft reads the sets of no other", async () => {
    const { nft, sent } = recording();
    await nft.apply(of(element("ip")));
    expect(sent).toEqual([[element("ip"), LISTING]]);
  });

  test("has 10 s, and as much again for each megabyte, but no more than any other call", async () => {
    const { nft, timeouts } = recording();
    const elements = (count: number): Command => ({
      add: {
        element: { family: "ip", table: "nft-proxy", name: "cluster-ips", elem: Array(count).fill("10.123.123.123") },
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

  test("that nft cannot read for the listing is applied without, and no later one has a listing", async () => {
    const { nft, sent } = recording(hasListing);
    await nft.apply(of(element("ip")));
    await nft.apply(of(element("ip")));
    expect(sent.map(hasListing)).toEqual([true, false, false]);
  });

  test("that nft cannot read in either form is refused, and later ones have the listing still", async () => {
    let isRefusing = true;
    const { nft, sent } = recording(() => isRefusing);
    await expect(nft.apply(of(element("ip")))).rejects.toThrow("refused");
    isRefusing = false;
    await nft.apply(of(element("ip")));
    expect(sent.map(hasListing)).toEqual([true, false, true]);
  });

  test("that the kernel refuses is not sent again", async () => {
    const { nft, sent } = recording(() => true, "Error: Could not process rule: File exists");
    await expect(nft.apply(of(element("ip")))).rejects.toThrow("refused");
    expect(sent).toHaveLength(1);
  });
});

test("a listing of more than 30 MB ends nft, so that the daemon does not run out of memory over it", async () => {
  const nft = new Nft({ path: "yes", through: ["sh", "-c", "exec yes"], limits: DAEMON_LIMITS });
  await expect(nft.listTable("ip")).rejects.toMatchObject({
    code: "NFT_OUTPUT",
    message: "nft printed more than 30000000 bytes",
  });
});
