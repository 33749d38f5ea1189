import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { apiService, apiSlice } from "../support/api-objects.ts";
import { DaemonLab } from "../support/daemon-lab.ts";
import { HeldConnection, serveEcho } from "../support/held-connection.ts";
import type { RunningCommand } from "../support/lab/lab.ts";
import type { Tally } from "../support/lab/outcome.ts";
import { addressesOf, type PodName } from "../support/lab/topology.ts";
import { PATIENCE } from "../support/patience.ts";
import type { RunningDaemon } from "../support/running-daemon.ts";
import { townList } from "../support/stub-api/town.ts";

// Tests which endpoints passive health checks eject: of programs that accept late or never, endpoints that
// change while the daemon tries them, and Services that share endpoints. Each test has its own Service and
// port.

const ANNOTATION = "nft-proxy.io/passive-health-check";
const FAILURES = 3;
const SETTING = `failures=${FAILURES},interval=1s,eject=1s,max-ejected=50%`;
const PODS = ["pod1", "pod2", "pod3", "pod4"] as const;
const CLIENT = "pod5";

/** Time for an answer, seconds, where some endpoints do not answer. */
const SHORT_WAIT = 0.2;
/**
 * Time for an answer, seconds, where all endpoints answer: a slow machine answers, and a SYN that got lost is
 * not yet resent.
 */
const LONG_WAIT = 0.9;

const EJECTED = "ejected an endpoint that does not answer";

let lab: DaemonLab;
let daemon: RunningDaemon;
const start = () => lab.start(["--iptables-sync-period=1s", "--iptables-min-sync-period=10ms"]);
beforeAll(async () => {
  lab = await DaemonLab.create();
  for (const resource of ["nodes", "servicecidrs"] as const)
    lab.cluster.load(resource, townList("town", resource));
  daemon = start();
  await lab.watched();
});
afterEach(async () => {
  for (const resource of ["services", "endpointslices"] as const)
    for (const object of lab.cluster.objects(resource)) lab.cluster.remove(resource, object);
  await expect.poll(() => lab.metric("nft_proxy_watched_endpoints"), PATIENCE).toBe(0);
});
afterAll(() => lab?.close());

const addressOf = (pod: PodName) => addressesOf(pod).v4;

interface Offer {
  readonly ip: string;
  /** The port of its endpoints. */
  readonly targetPort: number;
  /** The value of the annotation. If absent, the Service is not watched. */
  readonly setting?: string;
  readonly pods?: readonly PodName[];
  /** The pods that are not ready. */
  readonly starting?: readonly PodName[];
}

/** Adds or changes a Service and its endpoints. */
function offer(name: string, { ip, targetPort, setting, pods = PODS, starting = [] }: Offer): void {
  const made = apiService(name, { clusterIP: ip });
  const annotations = setting === undefined ? {} : { [ANNOTATION]: setting };
  lab.cluster.put("services", { ...made, metadata: { ...made.metadata, annotations } });
  const slice = apiSlice(name, pods.map(addressOf), [{ port: 80, targetPort }]);
  const endpoints = (slice.endpoints as { addresses: string[]; conditions: object }[]).map((endpoint) =>
    starting.some((pod) => endpoint.addresses.includes(addressOf(pod)))
      ? { ...endpoint, conditions: { ready: false, serving: false, terminating: false } }
      : endpoint,
  );
  lab.cluster.put("endpointslices", { ...slice, endpoints });
}

/** Makes connections to a Service. A probe ends after its second connection without an answer in time. */
async function knock(ip: string, n?: number, wait = SHORT_WAIT): Promise<Tally> {
  const probe = { id: ip, from: CLIENT, to: ip, port: 80, proto: "tcp", wait } as const;
  const tallies = await lab.lab.observe([n === undefined ? probe : { ...probe, n }]);
  return tallies.get(ip) ?? {};
}

/**
 * Returns the number of new connections to an endpoint that the kernel has counted, or undefined while it is
 * not watched.
 */
async function attempts(pod: PodName, port: number): Promise<number | undefined> {
  const listing = await lab.nft("list", "set", "ip", "nft-proxy", "endpoint-attempts").catch(() => "");
  const count = new RegExp(`${addressOf(pod)} \\. ${port} counter packets (\\d+)`).exec(listing)?.[1];
  return count === undefined ? undefined : Number(count);
}

/** Waits until an endpoint is watched, so that its next connections count. */
async function watching(pod: PodName, port: number): Promise<void> {
  await vi.waitFor(async () => expect(await attempts(pod, port)).toBeDefined(), PATIENCE);
}

/** Returns the endpoints of a port that have been ejected so far. */
const ejectedAt = (port: number) =>
  daemon.said(EJECTED).flatMap(({ endpoint }) => (String(endpoint).endsWith(`:${port}`) ? [endpoint] : []));

