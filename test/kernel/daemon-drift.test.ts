import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { counted } from "../../src/base/text.ts";
import { apiService, apiSlice } from "../support/api-objects.ts";
import { bundle } from "../support/command.ts";
import { DaemonLab } from "../support/daemon-lab.ts";
import { HeldConnection, serveEcho } from "../support/held-connection.ts";
import type { RunningDaemon } from "../support/running-daemon.ts";
import { loadTown } from "../support/stub-api/town.ts";

const ECHO = { port: 7000, nodePort: 32700, targetPort: 7000 };

let lab: DaemonLab;
let daemon: RunningDaemon;
beforeAll(async () => {
  lab = await DaemonLab.create();
  loadTown(lab.cluster);
  lab.cluster.put("services", apiService("echo", { clusterIP: "10.96.7.7", ports: [ECHO] }));
  lab.cluster.put("endpointslices", apiSlice("echo", ["10.244.1.11"], [ECHO]));
});
afterAll(() => lab?.close());

const repaired = "another program changed the rules, repaired";

/** The number of Events of earlier daemons. */
let earlierEvents = 0;
/** Starts a daemon with flags. It also deletes stale chains soon. */
async function start(...flags: readonly string[]): Promise<void> {
  earlierEvents = lab.api.events.length;
  daemon = lab.start([...flags, "--iptables-sync-period=1s"]);
  await daemon.saying("full sync");
  await lab.converged();
}

/** Returns the repairs of several steps as one, with the sums of each table. */
function summed(found: readonly string[]): string {
  const totals = new Map<string, [chains: number, sets: number, elements: number]>();
  for (const text of found.flatMap((one) => one.split("; "))) {
    const [, table, ...counts] =
      /^table (.*): (\d+) chains?, (\d+) sets?, (\d+) elements? differed$/.exec(text) ?? [];
    if (table === undefined) return found.join("; ");
    const [chains, sets, elements] = totals.get(table) ?? [0, 0, 0];
    totals.set(table, [chains + Number(counts[0]), sets + Number(counts[1]), elements + Number(counts[2])]);
  }
  return [...totals]
    .sort()
    .map(([table, [chains, sets, elements]]) => {
      const counts = [counted(chains, "chain"), counted(sets, "set"), counted(elements, "element")];
      return `table ${table}: ${counts.join(", ")} differed`;
    })
    .join("; ");
}

/**
 * Changes the rules, waits for the repair, and checks that the log, a metric and an Event report it. A change
 * between the listings of two tables or of two sets is found in several steps.
 */
async function repairs(
  kind: "table" | "element",
  interfere: () => Promise<unknown>,
  expected?: string,
): Promise<void> {
  const metric = () => lab.metric("nft_proxy_drift_repairs_total", `kind="${kind}"`);
  const [before, said] = [await metric(), daemon.said(repaired).length];
  const found = () =>
    daemon
      .said(repaired)
      .slice(said)
      .map((line) => String(line.found));
  await interfere();
  await daemon.saying(repaired, said + 1);
  await lab.converged();
  if (expected !== undefined) await expect.poll(() => summed(found())).toBe(expected);
  await expect.poll(async () => (await metric()) - before - found().length).toBe(0);
  for (const text of new Set(found())) {
    // An Event has the name of the program if the kernel reported it, so there may be one Event with and one
    // without.
    const told = () =>
      lab.api.events
        .slice(earlierEvents)
        .map(({ note }) => String(note))
        .filter((note) =>
          note.replace(/, by (\S+|a program that \S+ loaded)$/, "").endsWith(`have been repaired: ${text}`),
        );
    // An Event that the API server does not accept in time is dropped.
    await expect
      .poll(async () => told().length + (await lab.metric("nft_proxy_events_dropped_total")))
      .toBeGreaterThan(0);
    expect(told(), "each Event once").toEqual([...new Set(told())]);
  }
}

