import { afterAll, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { apiService, apiSlice } from "../support/api-objects.ts";
import { bundle } from "../support/command.ts";
import { DaemonLab } from "../support/daemon-lab.ts";
import { HeldConnection, serveEcho } from "../support/held-connection.ts";
import { PATIENCE } from "../support/patience.ts";
import type { RunningDaemon } from "../support/running-daemon.ts";
import type { StubObject } from "../support/stub-api/selectors.ts";
import { townList } from "../support/stub-api/town.ts";

/** The node's timeouts with the daemon's default options. */
const CONTEXT = {
  settings: { "tcp-established": 86_400, "tcp-close-wait": 3600 },
} as const;
const CLUSTER_IP = "10.96.7.7";
const ECHO = { port: 7000, targetPort: 7000 };

let lab: DaemonLab;
let daemon: RunningDaemon;
/** Starts a daemon that deletes stale chains within a second instead of 30. */
const start = (...flags: readonly string[]) => lab.start(["--iptables-sync-period=1s", ...flags]);
beforeAll(async () => {
  lab = await DaemonLab.create();
  for (const resource of ["nodes", "servicecidrs"] as const)
    lab.cluster.load(resource, townList("town", resource));
  lab.cluster.put("endpointslices", apiSlice("echo", ["10.244.1.11"], [ECHO]));
  await serveEcho(lab.lab, "pod1", 7000);
  annotate("tcp-established=2h");
  lab.cluster.put("services", service("mistaken", "10.96.7.8", "tcp-established=2d"));
  daemon = start();
});
afterAll(() => lab?.close());
beforeEach(() => lab.converged(CONTEXT));

/** Changes the timeouts of the Service. */
function annotate(timeouts: string | undefined): void {
  lab.cluster.put("services", service("echo", CLUSTER_IP, timeouts));
}

function service(name: string, clusterIP: string, timeouts: string | undefined): StubObject {
  const { metadata, ...rest } = apiService(name, { clusterIP, ports: [ECHO] });
  const annotations = timeouts === undefined ? {} : { "nft-proxy.io/connection-timeouts": timeouts };
  return { ...rest, metadata: { ...metadata, annotations } };
}

const TABLE = ["ip", "nft-proxy"] as const;

/** In listings: the map, chains and objects of connection timeouts. */
const OF_TIMEOUTS = /(?<!affinity-)timeouts/;

/** Returns the name of the only object with timeouts. */
async function object(): Promise<string> {
  const [, name = ""] = /ct timeout (timeouts-\w+)/.exec(await lab.nft("list", "table", ...TABLE)) ?? [];
  return name;
}

/** Returns the seconds that conntrack has left for the client's connection. */
async function left(client: string): Promise<number> {
  const { stdout } = await lab.lab.exec([
    "conntrack",
    "-L",
    "-p",
    "tcp",
    "--orig-dst",
    CLUSTER_IP,
    "--orig-src",
    client,
  ]);
  return Number(/^tcp +6 (\d+) ESTABLISHED/m.exec(stdout)?.[1] ?? 0);
}

/**
 * Waits until so many seconds began a moment ago. While a packet is unacknowledged, five minutes are left.
 */
const hasLeft = (client: string, seconds: number) =>
  vi.waitFor(async () => {
    const now = await left(client);
    expect(now).toBeLessThanOrEqual(seconds);
    expect(now).toBeGreaterThan(seconds - 600);
  }, PATIENCE);

test("a restart, kill -9 and a full resync keep the connection timeouts and change no rule", async () => {
  const held = await HeldConnection.open(lab.lab, "pod2", CLUSTER_IP, 7000);
  const listing = () => lab.nft("-a", "-t", "list", "table", ...TABLE);
  const before = await listing();
  for (const flags of [[], ["--full-resync-period=1s"]]) {
    daemon.signal("SIGKILL");
    await daemon.ended;
    daemon = start(...flags);
    const synced = () => lab.metric("nft_proxy_full_resyncs_total", 'result="same"');
    await expect.poll(synced, PATIENCE).toBeGreaterThan(flags.length);
    expect(await listing()).toBe(before);
    await held.stillAnswered();
    await hasLeft("10.244.1.12", 7200);
  }
  await held.end();
});

test("the kernel refuses to delete an object that a chain uses", async () => {
  await expect(lab.nft("delete", "ct", "timeout", ...TABLE, await object())).rejects.toThrow(/busy/);
});

test.each<readonly [what: string, interfere: (name: string) => string]>([
  [
    "a foreign object",
    () => "add ct timeout ip nft-proxy foreign { protocol udp; l3proto ip; policy = { replied : 9 }; }",
  ],
  ["an emptied chain", (name) => `flush chain ip nft-proxy ${name}`],
  ["a deleted object", (name) => `flush chain ip nft-proxy ${name}\ndelete ct timeout ip nft-proxy ${name}`],
  [
    "an object with other timeouts",
    (name) =>
      `flush chain ip nft-proxy ${name}
       delete ct timeout ip nft-proxy ${name}
       add ct timeout ip nft-proxy ${name} { protocol tcp; l3proto ip; policy = { established : 5 }; }
       add rule ip nft-proxy ${name} ct timeout set "${name}"`,
  ],
  ["an emptied map", () => "flush map ip nft-proxy connection-timeouts"],
  [
    "a deleted map",
    () =>
      `flush chain ip nft-proxy balancing
       delete map ip nft-proxy connection-timeouts`,
  ],
])("%s is noticed and repaired", async (_, interfere) => {
  const said = daemon.said("another program changed the rules, repaired").length;
  await lab.nft("-f", await lab.file("interfere.nft", interfere(await object())));
  await daemon.saying("another program changed the rules, repaired", said + 1);
  await lab.converged(CONTEXT);
});

test("a changed and a removed annotation take effect, and leave no object", async () => {
  const map = () => lab.nft("list", "map", ...TABLE, "connection-timeouts");
  const before = await map();
  annotate("tcp-established=3h,tcp-close-wait=10s");
  await expect.poll(map, PATIENCE).not.toBe(before);
  const held = await HeldConnection.open(lab.lab, "pod3", CLUSTER_IP, 7000);
  await hasLeft("10.244.1.13", 10_800);
  await held.end();
  annotate(undefined);
  // Both objects go with their chains.
  await lab.converged(CONTEXT);
  expect(await lab.nft("list", "ruleset")).not.toMatch(OF_TIMEOUTS);
  annotate("tcp-established=2h");
});

test("an invalid annotation is reported by an Event, and without the feature there is none but an Event", async () => {
  // Daemons spread such Events over 15 s. This one has had most of them.
  const reasons = () => lab.api.events.map(({ reason }) => reason);
  await expect.poll(reasons, PATIENCE).toContain("InvalidConnectionTimeouts");
  await daemon.stop();
  daemon = start("--features=none");
  await expect.poll(() => lab.nft("list", "ruleset"), PATIENCE).not.toMatch(OF_TIMEOUTS);
  await expect.poll(reasons, PATIENCE).toContain("FeatureNotEnabled");
  await daemon.stop();
  daemon = start();
});

test("cleanup deletes the objects with the tables", async () => {
  await daemon.stop();
  await lab.lab.mustRun("node", [process.execPath, bundle, "cleanup"]);
  expect(await lab.nft("list", "ruleset")).not.toMatch(OF_TIMEOUTS);
  daemon = start();
});
