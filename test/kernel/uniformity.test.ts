import { afterAll, beforeAll, expect, test } from "vitest";
import { port, service, slice } from "../support/build.ts";
import { ProgrammedLab } from "../support/programmed-lab.ts";

const CLUSTER_IP = "10.96.6.1";
const CONNECTIONS = 1200;

/**
 * Limit of the test statistic. With five endpoints (four degrees of freedom), a fair balancer exceeds it once
 * in a thousand million runs.
 */
const LIMIT = 48;

let node: ProgrammedLab;
beforeAll(async () => {
  node = await ProgrammedLab.create();
});
afterAll(() => node?.close());

const objects = (...endpoints: string[]) => ({
  services: [service({ clusterIPs: [CLUSTER_IP], ports: [port(80)] })],
  slices: [slice({ endpoints })],
});

test("random balancing is uniform over a list after endpoints were added and removed", async () => {
  await node.program(objects("10.244.2.11", "10.244.2.12", "10.244.2.13", "10.244.3.11", "10.244.3.12"));
  await node.program(objects("10.244.2.12", "10.244.2.13", "10.244.2.14", "10.244.3.11", "10.244.3.13"));
  const tallies = await node.lab.observe([
    { id: "all", from: "pod1", to: CLUSTER_IP, port: 80, proto: "tcp", n: CONNECTIONS },
  ]);
  const counts = Object.values(tallies.get("all") ?? {});
  expect(counts.reduce((sum, count) => sum + count, 0)).toBe(CONNECTIONS);
  expect(counts).toHaveLength(5);
  const expected = CONNECTIONS / counts.length;
  const chiSquared = counts.reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0);
  expect(chiSquared).toBeLessThan(LIMIT);
});