describe("a change of our rules by another program", () => {
  beforeAll(() => start("--full-resync-period=1s"));
  beforeEach(async () => {
    await lab.converged();
    // A daemon delays the sixth repair of a series and all later ones.
    if (daemon.said(repaired).length < 4) return;
    await daemon.stop();
    await start("--full-resync-period=1s");
  });

  test("such as nft flush ruleset stops packets for less than 2 s (median of five) and breaks no idle connection", async () => {
    const probe = {
      id: "echo",
      from: "pod2",
      to: "10.96.7.7",
      port: 7000,
      proto: "tcp",
      n: 1,
      wait: 0.2,
    } as const;
    await serveEcho(lab.lab, "pod1", 7000);
    const held = await HeldConnection.open(lab.lab, "pod2", "10.96.7.7", 7000);
    // An answer that stays untranslated after the flush reaches the client from another address, and the
    // client resets the connection.
    await held.rest();
    await expect
      .poll(() => lab.lab.mustRun("pod1", ["ss", "-Hti", "sport = :7000"]))
      .not.toContain("unacked");
    const times: number[] = [];
    for (let round = 0; round < 5; round++) {
      await lab.nft("flush", "ruleset");
      const began = performance.now();
      await expect
        .poll(async () => Object.keys((await lab.lab.observe([probe])).get("echo") ?? {}), {
          timeout: 20_000,
          interval: 20,
        })
        // An echo server sends nothing by itself, so an open and silent connection means success.
        .toEqual(["timeout"]);
      times.push(performance.now() - began);
    }
    held.wake();
    await held.stillAnswered();
    expect(times.sort((a, b) => a - b)[2], `in the middle of ${times.map(Math.round)} ms`).toBeLessThan(2000);
  });

  test("such as a deleted table is repaired", async () => {
    await repairs(
      "table",
      () => lab.nft("delete", "table", "ip6", "nft-proxy"),
      "table ip6 nft-proxy was missing",
    );
  });

  test("such as a dormant table is repaired", async () => {
    await repairs(
      "table",
      () => lab.nft("add table ip nft-proxy { flags dormant; }"),
      "table ip nft-proxy had other declarations",
    );
  });

  test("such as an emptied chain is repaired", async () => {
    await repairs(
      "element",
      () => lab.nft("flush", "chain", "ip", "nft-proxy", "services"),
      "table ip nft-proxy: 1 chain, 0 sets, 0 elements differed",
    );
  });

  test("such as a deleted element of a port range is repaired", async () => {
    const ports = [{ port: 21 }];
    const { metadata, ...ftp } = apiService("ftp", { clusterIP: "10.96.7.8", ports });
    const annotations = { "nft-proxy.io/port-ranges": "tcp-21=40000-40009" };
    lab.cluster.put("services", { ...ftp, metadata: { ...metadata, annotations } });
    lab.cluster.put("endpointslices", apiSlice("ftp", ["10.244.1.12"], ports));
    await lab.converged();
    const element = "ip nft-proxy range-lists { 10.96.7.8 . tcp . 40000-40009 }";
    await repairs(
      "element",
      () => lab.nft(`delete element ${element}`),
      "table ip nft-proxy: 0 chains, 0 sets, 1 element differed",
    );
    await lab.nft(`get element ${element}`);
    lab.cluster.put("services", { ...ftp, metadata });
    await lab.converged();
  });

  test("such as deleted elements is repaired", async () => {
    await repairs("element", () => lab.nft("flush", "map", "ip", "nft-proxy", "lists"));
  });

  test("such as foreign elements, sets, chains and rules is removed", async () => {
    const foreign = `
      add set ip nft-proxy intruders { type ipv4_addr; }
      add element ip nft-proxy intruders { 192.0.2.66, 192.0.2.67 }
      add chain ip nft-proxy trap
      add rule ip nft-proxy trap ip saddr @intruders drop
      add rule ip nft-proxy filter-input jump trap
      add element ip nft-proxy cluster-ips { 192.0.2.68 }
      add element ip nft-proxy lists { 192.0.2.68 . tcp . 80 : 8abc:4 }
      add element ip nft-proxy balancers { 8abc:4 : goto trap }
      add element ip nft-proxy endpoints { 8abc:4 . 0 : 192.0.2.69 . 80 }
      add element ip6 nft-proxy no-endpoint-services { fd00::68 . tcp . 80 : drop }`;
    const file = await lab.file("foreign.nft", foreign);
    await repairs(
      "element",
      () => lab.nft("-f", file),
      "table ip nft-proxy: 2 chains, 1 set, 4 elements differed; table ip6 nft-proxy: 0 chains, 0 sets, 1 element differed",
    );
  });

  test("such as objects of kinds that nft-proxy never uses is removed", async () => {
    await lab.nft("add", "counter", "ip", "nft-proxy", "spy");
    await lab.nft("add", "rule", "ip", "nft-proxy", "filter-input", "counter", "name", "spy");
    await daemon.saying(repaired, daemon.said(repaired).length + 1);
    await expect.poll(() => lab.nft("list", "table", "ip", "nft-proxy")).not.toContain("spy");
    await lab.converged();
    const afterwards = daemon.said(repaired).length;
    await daemon.saying("full sync", daemon.said("full sync").length + 2);
    expect(daemon.said(repaired), "repaired once and for all").toHaveLength(afterwards);
  });

  test("is repaired without changing tables of other software", async () => {
    await lab.nft("add", "table", "inet", "other");
    await lab.nft("add", "chain", "inet", "other", "mine");
    await daemon.saying("full sync", daemon.said("full sync").length + 2);
    expect(await lab.nft("list", "tables")).toContain("table inet other");
  });

  test("is repaired without breaking a connection", async () => {
    const held = await HeldConnection.openAll(lab.lab, [
      ["pod2", "10.96.7.7", 7000],
      ["ext", "192.0.2.2", 32700],
    ]);
    await repairs("element", () => lab.nft("flush", "chain", "ip", "nft-proxy", "nat-postrouting"));
    await repairs("element", () => lab.nft("flush", "map", "ip", "nft-proxy", "lists"));
    await daemon.saying("full sync", daemon.said("full sync").length + 2);
    await Promise.all(held.map((one) => one.stillAnswered()));
  });
});

