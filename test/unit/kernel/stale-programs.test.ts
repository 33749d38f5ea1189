import { spawn } from "node:child_process";
import { readlinkSync } from "node:fs";
import { afterEach, describe, expect, test } from "vitest";
import { nftProgram } from "../../../src/kernel/nft.ts";
import { endOrphans } from "../../../src/kernel/running-programs.ts";
import { removeStaleTraceTables } from "../../../src/kernel/trace-tables.ts";

const HERE = /\d+/.exec(readlinkSync("/proc/self/ns/pid"))?.[0];

/** Above the most process ids that Linux has. Source: proc(5), pid_max. */
const NOBODY = 2 ** 22 + 1;

const started: ReturnType<typeof spawn>[] = [];
afterEach(() => {
  for (const child of started.splice(0)) child.kill("SIGKILL");
});

describe("endOrphans", () => {
  /** A program that a process follows. */
  async function followed(follower: number) {
    const env = { ...process.env, NFT_PROXY_STARTED_BY: String(follower) };
    const child = spawn("sleep", ["60"], { env, stdio: "ignore" });
    started.push(child);
    await new Promise((resolve) => child.once("spawn", resolve));
    return child;
  }

  test("ends programs whose parent has ended, and none whose parent runs", async () => {
    const [left, own] = [await followed(NOBODY), await followed(process.pid)];
    const ended = new Promise((resolve) => left.once("exit", (_code, signal) => resolve(signal)));
    endOrphans();
    expect(await ended).toBe("SIGKILL");
    expect([own.exitCode, own.signalCode]).toEqual([null, null]);
  });
});

describe("removeStaleTraceTables", () => {
  /** Which of these tables are removed; `active` ones have an element in the set of their protocols. */
  async function removed(tables: readonly string[], active: readonly string[] = []): Promise<unknown> {
    const sent: string[] = [];
    const run = async (_path: string, args: readonly string[], input: string) => {
      const at = args.findIndex((arg) => arg.startsWith("nft-proxy-trace-"));
      const elem = active.includes(`ip ${args[at]}`) ? { elem: ["tcp"] } : {};
      const listed = args.includes("tables")
        ? tables.map((table) => ({ table: { family: table.split(" ")[0], name: table.split(" ")[1] } }))
        : [{ set: { name: "active", ...elem } }];
      if (args.includes("-f")) sent.push(input);
      return { ...ENDED, stdout: JSON.stringify({ nftables: listed }) };
    };
    const count = await removeStaleTraceTables(nftProgram({ path: "nft", run }));
    const gone = tables.filter((table) => sent.join().includes(JSON.stringify(table.split(" ")[1])));
    expect(count).toBe(gone.length);
    return gone;
  }

  const ENDED = {
    exitCode: 0,
    signal: undefined,
    stderr: "",
    startError: undefined,
    timedOut: false,
    tooMuchOutput: false,
    aborted: false,
    durationMs: 1,
  };
  const lost = `ip nft-proxy-trace-${HERE}-${NOBODY}`;
  const running = `ip nft-proxy-trace-${HERE}-${process.pid}`;
  const elsewhere = `ip nft-proxy-trace-1-${process.pid}`;

  test("removes the table of a process that has ended, and no other table", async () => {
    expect(await removed([lost, running, "ip nft-proxy", "ip nft-proxy-trace-mine"])).toEqual([lost]);
  });

  test("removes the table of a process in another pid namespace only when its time is up", async () => {
    expect(await removed([elsewhere])).toEqual([elsewhere]);
    expect(await removed([elsewhere], [elsewhere])).toEqual([]);
  });
});
