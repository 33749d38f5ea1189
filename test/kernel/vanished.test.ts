import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { apiService, apiSlice } from "../support/api-objects.ts";
import { bundle } from "../support/command.ts";
import { DaemonLab } from "../support/daemon-lab.ts";
import { HeldConnection, type HeldEnds, serveEcho } from "../support/held-connection.ts";
import type { NamespaceName } from "../support/lab/topology.ts";
import { PATIENCE } from "../support/patience.ts";
import type { RunningDaemon } from "../support/running-daemon.ts";
import type { StubObject } from "../support/stub-api/selectors.ts";
import { townList } from "../support/stub-api/town.ts";

// The built daemon with `--reset-vanished`, and connections in use whose endpoints leave. As with some CNI
// plugins, the node has a blackhole route for its pod range, so a packet to a deleted pod never reaches the
// forward hook.

const ECHO = { port: 7000, targetPort: 7000 };
const FLAGS = [
  "--reset-vanished",
  "--nodeport-addresses=primary,localhost",
  "--iptables-min-sync-period=10ms",
];
const POD1 = "10.244.1.11";
const POD2 = "10.244.1.12";
const POD3 = "10.244.1.13";
const FAR = "10.244.2.11";

let lab: DaemonLab;
let daemon: RunningDaemon;
beforeAll(async () => {
  lab = await DaemonLab.create();
  for (const resource of ["nodes", "servicecidrs"] as const)
    lab.cluster.load(resource, townList("town", resource));
  await lab.lab.exec(["ip", "route", "add", "blackhole", "10.244.1.0/24"]);
  await lab.lab.exec(["ip", "-6", "route", "add", "blackhole", "fd00:244:1::/64"]);
  for (const client of ["pod4", "node", "ext"] as const) await askAgainSoon(client);
  await Promise.all(
    (["pod1", "pod2", "pod3", "node2"] as const).map((machine) => serveEcho(lab.lab, machine, 7000)),
  );
  offer("gone", "10.96.8.1", [POD1]);
  offer("gone-six", "fd00:10:96::81", ["fd00:244:1::11"]);
  offer("far", "10.96.8.2", [FAR]);
  offer("draining", "10.96.8.3", [POD2]);
  offer("one", "10.96.8.4", [POD3]);
  offer("other", "10.96.8.5", [POD3]);
  offer("local", "10.96.8.6", [POD1], 32_706, { externalTrafficPolicy: "Local" });
  offer("masqueraded", "10.96.8.7", [POD1], 32_707);
  daemon = lab.start(FLAGS);
  await lab.converged({ resetVanished: true, loopbackNodePorts: true });
});
afterAll(() => lab?.close());

function offer(
  name: string,
  clusterIP: string,
  endpoints: readonly string[],
  nodePort?: number,
  spec: Record<string, unknown> = {},
): void {
  const ports = [nodePort === undefined ? ECHO : { ...ECHO, nodePort }];
  lab.cluster.put("services", apiService(name, { clusterIP, ports, spec }));
  serve(name, endpoints);
}

function serve(name: string, endpoints: readonly string[]): void {
  lab.cluster.put("endpointslices", apiSlice(name, endpoints, [ECHO]));
}

/** Returns an EndpointSlice whose endpoints are terminating and do not serve. */
function terminating(name: string, endpoints: readonly string[]): StubObject {
  const slice = apiSlice(name, endpoints, [ECHO]);
  const conditions = { ready: false, serving: false, terminating: true };
  return { ...slice, endpoints: endpoints.map((address) => ({ addresses: [address], conditions })) };
}

/**
 * Makes a machine retransmit unanswered bytes at least every second, without growing pauses. Kernels before
 * 6.15 cannot.
 */
async function askAgainSoon(machine: NamespaceName): Promise<void> {
  await lab.lab.run(machine, ["sysctl", "-w", "net.ipv4.tcp_rto_max_ms=1000"]);
}

const hold = (machine: NamespaceName, address: string) =>
  HeldConnection.open(lab.lab, machine, address, 7000);

const inKernel = async (family = "ip") =>
  [...(await lab.nft("list", "set", family, "nft-proxy", "vanished")).matchAll(/[\d.a-f:]+ \. 7000/g)]
    .map(String)
    .sort();