const ejectedNow = () => lab.metric("nft_proxy_ejected_endpoints");

/** Connects until an endpoint has been ejected. */
async function ejecting(ip: string, pod: PodName, port: number): Promise<void> {
  await vi.waitFor(async () => {
    await knock(ip, 12);
    expect(ejectedAt(port)).toContain(`${addressOf(pod)}:${port}`);
  }, PATIENCE);
}

/** Starts a server that answers like the lab's servers. Resolves when it listens. */
async function serve(pod: PodName, port: number, backlog: number): Promise<RunningCommand> {
  const script = `const server = require("node:net").createServer((socket) => {
    socket.on("error", () => {});
    socket.end(socket.localAddress + " ${port} " + socket.remoteAddress + "\\n");
  });
  server.listen({ host: "0.0.0.0", port: ${port}, backlog: ${backlog} }, () => console.log("listens"));`;
  const server = lab.lab.start(pod, [process.execPath, "-e", script]);
  await new Promise<void>((resolve) => server.onLine(() => resolve()));
  return server;
}

/**
 * Makes a pod drop packets to a port, and count those that are not from the client, which are the daemon's
 * connects.
 */
async function silence(pod: PodName, port: number): Promise<void> {
  const rules = [`ip saddr != ${addressOf(CLIENT)} tcp dport ${port} counter drop`, `tcp dport ${port} drop`];
  const chain = `chain in { type filter hook input priority 0; ${rules.join("; ")}; }`;
  await lab.lab.mustRun(pod, ["nft", `table ip silent${port} { ${chain}; }`]);
}

/** Connects until the daemon has tried a silent pod. */
async function asking(ip: string, pod: PodName, port: number): Promise<void> {
  let isAsked = false;
  const connecting = (async () => {
    while (!isAsked) await knock(ip, 12);
  })();
  const counted = () => lab.lab.mustRun(pod, ["nft", "list", "table", "ip", `silent${port}`]);
  const often = { ...PATIENCE, interval: 20 };
  await vi.waitFor(async () => expect(await counted()).toMatch(/packets [1-9]/), often);
  isAsked = true;
  void connecting;
}

describe("the endpoint of a stopped program", () => {
  /** Offers a Service with new servers, gives pod2's server this backlog, and stops it. */
  async function stopped(ip: string, port: number, backlog: number): Promise<RunningCommand> {
    offer(`stopped-${port}`, { ip, targetPort: port, setting: SETTING });
    const servers = await Promise.all(PODS.map((pod) => serve(pod, port, pod === "pod2" ? backlog : 128)));
    await watching("pod2", port);
    const server = servers[1] as RunningCommand;
    server.kill("SIGSTOP");
    return server;
  }

  test("with room in its backlog is not ejected, because the kernel answers for it", async () => {
    const [ip, port] = ["10.96.14.1", 9001];
    await stopped(ip, port, 128);
    await vi.waitFor(async () => {
      expect(await knock(ip, 12)).toHaveProperty("timeout");
      expect(await attempts("pod2", port)).toBeGreaterThan(3 * FAILURES);
    }, PATIENCE);
    // A silent endpoint beside it shows when the daemon has judged both.
    await silence("pod3", port);
    await ejecting(ip, "pod3", port);
    expect(ejectedAt(port)).toEqual([`${addressOf("pod3")}:${port}`]);
  });

  test("with a full backlog is ejected, and returns when the program accepts again", async () => {
    const [ip, port] = ["10.96.14.2", 9002];
    const server = await stopped(ip, port, 1);
    await ejecting(ip, "pod2", port);
    await expect.poll(() => knock(ip, 40), PATIENCE).not.toHaveProperty("timeout");
    expect(ejectedAt(port)).toEqual([`${addressOf("pod2")}:${port}`]);
    const label = `endpoint="${addressOf("pod2")}:${port}"`;
    expect(await lab.metric("nft_proxy_endpoint_ejected", label)).toBe(1);
    server.kill("SIGCONT");
    await expect.poll(ejectedNow, PATIENCE).toBe(0);
    await expect
      .poll(async () => Object.keys(await knock(ip)), PATIENCE)
      .toContain(`${addressOf("pod2")} ${port} ${addressOf(CLIENT)}`);
  });
});

