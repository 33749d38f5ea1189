import { writeFile } from "node:fs/promises";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import type { PortRangeAddresses } from "../../src/features/port-ranges/rules.ts";
import { apiService, apiSlice } from "../support/api-objects.ts";
import { DaemonLab } from "../support/daemon-lab.ts";
import type { RunningDaemon } from "../support/running-daemon.ts";
import { townList } from "../support/stub-api/town.ts";

let lab: DaemonLab;
let daemon: RunningDaemon;
beforeAll(async () => {
  lab = await DaemonLab.create();
});
afterAll(() => lab?.close());
beforeEach(async () => {
  await lab.startApi();
  for (const resource of ["nodes", "servicecidrs"] as const)
    lab.cluster.load(resource, townList("town", resource));
});
afterEach(async () => {
  await daemon?.stop();
});

/** A tenant's Service with all TCP ports of some addresses. */
function putTenant(externalIPs: readonly string[]): void {
  const { metadata, ...service } = apiService("tenant", { clusterIP: "10.96.7.1", spec: { externalIPs } });
  const annotations = { "nft-proxy.io/port-ranges": "tcp-80=1-65535" };
  lab.cluster.put("services", { ...service, metadata: { ...metadata, annotations } });
  lab.cluster.put("endpointslices", apiSlice("tenant", ["10.244.2.11"]));
}

test("a range of all ports at the API server's address never disconnects the daemon, whatever the mode", async () => {
  const { hostname, port } = new URL(lab.master);
  const apiServers = [`${hostname} . tcp . ${port}`];
  putTenant([hostname]);
  for (const portRanges of ["virtual", "all"] as const) {
    daemon = lab.start([`--port-ranges=${portRanges}`]);
    await lab.converged({ settings: { portRanges }, apiServers });
    // The daemon's connections end, so it must make new ones through the rules.
    await lab.startApi(lab.cluster);
    lab.cluster.put("services", apiService(portRanges, { clusterIP: "10.96.7.2" }));
    await lab.converged({ settings: { portRanges }, apiServers });
    await daemon.stop();
  }
});

test("ranges at the node's own address, and ranges that are off, are reported by Events when the configuration changes", async () => {
  const configuration = (portRanges: PortRangeAddresses) => `
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clusterCIDR: 10.244.0.0/16,fd00:244::/32
nftProxy: { portRanges: ${portRanges} }
`;
  const file = await lab.file("port-ranges.yaml", configuration("virtual"));
  const { hostname, port } = new URL(lab.master);
  const apiServers = [`${hostname} . tcp . ${port}`];
  putTenant(["192.0.2.2", "203.0.113.70"]);
  daemon = lab.start([`--config=${file}`]);
  const notes = () =>
    lab.api.events.flatMap(({ reason, note }) => (reason === "PortRangesNotServed" ? [note] : []));
  await lab.converged({ settings: { portRanges: "virtual" }, apiServers });
  const local =
    "node node-1, and possibly others, does not serve nft-proxy.io/port-ranges at its own address 192.0.2.2: see --port-ranges";
  await expect.poll(notes, { timeout: 20_000 }).toEqual([local]);
  await writeFile(file, configuration("all"));
  await lab.converged({ settings: { portRanges: "all" }, apiServers });
  expect(notes()).toEqual([local]);
});
