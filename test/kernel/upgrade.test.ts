import { fileURLToPath } from "node:url";
import { execaSync } from "execa";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { apiService, apiSlice } from "../support/api-objects.ts";
import { bundle } from "../support/command.ts";
import { DaemonLab } from "../support/daemon-lab.ts";
import { HeldConnection, serveEcho } from "../support/held-connection.ts";
import type { Probe } from "../support/lab/outcome.ts";
import { PATIENCE } from "../support/patience.ts";
import type { RunningDaemon } from "../support/running-daemon.ts";
import { loadTown } from "../support/stub-api/town.ts";

// An upgrade of the DaemonSet replaces one daemon by another with the same kernel. A rollback does the
// reverse.

const BUILD_RELEASE = fileURLToPath(new URL("../../scripts/get-release.sh", import.meta.url));

const ECHO = { port: 7000, nodePort: 32700, targetPort: 7000 };
const LIFE = { "nft-proxy.io/on-endpoint-removed": "reset", "nft-proxy.io/drain-timeout": "1h" };
const STICKY = {
  sessionAffinity: "ClientIP",
  sessionAffinityConfig: { clientIP: { timeoutSeconds: 10_800 } },
};
const ENDPOINTS = ["10.244.1.11", "10.244.1.12", "10.244.2.11", "10.244.2.12", "10.244.3.11", "10.244.3.12"];
const CLIENTS = ["pod1", "pod2", "pod3", "pod4", "ext"] as const;

let lab: DaemonLab;
let oldBundle: string;
let held: readonly HeldConnection[];
let daemon: RunningDaemon | undefined;
beforeAll(async () => {
  oldBundle = execaSync(BUILD_RELEASE).stdout;
  lab = await DaemonLab.create();
  loadTown(lab.cluster);
  const echo = apiService("echo", { clusterIP: "10.96.7.7", ports: [ECHO] });
  lab.cluster.put("services", { ...echo, metadata: { ...echo.metadata, annotations: LIFE } });
  lab.cluster.put("endpointslices", apiSlice("echo", ["10.244.1.11"], [ECHO]));
  lab.cluster.put("services", apiService("six", { clusterIP: "fd00:10:96::8:8" }));
  lab.cluster.put("endpointslices", apiSlice("six", ["fd00:244:1::11"]));
  lab.cluster.put("services", apiService("sticky", { clusterIP: "10.96.8.8", spec: STICKY }));
  lab.cluster.put(
    "services",
    apiService("web", { clusterIP: "10.96.8.9", ports: [{ port: 80, nodePort: 32701 }] }),
  );
  lab.cluster.put("endpointslices", apiSlice("web", ENDPOINTS));
  lab.cluster.put("endpointslices", apiSlice("sticky", ENDPOINTS));
  const media = apiService("media", { clusterIP: "10.96.8.10", spec: { externalIPs: ["203.0.113.10"] } });
  const annotations = {
    "nft-proxy.io/port-ranges": "tcp-80=7777-8443",
    "nft-proxy.io/connection-timeouts": "tcp-established=2h",
    "nft-proxy.io/max-connections-per-client": "100",
  };
  lab.cluster.put("services", { ...media, metadata: { ...media.metadata, annotations } });
  lab.cluster.put("endpointslices", apiSlice("media", ENDPOINTS));
  const cutting = {
    clusterIP: "10.96.8.11",
    ports: [{ port: 8000 }],
    spec: { externalIPs: ["203.0.113.10"] },
  };
  lab.cluster.put("services", apiService("cutting", cutting));
  await serveEcho(lab.lab, "pod1", 7000);
  // The first run builds the earlier version.
}, 600_000);
afterAll(() => lab?.close());

/** Returns the endpoints that answered 3 connections of each client to the sticky Service. */
async function answers(): Promise<readonly string[]> {
  const probes = CLIENTS.map((from) => ({
    id: from,
    from,
    to: "10.96.8.8",
    port: 80,
    proto: "tcp" as const,
    n: 3,
  }));
  const tallies = await lab.lab.observe(probes);
  return CLIENTS.map((client) =>
    [...new Set(Object.keys(tallies.get(client) ?? {}).map((text) => text.split(" ")[0]))].join(),
  );
}

/** Replaces the daemon by one of another version, as a rolling update does. This version answers pings. */
async function replaceDaemon(program: string): Promise<void> {
  if (daemon !== undefined) expect(await daemon.stop()).toBe(0);
  daemon = lab.start(program === bundle ? ["--answer-ping"] : [], undefined, [program]);
  await daemon.saying("full sync");
}

/** Waits until new TCP connections to a ClusterIP and to a NodePort are answered. */
async function serves(): Promise<void> {
  const probe = (id: string, to: string, port: number) => ({
    id,
    from: "pod2" as const,
    to,
    port,
    proto: "tcp" as const,
  });
  await vi.waitFor(async () => {
    const outcomes = await lab.lab.probe([
      probe("cluster", "10.96.8.8", 80),
      probe("node", "192.0.2.2", 32701),
    ]);
    expect([...outcomes.values()].map(({ result }) => result)).toEqual(["ok", "ok"]);
  }, PATIENCE);
}

