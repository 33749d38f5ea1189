import { afterAll, beforeAll, expect, test } from "vitest";
import type { Scheduler } from "../../src/features/schedulers/scheduler.ts";
import { drawCount } from "../../src/ruleset/setting-grids.ts";
import { port, service, slice, slicePort } from "../support/build.ts";
import type { Probe } from "../support/lab/outcome.ts";
import { remotePods } from "../support/lab/topology.ts";
import { ProgrammedLab } from "../support/programmed-lab.ts";

const CLUSTER_IP = "10.96.6.1";

let node: ProgrammedLab;
beforeAll(async () => {
  node = await ProgrammedLab.create();
});
afterAll(() => node?.close());

/** Counts the connections that each endpoint answered. */
async function counts(probes: readonly Omit<Probe, "id" | "to" | "port">[]): Promise<readonly number[]> {
  const own = probes.map((probe, index) => ({ ...probe, id: String(index), to: CLUSTER_IP, port: 80 }));
  const counted = new Map<string, number>();
  for (const tally of (await node.lab.observe(own)).values()) {
    for (const [answer, count] of Object.entries(tally)) {
      const [address = "", target = "nowhere"] = answer.split(" ");
      const key = `${address} ${target}`;
      counted.set(key, (counted.get(key) ?? 0) + count);
    }
  }
  return [...counted.values()];
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0);

/** The test statistic for equal shares. */
function chiSquared(numbers: readonly number[]): number {
  const expected = sum(numbers) / numbers.length;
  return sum(numbers.map((number) => (number - expected) ** 2 / expected));
}

/**
 * Limits of the test statistic. A fair balancer exceeds one once in a thousand million runs, with five
 * endpoints (four degrees of freedom) and with 70.
 */
const LIMIT_5 = 48;
const LIMIT_70 = 167;

test("random balancing is uniform over a list after endpoints were added and removed", async () => {
  const objects = (...endpoints: string[]) => ({
    services: [service({ clusterIPs: [CLUSTER_IP], ports: [port(80)] })],
    slices: [slice({ endpoints })],
  });
  await node.program(objects("10.244.2.11", "10.244.2.12", "10.244.2.13", "10.244.3.11", "10.244.3.12"));
  await node.program(objects("10.244.2.12", "10.244.2.13", "10.244.2.14", "10.244.3.11", "10.244.3.13"));
  const seen = await counts([{ from: "pod1", proto: "tcp", n: 1200 }]);
  expect(sum(seen)).toBe(1200);
  expect(seen).toHaveLength(5);
  expect(chiSquared(seen)).toBeLessThan(LIMIT_5);
});

/** Ports at which each pod of other nodes answers. With them, a Service has more endpoints than pods. */
const TARGET_PORTS = [8080, 8081, 8443, 9153, 6379, 3000] as const;

/** A UDP Service with so many endpoints. */
function large(count: number, scheduler: Scheduler) {
  const ports = [port(80, { protocol: "udp" })];
  const targets = TARGET_PORTS.flatMap((target) => remotePods.map(({ v4 }) => ({ v4, target }))).slice(
    0,
    count,
  );
  return {
    services: [service({ clusterIPs: [CLUSTER_IP], ports, scheduler })],
    slices: TARGET_PORTS.map((target) =>
      slice({
        name: `web-${target}`,
        ports: [slicePort(target, { protocol: "udp" })],
        endpoints: targets.filter((one) => one.target === target).map(({ v4 }) => v4),
        family: "ip",
      }),
    ),
  };
}

test.each(["random", "round-robin"] as const)(
  "%s balancing gives each of 70 endpoints its share, although its chain draws among more numbers",
  async (scheduler) => {
    expect(drawCount(70)).toBeGreaterThan(70);
    await node.program(large(70, scheduler));
    const pods = ["pod1", "pod2", "pod3", "pod4", "pod5", "pod6"] as const;
    const seen = await counts(pods.map((from) => ({ from, proto: "udp", n: 1400, wait: 20 })));
    expect(sum(seen)).toBe(8400);
    expect(seen).toHaveLength(70);
    expect(chiSquared(seen)).toBeLessThan(LIMIT_70);
  },
);
