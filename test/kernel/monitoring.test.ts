import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { apiService, apiSlice } from "../support/api-objects.ts";
import { bundle } from "../support/command.ts";
import { DaemonLab } from "../support/daemon-lab.ts";
import { readAlerts, readPanels } from "../support/monitoring.ts";
import { Prometheus } from "../support/prometheus.ts";
import type { RunningDaemon } from "../support/running-daemon.ts";
import { loadTown } from "../support/stub-api/town.ts";

/** The files of the container's control group that the daemon reads, as far as they are about memory. */
const GROUP = "/sys/fs/cgroup";
const GROUP_FILES = {
  "memory.current": "300000000\n",
  "memory.stat": "inactive_file 100000000\n",
  "memory.max": "1342177280\n",
  "memory.peak": "500000000\n",
};

let group: string;
let lab: DaemonLab;
let daemon: RunningDaemon;
let prometheus: Prometheus;
let changing: NodeJS.Timeout;
beforeAll(async () => {
  await enterContainer();
  lab = await DaemonLab.create();
  loadTown(lab.cluster);
  // The daemon counts limited clients first 5 s after its start, and then only once a minute.
  limitClients();
  const socket = `--daemon-socket=${await lab.file("placeholder", "")}.d/daemon.sock`;
  daemon = lab.start(["--service-counters=services", socket]);
  await daemon.saying("full sync");
  prometheus = await Prometheus.start(`${lab.nodeAddress}:10249`, { instance: "node-1", cluster: "town" });
  lab.cluster.put("services", apiService("echo", { clusterIP: "10.96.7.7" }));
  await refuse(socket);
  let changes = 0;
  changing = setInterval(() => changeEndpoint(`10.244.1.${10 + (changes++ % 2)}`), 500);
  const scraped = async () => expect(await prometheus.query("up == 1")).toHaveLength(1);
  await vi.waitFor(scraped, { timeout: 60_000, interval: 500 });
}, 600_000);
afterAll(async () => {
  clearInterval(changing);
  await prometheus?.stop();
  await lab?.close();
  rmSync(group, { recursive: true });
});

/** Adds a Service with client limits. */
function limitClients(): void {
  const limited = apiService("limited", { clusterIP: "10.96.7.9" });
  const annotations = { "nft-proxy.io/max-connections-per-client": "10" };
  lab.cluster.put("services", { ...limited, metadata: { ...limited.metadata, annotations } });
}

/** This test and its programs have their own mount namespace. */
async function enterContainer(): Promise<void> {
  group = mkdtempSync(join(tmpdir(), "control-group-"));
  for (const [name, text] of Object.entries(GROUP_FILES)) writeFileSync(join(group, name), text);
  await execa("mount", ["--bind", group, GROUP]);
}

/**
 * Makes a refused connection that is counted. The command makes the daemon read the kernel's records, and it
 * counts from the first reading on.
 */
async function refuse(socket: string): Promise<void> {
  lab.cluster.put("services", apiService("none", { clusterIP: "10.96.7.8" }));
  await lab.converged({ settings: { serviceCounters: "services" } });
  const look = () => lab.lab.exec([process.execPath, bundle, "refusals", socket]);
  await look();
  await lab.lab.probe([{ id: "only", from: "pod1", to: "10.96.7.8", port: 80, proto: "tcp", n: 1 }]);
  await look();
}

/** Changes endpoints, because the daemon measures the times of programming and of partial syncs only then. */
function changeEndpoint(address: string): void {
  const slice = apiSlice("echo", [address]);
  const annotations = { "endpoints.kubernetes.io/last-change-trigger-time": new Date().toISOString() };
  lab.cluster.put("endpointslices", { ...slice, metadata: { ...slice.metadata, annotations } });
}

/**
 * Returns the expression of an alert without its comparison with a threshold. It has data even if all is
 * well.
 */
function measured(expr: string): string {
  return expr.replace(/ or absent\(.*/s, "").replaceAll(/ (?:>|<|==) [\d.]+/g, "");
}

/** Replaces Grafana's variables in a panel's expression, so that it selects all clusters and nodes. */
function chosen(expr: string): string {
  return expr.replaceAll(/\$(?:cluster|instance)/g, ".*");
}

/** Alerts on a metric that has no series while all is well. alerts.test.ts makes them fire. */
const WITHOUT_DATA: readonly string[] = [
  "NftProxyEndpointsEjected",
  "NftProxyServiceConflict",
  "NftProxyServiceQuarantined",
];

describe("a real Prometheus that scrapes the daemon", () => {
  const measuredAlerts = readAlerts().filter(({ alert }) => !WITHOUT_DATA.includes(alert));
  test.each(measuredAlerts.map((alert) => [alert.alert, alert] as const))(
    "has data for the alert %s",
    async (_, { expr }) => {
      await expect.poll(async () => (await prometheus.query(measured(expr))).length).toBeGreaterThan(0);
    },
  );

  test.each(readAlerts().map((alert) => [alert.alert, alert] as const))(
    "does not fire the alert %s while all is well",
    async (_, { expr }) => {
      const samples = await prometheus.query(expr);
      expect(samples).toEqual([]);
    },
  );

  const queries = readPanels().flatMap(({ title, targets }) =>
    targets.map(({ expr }) => [title, expr] as const),
  );
  test.each(queries)('has data for the panel "%s" of %s', async (_, expr) => {
    await expect.poll(async () => (await prometheus.query(chosen(expr))).length).toBeGreaterThan(0);
  });

  test("fires the alert for a target that is down if there is no daemon", async () => {
    const { expr } = readAlerts().find(({ alert }) => alert === "NftProxyTargetDown") ?? { expr: "" };
    expect(await prometheus.query(expr)).toEqual([]);
    await daemon.stop();
    await expect.poll(async () => (await prometheus.query(expr)).length).toBeGreaterThan(0);
  });
});
