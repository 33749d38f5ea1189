import { rm } from "node:fs/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { apiService, apiSlice } from "../support/api-objects.ts";
import { DaemonLab } from "../support/daemon-lab.ts";
import type { RunningDaemon } from "../support/running-daemon.ts";
import { townList } from "../support/stub-api/town.ts";

// `--reserve-nodeports` with the built daemon, an administrator's own entries, and more ports than the kernel
// accepts in one write.

const COUNT = 1500;
const OURS = Array.from({ length: COUNT }, (_, i) => 30_000 + 2 * i).filter((port) => port <= 32_766);
const PATH = "/proc/sys/net/ipv4/ip_local_reserved_ports";
const RECORD = "/run/nft-proxy/reserved-node-ports";

let lab: DaemonLab;
let daemon: RunningDaemon;
beforeAll(async () => {
  await rm(RECORD, { force: true });
  lab = await DaemonLab.create();
  for (const resource of ["nodes", "servicecidrs"] as const)
    lab.cluster.load(resource, townList("town", resource));
  for (const port of OURS) put(port);
  await lab.lab.exec(["sh", "-c", `echo 8080,30002 > ${PATH}`]);
  daemon = lab.start(["--reserve-nodeports", "--iptables-min-sync-period=10ms"]);
  await daemon.saying("reserved NodePorts");
});
afterAll(async () => {
  await lab?.close();
  await rm(RECORD, { force: true });
});

const named = (port: number) => `service-${port}`;
const addressOf = (port: number) => `10.96.${(port - 30_000) >> 8}.${port & 255}`;

function put(port: number): void {
  const ports = [{ port: 80, nodePort: port }];
  lab.cluster.put("services", apiService(named(port), { clusterIP: addressOf(port), ports }));
  if (port % 4 === 0) lab.cluster.put("endpointslices", apiSlice(named(port), ["10.244.1.11"], ports));
}

const reserved = async () => {
  const { stdout } = await lab.lab.exec(["cat", PATH]);
  return stdout.trim().split(",");
};

test("all NodePorts are reserved in addition to the administrator's ports", async () => {
  expect(await reserved()).toEqual(["8080", ...OURS.map(String)]);
});

test("the NodePort of a deleted Service is released, and an administrator's port stays reserved", async () => {
  for (const port of [30_000, 30_002]) {
    lab.cluster.remove("services", apiService(named(port), { clusterIP: addressOf(port) }));
  }
  await expect.poll(async () => (await reserved()).slice(0, 3)).toEqual(["8080", "30002", "30004"]);
});

test("cleanup releases the reserved NodePorts", async () => {
  await daemon.stop();
  expect((await reserved()).length).toBeGreaterThan(1000);
  const { stdout } = await lab.lab.exec([process.execPath, "dist/nft-proxy.js", "cleanup"]);
  expect(stdout).toContain("reserved NodePorts");
  expect(await reserved()).toEqual(["8080", "30002"]);
});
