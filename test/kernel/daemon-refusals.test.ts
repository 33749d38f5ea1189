import { afterAll, beforeAll, expect, test } from "vitest";
import { apiService } from "../support/api-objects.ts";
import { DaemonLab } from "../support/daemon-lab.ts";
import { loadTown } from "../support/stub-api/town.ts";

let lab: DaemonLab;
beforeAll(async () => {
  lab = await DaemonLab.create();
  loadTown(lab.cluster);
  lab.cluster.put("services", apiService("none", { clusterIP: "10.96.7.9" }));
});
afterAll(() => lab?.close());

test("the daemon counts refused packets, shows them on its page, and sends one Event", async () => {
  const daemon = lab.start();
  await lab.converged();
  const refused = () => lab.metric("nft_proxy_refused_packets_total", 'service="none",reason="no-endpoints"');
  const page = async () => (await lab.get(10249, "/")).body;
  const probe = { id: "only", from: "pod1", to: "10.96.7.9", port: 80, proto: "tcp", n: 1 } as const;
  await expect.poll(page, { timeout: 90_000 }).toContain("<h2>Refusals</h2>");
  await lab.lab.probe([probe]);
  await expect.poll(refused, { timeout: 90_000 }).toBeGreaterThan(0);
  expect(await page()).toContain("of 1 client");
  const events = () => lab.api.events.filter(({ reason }) => reason === "ConnectionsRefused");
  await expect.poll(events).toMatchObject([{ regarding: { kind: "Service", namespace: "shop", name: "none" } }]);
  expect(await daemon.stop()).toBe(0);
});
