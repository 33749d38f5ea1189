import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { apiService, apiSlice } from "../support/api-objects.ts";
import { bundle } from "../support/command.ts";
import { DaemonLab } from "../support/daemon-lab.ts";
import type { Probe, Tally } from "../support/lab/outcome.ts";
import type { PodName } from "../support/lab/topology.ts";
import type { RunningDaemon } from "../support/running-daemon.ts";
import { townList } from "../support/stub-api/town.ts";

// Passive health checks with the built daemon, pods that refuse or drop connections, and clients that keep
// connecting.

// Stale chains go within a second instead of 30.
const FLAGS = ["--iptables-sync-period=1s", "--iptables-min-sync-period=10ms"];
const PATIENCE = { timeout: 60_000, interval: 100 };
const PODS = [11, 12, 13, 14].map((suffix) => `10.244.1.${suffix}`);
const PODS6 = [11, 12, 13, 14].map((suffix) => `fd00:244:1::${suffix}`);
const NODE = "192.0.2.2";
const NODE_PORT = 32_713;
const LOCAL_PORT = 32_714;
const SETTING = "failures=3,interval=1s,eject=1s,max-ejected=50%";
const ANNOTATION = "nft-proxy.io/passive-health-check";

/** One Service of each kind, with its clients. */
const SERVICES: Readonly<Record<string, ServiceKind>> = {
  plain: { ip: "10.96.13.1", clients: ["pod5", "node"] },
  six: { ip: "fd00:10:96::131", clients: ["pod5", "node"] },
  outside: { ip: "10.96.13.3", nodePort: NODE_PORT, clients: ["ext"] },
  local: {
    ip: "10.96.13.4",
    nodePort: LOCAL_PORT,
    spec: { externalTrafficPolicy: "Local" },
    clients: ["ext"],
  },
  hairpin: { ip: "10.96.13.5", clients: ["pod1"] },
  affinity: { ip: "10.96.13.6", spec: { sessionAffinity: "ClientIP" }, clients: ["pod5", "pod6", "node"] },
  ...Object.fromEntries(
    ["round-robin", "source-hash", "flow-hash"].map((scheduler, index): [string, ServiceKind] => [
      scheduler,
      {
        ip: `10.96.13.${7 + index}`,
        annotations: { "nft-proxy.io/scheduler": scheduler },
        clients: ["pod5", "node"],
      },
    ]),
  ),
  weights: { ip: "10.96.13.10", weight: 3, clients: ["pod5"] },
};

interface ServiceKind {
  readonly ip: string;
  readonly nodePort?: number;
  readonly spec?: Record<string, unknown>;
  readonly annotations?: Readonly<Record<string, string>>;
  /** The pods of the first two endpoints. */
  readonly weight?: number;
  readonly clients: readonly Probe["from"][];
}

let lab: DaemonLab;
let daemon: RunningDaemon;
let socket: string;
const start = () => lab.start([...FLAGS, `--daemon-socket=${socket}`]);
beforeAll(async () => {
  lab = await DaemonLab.create();
  for (const resource of ["nodes", "servicecidrs"] as const)
    lab.cluster.load(resource, townList("town", resource));
  for (const [name, kind] of Object.entries(SERVICES)) offer(name, kind);
  socket = await lab.file("daemon.sock", "").then((path) => `${path}.d/daemon.sock`);
  daemon = start();
  await lab.converged();
});
afterAll(() => lab?.close());

function offer(name: string, { ip, nodePort, spec = {}, annotations = {}, weight }: ServiceKind): void {
  const ports = [nodePort === undefined ? { port: 80 } : { port: 80, nodePort }];
  const made = apiService(name, { clusterIP: ip, ports, spec });
  const all = { [ANNOTATION]: SETTING, ...annotations };
  lab.cluster.put("services", { ...made, metadata: { ...made.metadata, annotations: all } });
  putSlice(name, ip.includes(":") ? PODS6 : PODS, weight);
}

