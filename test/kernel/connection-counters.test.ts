import { afterAll, beforeAll, expect, test } from "vitest";
import { readConnectionCounts } from "../../src/features/service-counters/connection-counts.ts";
import { rebuildTransaction } from "../../src/nft/transaction.ts";
import { port, renderAll, service, slice, testNodeContext } from "../support/build.ts";
import { createLab, type Lab } from "../support/lab/lab.ts";
import { nftOf } from "../support/lab/nft-of.ts";
import { nftTables } from "../support/nft-tables.ts";

let lab: Lab;
beforeAll(async () => {
  lab = await createLab();
});
afterAll(() => lab?.close());

test("every connection is counted once at its frontend and once at its endpoint", async () => {
  const objects = {
    services: [
      service({
        clusterIPs: ["10.96.0.10"],
        ports: [port(80, { nodePort: 30_080, ranges: [{ first: 8080, last: 8099 }] })],
      }),
      service({ name: "sticky", clusterIPs: ["10.96.0.11"], ports: [port(80)], affinitySeconds: 60 }),
    ],
    slices: [
      slice({ endpoints: ["10.244.1.11", "10.244.1.12"] }),
      slice({ service: "sticky", endpoints: ["10.244.1.14"] }),
    ],
  };
  const { state } = renderAll(objects, testNodeContext({ settings: { serviceCounters: "endpoints" } }));
  await lab.loadTransaction(JSON.stringify(rebuildTransaction(state.ruleset)));
  const from = { from: "pod3", proto: "tcp", port: 80 } as const;
  await lab.probe([
    { ...from, id: "cluster", to: "10.96.0.10", n: 7 },
    { ...from, id: "sticky", to: "10.96.0.11", n: 5, sticky: true },
    { ...from, id: "range", to: "10.96.0.10", port: 8081, n: 2 },
    { ...from, id: "nodeport", from: "ext", to: "192.0.2.2", port: 30_080, n: 3 },
  ]);
  const { frontends, endpoints } = await readConnectionCounts(nftTables(nftOf(lab)), state);
  const counted = [...frontends.values()].map(({ labels, value }) => [labels.service, labels.target, value]);
  expect(counted.sort()).toEqual([
    ["sticky", "10.96.0.11:80", 5],
    ["web", "10.96.0.10:80", 7],
    ["web", "10.96.0.10:8080-8099", 2],
    ["web", "nodePort:30080", 3],
  ]);
  const ofService = (name: string) =>
    [...(endpoints?.values() ?? [])].filter(({ labels }) => labels.service === name);
  const total = (name: string) => ofService(name).reduce((sum, { value }) => sum + value, 0);
  expect([total("web"), total("sticky")]).toEqual([12, 5]);
  expect(ofService("sticky").map(({ labels }) => labels.target)).toEqual(["10.244.1.14:8080"]);
});