/** Whether a pod's pings to Services of both families are answered. */
async function arePingsAnswered(): Promise<readonly boolean[]> {
  const ping = { from: "pod2", port: 0, proto: "ping", wait: 1 } as const;
  const outcomes = await lab.lab.probe(
    ["10.96.8.8", "fd00:10:96::8:8"].map((to) => ({ ...ping, id: to, to })),
  );
  return [...outcomes.values()].map(({ result }) => result === "ok");
}

const TCP = { proto: "tcp", n: 20, wait: 5 } as const;
const PORTS: readonly Probe[] = [
  { ...TCP, id: "cluster IP", from: "pod3", to: "10.96.8.9", port: 80 },
  { ...TCP, id: "sticky", from: "pod4", to: "10.96.8.8", port: 80 },
  { ...TCP, id: "NodePort", from: "ext", to: "192.0.2.2", port: 32701 },
];
const RANGES: readonly Probe[] = [
  { ...TCP, id: "range at a cluster IP", from: "pod3", to: "10.96.8.10", port: 8081 },
  { ...TCP, id: "range at an external IP", from: "ext", to: "203.0.113.10", port: 8443 },
];

/**
 * Connects over TCP without a pause during `change`: to cluster IPs, one of them sticky, and to a NodePort.
 */
async function faultsDuring(change: () => Promise<void>, probes = PORTS): Promise<readonly string[]> {
  let answered = 0;
  const faultyRounds: string[] = [];
  let changing = true;
  const changed = change().finally(() => {
    changing = false;
  });
  // A failure is thrown below, after the end of the current round.
  changed.catch(() => {});
  do {
    const outcomes = [...(await lab.lab.probe(probes))];
    const faults = outcomes.filter(([, { result }]) => result !== "ok");
    answered += outcomes.length - faults.length;
    if (faults.length > 0) faultyRounds.push(faults.map(([id, { result }]) => `${id} ${result}`).join(", "));
  } while (changing);
  await changed;
  expect(answered).toBeGreaterThan(2 * probes.length);
  return faultyRounds;
}

test("connections, even to an endpoint that drains, survive an upgrade and a rollback, and clients are sticky after each", async () => {
  await replaceDaemon(oldBundle);
  await serves();
  held = await HeldConnection.openAll(lab.lab, [
    ["pod2", "10.96.7.7", 7000],
    ["ext", "192.0.2.2", 32700],
  ]);
  // The endpoint drains from now on.
  const slice = apiSlice("echo", ["10.244.1.11"], [ECHO]);
  const conditions = { ready: false, serving: true, terminating: true };
  const endpoints = [{ addresses: ["10.244.1.11"], conditions }, { addresses: ["10.244.1.12"] }];
  lab.cluster.put("endpointslices", { ...slice, endpoints });
  // The versions do not know each other's affinity entries, so clients are balanced again.
  for (const program of [bundle, oldBundle]) {
    await replaceDaemon(program);
    await serves();
    for (const connection of held) await connection.stillAnswered();
    const endpoints = await answers();
    for (const endpoint of endpoints) expect(ENDPOINTS).toContain(endpoint);
    expect(await answers()).toEqual(endpoints);
    // The earlier version knows no timeouts and answers no pings. It replaces the tables.
    const rules = await lab.nft("list", "ruleset");
    expect(rules.includes("ct timeout set")).toBe(program === bundle);
    for (const family of ["icmp", "icmpv6"])
      expect(rules.includes(`${family} type echo-request`)).toBe(program === bundle);
    expect(rules).not.toContain("set vanished");
  }
});

test("new connections never fail while this version replaces the earlier one, and rarely in the other direction; pings are answered after each upgrade", async () => {
  expect(await faultsDuring(() => replaceDaemon(bundle)), "upgrade").toEqual([]);
  expect(await arePingsAnswered()).toEqual([true, true]);
  // The earlier version replaces all chains in one step. The packets of one round may pass between the old
  // chains and the new ones.
  expect((await faultsDuring(() => replaceDaemon(oldBundle))).length, "rollback").toBeLessThan(2);
  expect(await arePingsAnswered()).toEqual([false, false]);
  for (const connection of held) await connection.stillAnswered();
});

test("port ranges are served while this version replaces one that split them at explicit ports, and in the other direction", async () => {
  const cutting = execaSync(BUILD_RELEASE, ["cut-ranges"]).stdout;
  await replaceDaemon(cutting);
  const serves = async () => {
    const outcomes = await lab.lab.probe(RANGES);
    expect([...outcomes.values()].map(({ result }) => result)).toEqual(["ok", "ok"]);
  };
  await vi.waitFor(serves, PATIENCE);
  expect(await faultsDuring(() => replaceDaemon(bundle), [...PORTS, ...RANGES]), "upgrade").toEqual([]);
  // As above, that version replaces chains and ranges in one step.
  const faults = await faultsDuring(() => replaceDaemon(cutting), [...PORTS, ...RANGES]);
  expect(faults.length, "rollback").toBeLessThan(2);
}, 120_000);

test("a daemon that finds rules of its own version changes nothing, and clients keep their endpoints", async () => {
  await replaceDaemon(bundle);
  await serves();
  const before = await answers();
  await replaceDaemon(bundle);
  expect(await daemon?.saying("full sync")).toMatchObject({ sent: 0, chains: 0, sets: 0, elements: 0 });
  expect(await answers()).toEqual(before);
});