describe("clients of endpoints that left every EndpointSlice", () => {
  test("are reset over IPv4 and IPv6, on pods, the node and outside; clients of terminating endpoints and direct clients are not", async () => {
    const toReset: readonly HeldEnds[] = [
      ["pod4", "10.96.8.1", 7000],
      ["pod4", "fd00:10:96::81", 7000],
      ["pod4", "10.96.8.2", 7000],
      ["node", "10.96.8.1", 7000],
      ["node", "fd00:10:96::81", 7000],
      ["node", "10.96.8.2", 7000],
      ["ext", "192.0.2.2", 32_706],
      ["ext", "192.0.2.2", 32_707],
      ["node", "127.0.0.1", 32_706],
    ];
    const toKeep: readonly HeldEnds[] = [
      ["pod4", FAR, 7000],
      ["pod4", "10.96.8.3", 7000],
      ["pod4", "10.96.8.4", 7000],
    ];
    const held = await HeldConnection.openAll(lab.lab, [...toReset, ...toKeep]);
    const [reset, kept] = [held.slice(0, toReset.length), held.slice(toReset.length)];
    lab.cluster.put("endpointslices", terminating("draining", [POD2]));
    const traced: string[] = [];
    const trace = ["trace", "--to", "10.96.8.1", "--port", "7000", "--rate", "20"];
    const tracing = lab.lab.start("node", [process.execPath, bundle, ...trace]);
    // Its first line says that it traces.
    await new Promise<void>((resolve) => {
      tracing.onLine((line) => resolve(void traced.push(line)));
    });
    await lab.lab.exec(["ip", "link", "del", "pod1"]);
    for (const name of ["gone", "gone-six", "local", "far", "one"]) serve(name, []);
    serve("masqueraded", [POD2]);
    await expect
      .poll(() => reset.map(({ brokenBy }) => brokenBy), PATIENCE)
      .toEqual(reset.map(() => "ECONNRESET"));
    await Promise.all(kept.map((one) => one.stillAnswered()));
    const story = `  reset: the endpoint ${POD1}:7000 left Service shop/gone port tcp-7000 (7000/tcp), or terminated for too long`;
    await expect.poll(() => traced, PATIENCE).toContain(story);
    tracing.kill("SIGINT");
    const explained = await lab.lab.exec([process.execPath, bundle, "explain", "--live", "10.96.8.1:7000"]);
    expect(explained.stdout).toContain(`reset: the endpoint ${POD1}:7000 left shop/gone port`);
    const alone = ["explain", "--live", "--daemon-socket=", "10.96.8.1:7000"];
    const unexplained = await lab.lab.exec([process.execPath, bundle, ...alone]);
    expect(unexplained.stdout.replaceAll(/\s+/g, " ")).toContain(
      `are reset: ${POD1}:7000 and ${FAR}:7000; only the daemon knows`,
    );
    expect(await inKernel()).toEqual([`${POD1} . 7000`, `${FAR} . 7000`]);
    expect(await inKernel("ip6")).toEqual(["fd00:244:1::11 . 7000"]);
    expect(await lab.metric("nft_proxy_map_elements", 'map="vanished"')).toBe(3);
    expect(await lab.metric("nft_proxy_reset_packets_total", "IPv4")).toBeGreaterThan(3);
    expect((await lab.get(10249, "/")).body).toContain(`${POD1}:7000 left shop/`);
  });

  test("are reset after a restart if the endpoint left every Service before or during it, and is not back", async () => {
    const held = await hold("pod4", "10.96.8.5");
    await daemon.stop();
    serve("other", []);
    serve("far", [FAR]);
    daemon = lab.start(FLAGS);
    await daemon.saying("full sync");
    expect(await inKernel()).toEqual([`${POD1} . 7000`]);
    await expect.poll(() => held.brokenBy, PATIENCE).toBe("ECONNRESET");
    await hold("pod4", "10.96.8.2");
  });

  test("are not reset when the endpoint is back", async () => {
    serve("other", [POD3]);
    await expect.poll(() => inKernel()).toEqual([`${POD1} . 7000`]);
    await hold("pod4", "10.96.8.5");
  });

  test("are not reset by a daemon without the option, which also removes the set and the chain", async () => {
    await daemon.stop();
    daemon = lab.start();
    await lab.converged();
    expect(await lab.nft("-t", "list", "table", "ip", "nft-proxy")).not.toContain("vanished");
  });
});
