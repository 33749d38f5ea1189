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

/** Where the daemon sees the control group of its container, as far as the kernel tells of its memory. */
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

/** This test and its programs have a mount namespace of their own. */
async function enterContainer(): Promise<void> {
  group = mkdtempSync(join(tmpdir(), "control-group-"));
  for (const [name, text] of Object.entries(GROUP_FILES)) writeFileSync(join(group, name), text);
  await execa("mount", ["--bind", group, GROUP]);
}

/** A refused connection that is counted: the command makes the daemon look, which counts from its first look on. */
async function refuse(socket: string): Promise<void> {
  lab.cluster.put("services", apiService("none", { clusterIP: "10.96.7.8" }));
  await lab.converged({ counters: "services" });
  const look = () => lab.lab.exec([process.execPath, bundle, "refusals", socket]);
  await look();
  await lab.lab.probe([{ id: "only", from: "pod1", to: "10.96.7.8", port: 80, proto: "tcp", n: 1 }]);
  await look();
}

/** Times of programming and of partial syncs are measured only when endpoints change. */
function changeEndpoint(address: string): void {
  const slice = apiSlice("echo", [address]);
  const annotations = { "endpoints.kubernetes.io/last-change-trigger-time": new Date().toISOString() };
  lab.cluster.put("endpointslices", { ...slice, metadata: { ...slice.metadata, annotations } });
}

/** The expression of an alert without its comparison with a threshold: that has data when all is well, too. */
function measured(expr: string): string {
  return expr.replace(/ or absent\(.*/s, "").replaceAll(/ (?:>|<|==) [\d.]+/g, "");
}

/** Panels have variables of Grafana's; here all clusters and nodes are chosen. */
function chosen(expr: string): string {
  return expr.replaceAll(/\$(?:cluster|instance)/g, ".*");
}

describe("a real Prometheus that scrapes the daemon", () => {
  test.each(readAlerts().map((alert) => [alert.alert, alert] as const))(
    "the alert %s measures something",
    async (_, { expr }) => {
      await expect.poll(async () => (await prometheus.query(measured(expr))).length).toBeGreaterThan(0);
    },
  );

  test.each(readAlerts().map((alert) => [alert.alert, alert] as const))(
    "the alert %s is silent while all is well",
    async (_, { expr }) => {
      const samples = await prometheus.query(expr);
      expect(samples).toEqual([]);
    },
  );

  const queries = readPanels().flatMap(({ title, targets }) =>
    targets.map(({ expr }) => [title, expr] as const),
  );
  test.each(queries)('the panel "%s" has data of %s', async (_, expr) => {
    await expect.poll(async () => (await prometheus.query(chosen(expr))).length).toBeGreaterThan(0);
  });

  test("fires the alert for a target that is down without a daemon", async () => {
    const { expr } = readAlerts().find(({ alert }) => alert === "NftProxyTargetDown") ?? { expr: "" };
    expect(await prometheus.query(expr)).toEqual([]);
    await daemon.stop();
    await expect.poll(async () => (await prometheus.query(expr)).length).toBeGreaterThan(0);
  });
});
