import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { runProcess, type StartedProcess, startProcess } from "../../src/kernel/process.ts";
import { apiService, apiSlice } from "../support/api-objects.ts";
import { DaemonLab } from "../support/daemon-lab.ts";
import type { RunningDaemon } from "../support/running-daemon.ts";
import { townList } from "../support/stub-api/town.ts";

const LIMITS = { timeoutMs: 10_000, maxOutputBytes: 1_000_000 };
const APPLY = ["-j", "-f", "-"];

describe("an nft that waits for its input", () => {
  const TABLE = { family: "ip", name: "spare-nft" };
  const SET = { family: "ip", table: "spare-nft", name: "ports" };

  async function nft(...args: readonly string[]): Promise<string> {
    const { exitCode, stdout, stderr } = await runProcess("nft", args, "", LIMITS);
    expect(stderr).toBe("");
    expect(exitCode).toBe(0);
    return stdout;
  }

  const listing = () => nft("-a", "list", "table", "ip", "spare-nft");

  /** Starts it, and waits until its netlink socket is open. */
  async function waiting(): Promise<StartedProcess> {
    const here = linkOf("/proc/self/ns/net");
    const before = nftProcesses(here);
    const started = startProcess("nft", APPLY, LIMITS.maxOutputBytes);
    await expect
      .poll(() => nftProcesses(here).filter((pid) => !before.includes(pid) && hasNetlinkSocket(pid)))
      .toHaveLength(1);
    return started;
  }

  beforeAll(() => nft("add", "table", "ip", "spare-nft"));
  afterAll(() => nft("delete", "table", "ip", "spare-nft"));

  test("sees changes of other programs after its start", async () => {
    const spare = await waiting();
    await nft("add", "set", "ip", "spare-nft", "ports", "{ type inet_service; }");
    const input = JSON.stringify({ nftables: [{ add: { element: { ...SET, elem: [80] } } }] });
    expect(await spare.finish(input, LIMITS.timeoutMs)).toMatchObject({ exitCode: 0, stderr: "" });
    expect(await listing()).toContain("elements = { 80 }");
  });

  test("changes nothing if its input is empty or ends too early", async () => {
    const before = await listing();
    await (await waiting()).finish("", LIMITS.timeoutMs);
    const half = JSON.stringify({
      nftables: [{ delete: { table: TABLE } }, { add: { table: TABLE } }],
    }).slice(0, -20);
    expect((await (await waiting()).finish(half, LIMITS.timeoutMs)).exitCode).not.toBe(0);
    expect(await listing()).toBe(before);
  });

  test("reports a refusal by the kernel", async () => {
    const input = JSON.stringify({ nftables: [{ delete: { element: { ...SET, elem: [443] } } }] });
    const { exitCode, stderr } = await (await waiting()).finish(input, LIMITS.timeoutMs);
    expect([exitCode, stderr]).toEqual([1, expect.stringContaining("Error: ")]);
  });
});

describe("the spare nft of a daemon", () => {
  let lab: DaemonLab;
  let daemon: RunningDaemon;

  beforeAll(async () => {
    lab = await DaemonLab.create();
    for (const resource of ["nodes", "servicecidrs"] as const)
      lab.cluster.load(resource, townList("town", resource));
    lab.cluster.put("services", apiService("web", { clusterIP: "10.96.7.1" }));
    endpoints("10.244.1.11");
  });
  afterAll(() => lab?.close());
  beforeEach(async () => {
    daemon = lab.start();
    await lab.converged();
    // Makes a change, because the first sync may have had nothing to send.
    endpoints("10.244.1.12");
    await lab.converged();
    endpoints("10.244.1.11");
    await lab.converged();
  });

  afterEach(() => daemon.stop());

  function endpoints(address: string): void {
    lab.cluster.put("endpointslices", apiSlice("web", [address]));
  }

  /** Returns the process ids of the node's spares. */
  async function spares(): Promise<number[]> {
    const { stdout } = await lab.lab.exec(["readlink", "/proc/self/ns/net"]);
    return nftProcesses(stdout.trim());
  }

  async function theSpare(): Promise<number> {
    await expect.poll(async () => (await spares()).length).toBe(1);
    return (await spares())[0] as number;
  }

  test("is replaced without an error after it was killed", async () => {
    const killed = await theSpare();
    process.kill(killed, "SIGKILL");
    await expect.poll(spares).toEqual([]);
    endpoints("10.244.2.12");
    await lab.converged();
    expect(await theSpare()).not.toBe(killed);
    expect(daemon.log.filter(({ level }) => level === "error")).toEqual([]);
  });

  test.each(["SIGTERM", "SIGKILL"] as const)(
    "ends with the daemon on %s, and changes nothing",
    async (signal) => {
      await theSpare();
      const before = await lab.nft("-a", "list", "table", "ip", "nft-proxy");
      daemon.signal(signal);
      await daemon.ended;
      await expect.poll(spares).toEqual([]);
      expect(await lab.nft("-a", "list", "table", "ip", "nft-proxy")).toBe(before);
    },
  );
});

/** Returns the process ids of every `nft -j -f -` in a network namespace. */
function nftProcesses(namespace: string): number[] {
  return readdirSync("/proc").flatMap((name) => {
    const words = textOf(`/proc/${name}/cmdline`).split("\0").slice(0, -1);
    const isNft = words.at(-4)?.endsWith("nft") === true && words.slice(-3).join() === APPLY.join();
    return isNft && linkOf(`/proc/${name}/ns/net`) === namespace ? [Number(name)] : [];
  });
}

/** Descriptors 0 to 2 are its pipes. */
function hasNetlinkSocket(pid: number): boolean {
  return linkOf(`/proc/${pid}/fd/3`).startsWith("socket:");
}

function textOf(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return "";
  }
}