function putSlice(name: string, pods: readonly string[], weight?: number): void {
  if (weight === undefined) {
    lab.cluster.put("endpointslices", apiSlice(name, pods));
    return;
  }
  for (const [part, addresses] of [pods.slice(0, 2), pods.slice(2)].entries()) {
    const made = apiSlice(name, addresses);
    const annotations = {
      ...made.metadata.annotations,
      "nft-proxy.io/weight": String(part === 0 ? weight : 1),
    };
    lab.cluster.put("endpointslices", {
      ...made,
      metadata: { ...made.metadata, name: `${name}-${part}`, annotations },
    });
  }
}

/** Gives a pod rules for incoming packets. */
async function filter(pod: PodName, ...rules: readonly string[]): Promise<void> {
  const chain = `chain in { type filter hook input priority 0; ${rules.join("; ")}; }`;
  await lab.lab.mustRun(pod, ["nft", `table inet broken { ${chain}; }`]);
}

/** Makes a pod refuse or drop new connections to its port, in both families. */
const fail = (pod: PodName, verdict: string) => filter(pod, `tcp dport 8080 ${verdict}`);

async function heal(...pods: readonly PodName[]): Promise<void> {
  for (const pod of pods) await lab.lab.mustRun(pod, ["nft", "delete", "table", "inet", "broken"]);
}

/**
 * Returns the answers to some connections to each Service, by Service and client, if any connection failed.
 */
async function failures(n: number, names = Object.keys(SERVICES)): Promise<Readonly<Record<string, Tally>>> {
  const probes = names.flatMap((name) => {
    const { ip, nodePort, clients } = SERVICES[name] as ServiceKind;
    const [to, port] = nodePort === undefined ? [ip, 80] : [NODE, nodePort];
    return clients.map((from): Probe => ({ id: `${name} ${from}`, from, to, port, proto: "tcp", n }));
  });
  const failed: Record<string, Tally> = {};
  for (const [id, tally] of await lab.lab.observe(probes)) {
    const ok = Object.entries(tally).filter(([answer]) => answer.split(" ").length === 3);
    if (ok.reduce((sum, [, times]) => sum + times, 0) < n) failed[id] = tally;
  }
  return failed;
}

async function command(...args: readonly string[]) {
  return await lab.lab.exec([process.execPath, bundle, ...args, `--daemon-socket=${socket}`]);
}

const ejected = () => lab.metric("nft_proxy_ejected_endpoints");

test("clients of every kind of Service no longer reach endpoints that refuse or are silent", async () => {
  await fail("pod2", "reject with tcp reset");
  await fail("pod3", "drop");
  expect(Object.keys(await failures(12))).not.toEqual([]);
  await expect.poll(() => failures(12), PATIENCE).toEqual({});
  // Both families: 2 addresses for each of the 2 pods.
  expect(await ejected()).toBe(4);
  expect(await failures(40)).toEqual({});
});

