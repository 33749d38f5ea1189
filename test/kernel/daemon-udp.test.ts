import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { apiService, apiSlice } from "../support/api-objects.ts";
import { DaemonLab } from "../support/daemon-lab.ts";
import { HeldFlow } from "../support/held-flow.ts";
import { nodeSecondAddress } from "../support/lab/topology.ts";
import { PATIENCE } from "../support/patience.ts";
import type { RunningDaemon } from "../support/running-daemon.ts";
import { townList } from "../support/stub-api/town.ts";

const DNS = { port: 53, protocol: "UDP", targetPort: 53, nodePort: 30_053 } as const;
const CLUSTER_IP = "10.96.7.53";
const [NEAR, FAR] = ["10.244.1.11", "10.244.2.12"] as const;

let lab: DaemonLab;
let daemon: RunningDaemon;
beforeAll(async () => {
  lab = await DaemonLab.create();
  for (const resource of ["nodes", "servicecidrs"] as const)
    lab.cluster.load(resource, townList("town", resource));
  lab.cluster.put("services", service());
  serve(NEAR);
  daemon = lab.start(["--iptables-sync-period=1s"]);
  await lab.converged();
});
afterAll(() => lab?.close());

function service() {
  return apiService("dns", { clusterIP: CLUSTER_IP, ports: [DNS] });
}

function serve(...addresses: readonly string[]): void {
  lab.cluster.put("endpointslices", apiSlice("dns", addresses, [DNS]));
}

/** Returns the ids of the tracked flows to an address. */
async function flows(address: string): Promise<string[]> {
  const { stdout } = await lab.lab.exec(["conntrack", "-L", "-p", "udp", "--orig-dst", address, "-o", "id"]);
  return [...stdout.matchAll(/ id=(\d+)/g)].map(([, id = ""]) => id);
}

/** Returns how often the daemon has looked for stale flows. */
function cleanings(): Promise<number> {
  return lab.metric("kubeproxy_conntrack_reconciler_sync_duration_seconds_count", 'ip_family="IPv4"');
}

describe("UDP flows", () => {
  test("move from a removed endpoint to another one, at ClusterIP and NodePort", async () => {
    const held = [
      new HeldFlow(lab.lab, "pod2", CLUSTER_IP, 53),
      new HeldFlow(lab.lab, "ext", "192.0.2.2", 30_053),
    ];
    for (const flow of held) await flow.answeredBy(NEAR);
    serve(FAR);
    for (const flow of held) await flow.answeredBy(FAR);
    // A flow moves before the daemon knows that all are deleted.
    const deleted = () =>
      lab.metric("kubeproxy_conntrack_reconciler_deleted_entries_total", 'ip_family="IPv4"');
    await expect.poll(deleted, PATIENCE).toBeGreaterThanOrEqual(2);
  });

  test("to a port range move from a removed endpoint to another one, and other flows of the range stay", async () => {
    const rtp = { port: 53, protocol: "UDP", targetPort: 53 } as const;
    const put = (...addresses: readonly string[]) =>
      lab.cluster.put("endpointslices", apiSlice("rtp", addresses, [rtp]));
    const { metadata, ...voice } = apiService("rtp", { clusterIP: "10.96.7.54", ports: [rtp] });
    const annotations = { "nft-proxy.io/port-ranges": "udp-53=5000-5999" };
    lab.cluster.put("services", { ...voice, metadata: { ...metadata, annotations } });
    put(NEAR);
    const flow = new HeldFlow(lab.lab, "pod2", "10.96.7.54", 5353);
    await flow.answeredBy(NEAR);
    const before = await flows("10.96.7.54");
    put(NEAR, FAR);
    await lab.converged();
    expect(await flows("10.96.7.54")).toEqual(expect.arrayContaining(before));
    put(FAR);
    await flow.answeredBy(FAR);
  });

  test("to a UDP server of the host stay, on a NodePort's port at an address without NodePorts", async () => {
    const answer = "require('dgram').createSocket('udp4').on('message', function (_, { port, address }) {";
    const server = `${answer} this.send('host', port, address) }).bind(30053, '${nodeSecondAddress}')`;
    lab.lab.start("node", [process.execPath, "-e", server]);
    const flow = new HeldFlow(lab.lab, "ext", nodeSecondAddress, 30_053);
    await flow.answeredBy("host");
    const before = await flows(nodeSecondAddress);
    const cleaned = await cleanings();
    serve(NEAR, FAR);
    await expect.poll(cleanings).toBeGreaterThan(cleaned);
    expect([before.length, await flows(nodeSecondAddress)]).toEqual([1, before]);
    serve(FAR);
    await lab.converged();
  });

  test("end when no endpoint is left, and continue with the next one", async () => {
    const flow = new HeldFlow(lab.lab, "pod3", CLUSTER_IP, 53);
    await flow.answeredBy(FAR);
    serve();
    await flow.answeredBy("nobody");
    serve(NEAR);
    await flow.answeredBy(NEAR);
  });

  test("stay with their endpoint when others are added, and during a restart", async () => {
    const flow = new HeldFlow(lab.lab, "pod4", CLUSTER_IP, 53);
    await flow.answeredBy(NEAR);
    const before = await flows(CLUSTER_IP);
    serve(NEAR, FAR);
    await lab.converged();
    await daemon.stop();
    daemon = lab.start(["--iptables-sync-period=1s"]);
    await daemon.saying("full sync");
    await expect.poll(cleanings).toBe(1);
    expect(await flows(CLUSTER_IP)).toEqual(expect.arrayContaining(before));
    expect(flow.answers).toEqual([NEAR]);
  });

  test("that passed untranslated while the rules were missing reach an endpoint after the repair", async () => {
    serve(NEAR);
    await lab.converged();
    // As on real nodes, another program's rules keep connection tracking on, and untranslated packets have a
    // route.
    await lab.nft(
      "add table ip cni { chain forward { type filter hook forward priority 0; ct state invalid drop; }; }",
    );
    for (const command of [
      "link add sink type dummy",
      "link set sink up",
      `route add ${CLUSTER_IP} dev sink`,
    ]) {
      await lab.lab.exec(["ip", ...command.split(" ")]);
    }
    daemon.signal("SIGSTOP");
    const before = await flows(CLUSTER_IP);
    await lab.nft("delete", "table", "ip", "nft-proxy");
    const flow = new HeldFlow(lab.lab, "pod6", CLUSTER_IP, 53);
    await flow.answeredBy("nobody");
    expect((await flows(CLUSTER_IP)).length).toBeGreaterThan(before.length);
    daemon.signal("SIGCONT");
    await flow.answeredBy(NEAR);
  });

  test("end with their Service", async () => {
    const flow = new HeldFlow(lab.lab, "pod5", CLUSTER_IP, 53);
    await expect.poll(() => flow.answers.length).toBe(1);
    lab.cluster.remove("services", service());
    await flow.answeredBy("nobody");
    // The kernel tracks the clients' further packets untranslated. No flow to an endpoint is left.
    const { stdout } = await lab.lab.exec(["conntrack", "-L", "-p", "udp", "--orig-dst", CLUSTER_IP]);
    expect(stdout).not.toMatch(/src=10\.244\.\d+\.\d+ dst=\S+ sport=53 /);
  });
});