test.each<[string, string, number, Partial<Offer>]>([
  ["leaves the EndpointSlices", "10.96.14.3", 8081, { pods: ["pod1", "pod3", "pod4"] }],
  ["is unready for a moment", "10.96.14.4", 8443, { starting: ["pod2"] }],
])("an endpoint that %s while the daemon tries it gets connections when it is back", async (...row) => {
  const [, ip, port, without] = row;
  const all = { ip, targetPort: port, setting: SETTING };
  const other = { ip: "10.96.14.5", targetPort: port + 1000, setting: SETTING, pods: PODS.slice(0, 2) };
  await serve("pod1", other.targetPort, 128);
  await serve("pod2", other.targetPort, 128);
  offer(`asked-${port}`, all);
  offer(`other-${port}`, other);
  await watching("pod2", port);
  await silence("pod2", port);
  await asking(ip, "pod2", port);
  offer(`asked-${port}`, { ...all, ...without });
  await vi.waitFor(async () => expect(await attempts("pod2", port)).toBeUndefined(), PATIENCE);
  offer(`asked-${port}`, all);
  await watching("pod2", port);
  // The connect to the other Service's endpoint begins later, so it ends later.
  await silence("pod2", other.targetPort);
  await ejecting(other.ip, "pod2", other.targetPort);
  expect(await ejectedNow()).toBe(1);
});

test("a Service that may eject none keeps an endpoint that another Service ejected", async () => {
  const [ip, otherIP, port] = ["10.96.14.6", "10.96.14.7", 8080];
  offer("whole", { ip, targetPort: port, setting: `${SETTING.replace("50%", "1%")}` });
  offer("shorter", { ip: otherIP, targetPort: port, setting: SETTING });
  await watching("pod2", port);
  await silence("pod2", port);
  for (let round = 0; round < 4; round++) await knock(ip);
  expect(ejectedAt(port)).toEqual([]);
  await ejecting(otherIP, "pod2", port);
  await expect.poll(() => knock(otherIP, 40), PATIENCE).not.toHaveProperty("timeout");
  expect(await knock(ip)).toHaveProperty("timeout");
});

test("an ejected endpoint gets no connection after a restart of the daemon, and is tried at once", async () => {
  const [ip, port] = ["10.96.14.11", 9153];
  offer("restarted", { ip, targetPort: port, setting: SETTING.replace("eject=1s", "eject=5m") });
  await watching("pod2", port);
  await silence("pod2", port);
  await ejecting(ip, "pod2", port);
  await expect.poll(() => knock(ip, 40), PATIENCE).not.toHaveProperty("timeout");
  const before = await attempts("pod2", port);
  await daemon.stop();
  daemon = start();
  await daemon.saying("trying endpoints that an earlier process ejected");
  expect(await knock(ip, 40)).not.toHaveProperty("timeout");
  expect(await attempts("pod2", port)).toBe(before);
  expect(await ejectedNow()).toBe(1);
  await daemon.stop();
  await lab.lab.mustRun("pod2", ["nft", "delete", "table", "ip", `silent${port}`]);
  daemon = start();
  await daemon.saying("an ejected endpoint answers again");
  await expect.poll(async () => Object.keys(await knock(ip)), PATIENCE).toHaveLength(PODS.length);
});

test("adding and removing the first watched Service disturbs no connections and no unrelated rules", async () => {
  const [ip, heldIP, port] = ["10.96.14.8", "10.96.14.9", 9090];
  offer("steady", { ip, targetPort: 80 });
  offer("held", { ip: heldIP, targetPort: port });
  await Promise.all(PODS.map((pod) => serveEcho(lab.lab, pod, port)));
  offer("watched", { ip: "10.96.14.10", targetPort: 443 });
  await lab.converged();
  const held = await HeldConnection.open(lab.lab, CLIENT, heldIP, 80);
  const others = await otherRules();
  let isOver = false;
  const tallies: Tally[] = [];
  const connecting = (async () => {
    while (!isOver) tallies.push(await knock(ip, 50, LONG_WAIT));
  })();
  for (let round = 0; round < 20; round++) {
    offer("watched", { ip: "10.96.14.10", targetPort: 443, setting: SETTING });
    await watching("pod2", 443);
    expect(await otherRules()).toEqual(others);
    offer("watched", { ip: "10.96.14.10", targetPort: 443 });
    await vi.waitFor(async () => expect(await attempts("pod2", 443)).toBeUndefined(), PATIENCE);
  }
  isOver = true;
  await connecting;
  const failed = tallies.flatMap((tally) => Object.keys(tally)).filter((key) => key.split(" ").length !== 3);
  expect(failed).toEqual([]);
  await held.stillAnswered();
});

/**
 * Returns the rules that do not count for passive health checks, with their handles, which change when rules
 * are rewritten.
 */
async function otherRules(): Promise<readonly string[]> {
  const listing = JSON.parse(await lab.nft("-j", "-a", "list", "table", "ip", "nft-proxy"));
  const { nftables } = listing as { nftables: { rule?: { chain: string; handle: number } }[] };
  return nftables.flatMap(({ rule }) =>
    rule === undefined || /^(filter-(input|forward|output)|count-)/.test(rule.chain)
      ? []
      : [`${rule.chain} ${rule.handle}`],
  );
}