describe("a daemon whose next full sync is far away", () => {
  beforeAll(async () => {
    await daemon.stop();
    await start("--full-resync-period=10h");
  });

  test("repairs a single deleted element, and reports the time of its last verification", async () => {
    await lab.nft("delete", "element", "ip", "nft-proxy", "lists", "{ 10.96.7.7 . tcp . 7000 }");
    await daemon.saying(repaired);
    await lab.converged();
    const since = Date.now();
    // This has the daemon verify the rules now, as it does by itself every 30 s.
    expect(await lab.lab.mustRun("node", [process.execPath, bundle, "diff"])).toContain("no difference");
    const { lastVerified } = JSON.parse((await lab.get(10256, "/livez")).body);
    expect(Date.parse(lastVerified)).toBeGreaterThanOrEqual(since);
  });

  test("names the program that changed the rules, in its log and in an Event", async () => {
    const changing = "another program changed the rules: repairing";
    const changes = daemon.said(changing).length;
    await lab.nft("delete", "element", "ip", "nft-proxy", "lists", "{ 10.96.7.7 . tcp . 7000 }");
    expect((await daemon.saying(changing, changes + 1)).by).toMatch(
      /^(\S+|a program that \S+ loaded) \(process \d+\)$/,
    );
    const notes = () => lab.api.events.map(({ note }) => String(note));
    await expect
      .poll(notes)
      .toContainEqual(expect.stringMatching(/1 element differed, by (\S+|a program that \S+ loaded)$/));
  });
});