describe("an ejected endpoint", () => {
  test("is named by explain and doctor and contained in dump, and diff finds no difference", async () => {
    const { stdout } = await command("explain", "shop/plain:80");
    expect(stdout).toMatch(/10\.244\.1\.12.*ejected \d+ s ago:\s+refused \d+ of \d+\s+new connections/s);
    expect(stdout).toMatch(/10\.244\.1\.13.*ejected \d+ s ago:\s+answered none of \d+/s);
    expect((await command("doctor")).stdout).toMatch(
      /ejected-endpoints: .*10\.244\.1\.12:8080 \(shop\/affinity/,
    );
    expect((await command("dump")).stdout).toContain('["10.244.1.12",8080]');
    expect(await command("diff")).toMatchObject({ exitCode: 0 });
  });

  test("is reported on the status page, in an Event, in the log and in the metrics", async () => {
    expect((await lab.get(10249, "/")).body).toMatch(/Ejected endpoints/);
    const event = lab.api.events.find(({ reason }) => reason === "EndpointEjected");
    expect(event).toMatchObject({ note: expect.stringContaining("does not answer"), type: "Warning" });
    await daemon.saying("ejected an endpoint that does not answer", 4);
    expect(daemon.said("ejected an endpoint that does not answer")).toHaveLength(4);
    expect(await lab.metric("nft_proxy_endpoint_ejections_total")).toBe(4);
    const results = ["tried", "answered", "refused"].map((result) =>
      lab.metric("nft_proxy_watched_connections_total", `service="plain",result="${result}"`),
    );
    const [tried = 0, answered = 0, refused = 0] = await Promise.all(results);
    expect(tried).toBeGreaterThan(answered);
    expect(refused).toBeGreaterThan(0);
  });

  test("gets connections at once when it returns to the EndpointSlices", async () => {
    const others = Object.keys(SERVICES).filter((name) => name !== "six");
    for (const name of others)
      putSlice(
        name,
        PODS.filter((address) => address !== PODS[1]),
        SERVICES[name]?.weight,
      );
    await expect.poll(ejected, PATIENCE).toBe(3);
    for (const name of others) putSlice(name, PODS, SERVICES[name]?.weight);
    // The endpoint is ejected again once clients have met it. Before, no connection fails either.
    await expect.poll(async () => [await failures(12), await ejected()], PATIENCE).toEqual([{}, 4]);
  });

  test("stays ejected over a restart of the daemon", async () => {
    await daemon.stop();
    daemon = start();
    await daemon.saying("full sync");
    await expect.poll(async () => [await failures(12), await ejected()], PATIENCE).toEqual([{}, 4]);
  });

  test("returns when it answers, and the rules follow from the objects alone", async () => {
    await heal("pod2", "pod3");
    await expect.poll(ejected, PATIENCE).toBe(0);
    await daemon.saying("an ejected endpoint answers again", 4);
    expect(daemon.said("an ejected endpoint answers again")).toHaveLength(4);
    await lab.converged();
    expect(await failures(12)).toEqual({});
  });
});

test("a client that waits for a silent endpoint reaches another one when it retransmits its SYN", async () => {
  await fail("pod3", "drop");
  const { ip, clients } = SERVICES["round-robin"] as ServiceKind;
  // All at once, so that enough of them wait: a SYN is sent again 1, 3, 7, 15, 31 and 63 s after the first.
  const probes = [1, 2, 3, 4].flatMap((nth) =>
    clients.map(
      (from): Probe => ({ id: `${from} ${nth}`, from, to: ip, port: 80, proto: "tcp", n: 8, wait: 65 }),
    ),
  );
  const waiting = lab.lab.observe(probes);
  await expect.poll(() => failures(12, ["round-robin"]), PATIENCE).toEqual({});
  for (const [, tally] of await waiting) expect(tally).not.toHaveProperty("timeout");
  await daemon.saying("released connections that wait for ejected endpoints");
  await heal("pod3");
  await expect.poll(ejected, PATIENCE).toBe(0);
});

test("an endpoint that a policy hides from one client is not ejected, because it answers the node", async () => {
  const others = "tcp dport 8080 tcp flags == syn counter";
  await filter("pod2", "ip saddr 10.244.1.15 tcp dport 8080 drop", others);
  const { ip } = SERVICES["round-robin"] as ServiceKind;
  // With round-robin, every fourth connection goes to this endpoint.
  const hidden = { id: ip, from: "pod5", to: ip, port: 80, proto: "tcp", n: 24, wait: 0.3 } as const;
  const asked = async () => {
    expect(await lab.lab.observe([hidden])).toMatchObject(new Map([[ip, { timeout: expect.any(Number) }]]));
    const listing = await lab.lab.mustRun("pod2", ["nft", "list", "table", "inet", "broken"]);
    return Number(/packets (\d+)/.exec(listing)?.[1]);
  };
  // The daemon asks again only after it has judged the first answer.
  await expect.poll(asked, PATIENCE).toBeGreaterThan(1);
  expect(await ejected()).toBe(0);
  await heal("pod2");
});

test("a Service that loses its annotation leaves no set, chain or rule behind", async () => {
  for (const [name, kind] of Object.entries(SERVICES))
    offer(name, { ...kind, annotations: { ...kind.annotations, [ANNOTATION]: "off" } });
  await lab.converged();
  expect(await lab.nft("list", "table", "ip", "nft-proxy")).not.toMatch(/endpoint-attempts|count-/);
});
