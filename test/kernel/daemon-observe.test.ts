import { afterAll, beforeAll, expect, test } from "vitest";
import { apiService, apiSlice } from "../support/api-objects.ts";
import { DaemonLab } from "../support/daemon-lab.ts";
import { PATIENCE } from "../support/patience.ts";
import { loadTown } from "../support/stub-api/town.ts";

const SYSCTLS = ["acct", "timestamp"].map((name) => `/proc/sys/net/netfilter/nf_conntrack_${name}`);

let lab: DaemonLab;
beforeAll(async () => {
  lab = await DaemonLab.create();
  loadTown(lab.cluster);
  lab.cluster.put("services", apiService("seen", { clusterIP: "10.96.7.1" }));
  lab.cluster.put("endpointslices", apiSlice("seen", ["10.244.1.11", "10.244.1.12"]));
});
afterAll(() => lab?.close());

const settings = () => lab.lab.mustRun("node", ["cat", ...SYSCTLS]);
const metric = (name: string, labels = "") =>
  lab.metric(`nft_proxy_observed_${name}`, `service="seen"${labels}`);

test("a daemon without --observe changes no sysctl, and listens to no connection", async () => {
  const before = await settings();
  const daemon = lab.start();
  await lab.converged();
  await lab.lab.probe([{ id: "seen", from: "pod3", to: "10.96.7.1", port: 80, proto: "tcp", n: 1 }]);
  expect(await settings()).toBe(before);
  expect((await lab.get(10249, "/metrics")).body).not.toContain("nft_proxy_observed");
  expect(await daemon.stop()).toBe(0);
});

test("a daemon with --observe=accounting counts connections, bytes and durations by Service", async () => {
  const daemon = lab.start(["--observe=accounting"]);
  await lab.converged();
  await expect.poll(settings, PATIENCE).toBe("1\n1");
  const chain = "chain out { type filter hook output priority 0; ip daddr 10.96.7.1 counter; }";
  const counters = `table inet watch {\n${chain}\n}\n`;
  await lab.lab.mustRun("pod3", ["nft", "-f", "-"], { input: counters });
  await daemon.saying("observing connections");
  await lab.lab.probe([{ id: "seen", from: "pod3", to: "10.96.7.1", port: 80, proto: "tcp", n: 12 }]);
  await expect.poll(() => metric("connections_total", ',event="ended"'), PATIENCE).toBe(12);
  expect(await metric("connections_total", ',event="began"')).toBe(12);
  const sent = await lab.lab.mustRun("pod3", ["nft", "list", "table", "inet", "watch"]);
  expect(await metric("bytes_total", ',direction="sent"')).toBe(Number(/bytes (\d+)/.exec(sent)?.[1]));
  expect(await metric("connection_duration_seconds_count")).toBe(12);
  const { body } = await lab.get(10249, "/");
  expect(body).toContain("<h2>Busiest Services</h2>");
  expect(body).toMatch(/shop\/seen: 12 connections, \d+ B/);
  expect(await daemon.stop()).toBe(0);
});
