import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { KERNEL_TIMEOUTS } from "../../src/model/connection-timeouts.ts";
import { apiService, apiSlice } from "../support/api-objects.ts";
import { bundle } from "../support/command.ts";
import { DaemonLab } from "../support/daemon-lab.ts";
import { HeldConnection, serveEcho } from "../support/held-connection.ts";
import { PATIENCE } from "../support/patience.ts";
import type { RunningDaemon } from "../support/running-daemon.ts";
import { townList } from "../support/stub-api/town.ts";

/** The node's timeouts with the daemon's default options. */
const CONTEXT = {
  connectionTimeouts: { ...KERNEL_TIMEOUTS, "tcp-established": 86_400, "tcp-close-wait": 3600 },
} as const;
const CLUSTER_IP = "10.96.7.7";
const ECHO = { port: 7000, targetPort: 7000 };

let lab: DaemonLab;
let daemon: RunningDaemon;
beforeAll(async () => {
  lab = await DaemonLab.create();
  for (const resource of ["nodes", "servicecidrs"] as const)
    lab.cluster.load(resource, townList("town", resource));
  lab.cluster.put("endpointslices", apiSlice("echo", ["10.244.1.11"], [ECHO]));
  await serveEcho(lab.lab, "pod1", 7000);
  annotate("tcp-established=2h");
  daemon = lab.start();
});
afterAll(() => lab?.close());
beforeEach(() => lab.converged(CONTEXT));

/** Changes the timeouts of the Service. */
function annotate(timeouts: string | undefined): void {
  const { metadata, ...rest } = apiService("echo", { clusterIP: CLUSTER_IP, ports: [ECHO] });
  const annotations = timeouts === undefined ? {} : { "nft-proxy.io/connection-timeouts": timeouts };
  lab.cluster.put("services", { ...rest, metadata: { ...metadata, annotations } });
}

const TABLE = ["ip", "nft-proxy"] as const;

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

/** Whether so many seconds began a moment ago. */
const isLeftOf = async (client: string, seconds: number) => {
  const now = await left(client);
  return now <= seconds && now > seconds - 600;
};

test("a restart, kill -9 and a full resync keep the timeouts of connections and change no rule", async () => {
  const held = await HeldConnection.open(lab.lab, "pod2", CLUSTER_IP, 7000);
  const listing = () => lab.nft("-a", "-t", "list", "table", ...TABLE);
  const before = await listing();
  for (const flags of [[], ["--full-resync-period=1s"]]) {
    daemon.signal("SIGKILL");
    await daemon.ended;
    daemon = lab.start(flags);
    const synced = () => lab.metric("nft_proxy_full_resyncs_total", 'result="same"');
    await expect.poll(synced, PATIENCE).toBeGreaterThan(flags.length);
    expect(await listing()).toBe(before);
    await held.stillAnswered();
    expect(await isLeftOf("10.244.1.12", 7200)).toBe(true);
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
  expect(await isLeftOf("10.244.1.13", 10_800)).toBe(true);
  await held.end();
  annotate(undefined);
  // Both objects go with their chains, within a minute.
  await lab.converged(CONTEXT);
  expect(await lab.nft("list", "ruleset")).not.toContain("timeouts");
  annotate("tcp-established=2h");
});

test("a wrong annotation is told by an Event, and the option turns all of them off", async () => {
  const reasons = () => lab.api.events.map(({ reason }) => reason);
  annotate("tcp-established=2d");
  await expect.poll(reasons, PATIENCE).toContain("InvalidConnectionTimeouts");
  annotate("tcp-established=2h");
  await lab.converged(CONTEXT);
  await daemon.stop();
  daemon = lab.start(["--connection-timeouts=off"]);
  await expect.poll(() => lab.nft("list", "ruleset"), PATIENCE).not.toContain("timeouts");
  await expect.poll(reasons, PATIENCE).toContain("ConnectionTimeoutsNotSet");
  await daemon.stop();
  daemon = lab.start();
});

test("cleanup deletes the objects with the tables", async () => {
  await daemon.stop();
  await lab.lab.mustRun("node", [process.execPath, bundle, "cleanup"]);
  expect(await lab.nft("list", "ruleset")).not.toContain("timeouts");
  daemon = lab.start();
});
