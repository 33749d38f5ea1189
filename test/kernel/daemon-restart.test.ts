import { existsSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { LISTS } from "../../src/ruleset/sets.ts";
import { apiService, apiSlice } from "../support/api-objects.ts";
import { DaemonLab } from "../support/daemon-lab.ts";
import { HeldConnection, serveEcho } from "../support/held-connection.ts";
import {
  affinityEntries,
  killRounds,
  putSteady,
  rememberClients,
  seededRandom,
} from "../support/kill-rounds.ts";
import type { RunningDaemon } from "../support/running-daemon.ts";
import { loadTown } from "../support/stub-api/town.ts";
import { wrappedNft } from "../support/wrapped-nft.ts";

const ROUNDS = 10;
const CLIENTS = 200;
const ECHO = { port: 7000, nodePort: 32700, targetPort: 7000 };

let lab: DaemonLab;
let daemon: RunningDaemon;
let held: readonly HeldConnection[];
beforeAll(async () => {
  lab = await DaemonLab.create();
  loadTown(lab.cluster);
  putSteady(lab.cluster);
  lab.cluster.put("services", apiService("echo", { clusterIP: "10.96.7.7", ports: [ECHO] }));
  lab.cluster.put("endpointslices", apiSlice("echo", ["10.244.1.11"], [ECHO]));
  await serveEcho(lab.lab, "pod1", 7000);
  daemon = lab.start();
  await lab.converged();
  await rememberClients(lab, CLIENTS);
  held = await HeldConnection.openAll(lab.lab, [
    ["pod2", "10.96.7.7", 7000],
    ["ext", "192.0.2.2", 32700],
  ]);
});
afterAll(() => lab?.close());

/** Returns both tables with the kernel's handles, which grow with every object that is recreated. */
async function handles(): Promise<string> {
  return (
    await Promise.all(
      ["ip", "ip6"].map((family) => lab.nft("-a", "-t", "list", "table", family, "nft-proxy")),
    )
  ).join("");
}

/**
 * Makes an nft that hangs if a shell condition on its arguments holds.
 * @returns the path of a file that exists once it hangs, and the path of the program
 */
async function hangingNft(condition: string): Promise<[asked: string, path: string]> {
  const asked = await lab.file("hangs", "");
  await lab.lab.exec(["rm", asked]);
  return [
    asked,
    await wrappedNft(lab, "nft-hangs", `if ${condition}; then echo >${asked}; exec sleep 100; fi`),
  ];
}

/** Returns the process ids of hanging programs on the node, which are `sleep 100`. */
async function hanging(): Promise<string[]> {
  const { stdout } = await lab.lab.exec(["readlink", "/proc/self/ns/net"]);
  return readdirSync("/proc").filter((pid) => {
    try {
      const isHanging = readFileSync(`/proc/${pid}/cmdline`, "utf8") === "sleep\0" + "100\0";
      return isHanging && readlinkSync(`/proc/${pid}/ns/net`) === stdout.trim();
    } catch {
      return false;
    }
  });
}

describe("a restart", () => {
  test("with correct rules in the kernel sends nothing and changes nothing", async () => {
    const before = [await handles(), await affinityEntries(lab)];
    expect(await daemon.stop()).toBe(0);
    daemon = lab.start();
    expect(await daemon.saying("full sync")).toMatchObject({
      reason: "start",
      sent: 0,
      chains: 0,
      sets: 0,
      elements: 0,
    });
    expect([await handles(), await affinityEntries(lab)]).toEqual(before);
    expect((await affinityEntries(lab)).size).toBe(CLIENTS);
  });

  test("sends only the missed changes", async () => {
    await daemon.stop();
    lab.cluster.put("endpointslices", apiSlice("echo", ["10.244.1.11", "10.244.1.12"], [ECHO]));
    daemon = lab.start();
    expect(await daemon.saying("full sync")).toMatchObject({ reason: "start", sent: 1 });
    await lab.converged();
    lab.cluster.put("endpointslices", apiSlice("echo", ["10.244.1.11"], [ECHO]));
    await lab.converged();
  });

  test("removes an element whose list id no service port can have, and adopts no other id for it", async () => {
    const before = [await lab.nft("list", "map", "ip", "nft-proxy", LISTS), await affinityEntries(lab)];
    await daemon.stop();
    await lab.nft("add", "element", "ip", "nft-proxy", LISTS, "{ 192.0.2.77 . tcp . 1 : bfff:fffc }");
    daemon = lab.start();
    expect(await daemon.saying("full sync")).toMatchObject({ reason: "start", sent: 1, elements: 1 });
    expect([await lab.nft("list", "map", "ip", "nft-proxy", LISTS), await affinityEntries(lab)]).toEqual(
      before,
    );
  });

  test(`with kill -9 amid random changes, ${ROUNDS} times, leaves the right rules, affinity and connections`, async () => {
    await daemon.stop();
    const before = await affinityEntries(lab);
    await killRounds(lab, ROUNDS, seededRandom(20261120));
    daemon = lab.start();
    await lab.converged();
    expect(await affinityEntries(lab)).toEqual(before);
    for (const connection of held) await connection.stillAnswered();
  });
});

describe("a signal to the daemon", () => {
  test("SIGUSR1 writes the desired and the committed state to a file", async () => {
    daemon.signal("SIGUSR1");
    const { path } = await daemon.saying("wrote the desired and the committed state");
    const { stdout } = await lab.lab.exec(["cat", String(path)]);
    await lab.lab.exec(["rm", String(path)]);
    const state = JSON.parse(stdout);
    expect(Object.keys(state)).toEqual([
      "at",
      "sources",
      "health",
      "quarantined",
      "conflicts",
      "pending",
      "desired",
      "committed",
    ]);
    expect(state.committed).toEqual(state.desired);
    const file = await lab.file("state.json", JSON.stringify(state.desired));
    await lab.nft("-j", "-c", "-f", file);
  });

  test("SIGTERM during a listing ends it at once with exit code 0, reports no failure and leaves the rules", async () => {
    const before = await handles();
    expect(await daemon.stop()).toBe(0);
    // The listing hangs at the first table, before the first sync.
    const [asked, path] = await hangingNft(
      'case "$*" in *"list table ip nft-proxy"*) true;; *) false;; esac',
    );
    daemon = lab.start([`--nft-path=${path}`]);
    await expect.poll(() => existsSync(asked)).toBe(true);
    expect(await daemon.stop()).toBe(0);
    // The score is set while the daemon starts, which SIGTERM does not wait for.
    const others = daemon.log.filter((line) => !JSON.stringify(line).includes("oom_score_adj"));
    expect(others.at(-1)?.msg).toBe("stopping; the rules stay in the kernel");
    expect(await handles()).toBe(before);
  });

  test("a second SIGTERM during a transaction ends it at once", async () => {
    const [asked, path] = await hangingNft('[ "$*" = "-j -f -" ]');
    lab.cluster.put("services", apiService("slow", { clusterIP: "10.96.7.8" }));
    daemon = lab.start([`--nft-path=${path}`]);
    await expect.poll(() => existsSync(asked)).toBe(true);
    daemon.signal("SIGTERM");
    await daemon.saying("stopping; the rules stay in the kernel");
    daemon.signal("SIGTERM");
    expect((await daemon.ended).exitCode).toBe(143);
    await expect.poll(hanging).toEqual([]);
  });

  test("one SIGTERM during a transaction ends it after the transaction, within the grace period", async () => {
    const [asked, path] = await hangingNft('[ "$*" = "-j -f -" ]');
    daemon = lab.startImpatient([`--nft-path=${path}`]);
    await expect.poll(() => existsSync(asked)).toBe(true);
    expect(await hanging()).not.toEqual([]);
    expect(await daemon.stop()).toBe(0);
    expect(daemon.log.at(-1)?.msg).toBe("not everything stopped in time; the rest is killed");
    await expect.poll(hanging).toEqual([]);
  });

  test("SIGTERM ends it while it waits for nft at the start", async () => {
    const [asked, path] = await hangingNft("true");
    daemon = lab.start([`--nft-path=${path}`]);
    await expect.poll(() => existsSync(asked)).toBe(true);
    expect(await daemon.stop()).toBe(0);
    await expect.poll(hanging).toEqual([]);
  });

  test("after kill -9 its programs end when the next daemon starts", async () => {
    const [asked, path] = await hangingNft('[ "$*" = "-j -f -" ]');
    daemon = lab.start([`--nft-path=${path}`]);
    await expect.poll(() => existsSync(asked)).toBe(true);
    daemon.signal("SIGKILL");
    await daemon.ended;
    expect(await hanging()).not.toEqual([]);
    daemon = lab.start();
    await daemon.saying("full sync");
    expect(await hanging()).toEqual([]);
    await daemon.stop();
  });

  test("SIGTERM at the start is not lost, as it would be for a container's process 1 without a listener", async () => {
    const [asked, answer] = [await lab.file("asked", ""), await lab.file("answer", "")];
    await lab.lab.exec(["rm", asked, answer]);
    const path = await wrappedNft(
      lab,
      "nft-waits",
      `echo >${asked}; until [ -e ${answer} ]; do sleep 0.05; done`,
    );
    daemon = lab.start([`--nft-path=${path}`]);
    await expect.poll(() => existsSync(asked)).toBe(true);
    daemon.signal("SIGTERM");
    await writeFile(answer, "");
    expect((await daemon.ended).exitCode).toBe(0);
    expect(daemon.said("stopping; the rules stay in the kernel")).toHaveLength(1);
  });
});
