import { afterAll, beforeAll, expect, test } from "vitest";
import { SOURCE_RANGE_LISTS, SOURCE_RANGES } from "../../src/ruleset/sets.ts";
import { apiService, apiSlice } from "../support/api-objects.ts";
import { ConstantFlows, type FlowCounts } from "../support/constant-flows.ts";
import { DaemonLab } from "../support/daemon-lab.ts";
import { addressesOf } from "../support/lab/topology.ts";
import type { RunningDaemon } from "../support/running-daemon.ts";
import { townList } from "../support/stub-api/town.ts";

// Source ranges that change while clients send all the time. Of the two clients outside, `ext` is not allowed
// and `ext2` is.

const DNS = { port: 53, protocol: "UDP", targetPort: 53 } as const;
const VIP = "203.0.113.75";

let lab: DaemonLab;
let daemon: RunningDaemon;
beforeAll(async () => {
  lab = await DaemonLab.create();
  for (const resource of ["nodes", "servicecidrs"] as const)
    lab.cluster.load(resource, townList("town", resource));
  // The clients use thousands of ports each second. Each must be a new flow when they use it again.
  await lab.lab.mustRun("node", ["sysctl", "-qw", "net.netfilter.nf_conntrack_udp_timeout=2"]);
  put("other", "203.0.113.76", ["192.0.2.128/25"]);
  daemon = lab.start(["--iptables-sync-period=1s"]);
  await lab.converged();
});
afterAll(async () => {
  await daemon?.stop();
  await lab?.close();
});

/** Creates or changes a Service with a load-balancer address. It also has a range of ports. */
function put(name: string, address: string, loadBalancerSourceRanges: readonly string[]): void {
  const clusterIP = `10.96.7.${address.slice(address.lastIndexOf(".") + 1)}`;
  const spec = { type: "LoadBalancer", loadBalancerSourceRanges };
  const { metadata, ...service } = apiService(name, { clusterIP, ports: [DNS], spec });
  const annotations = { "nft-proxy.io/port-ranges": "udp-53=5000-5999" };
  const status = { loadBalancer: { ingress: [{ ip: address, ipMode: "VIP" }] } };
  lab.cluster.put("services", { ...service, metadata: { ...metadata, annotations }, status });
  lab.cluster.put("endpointslices", apiSlice(name, ["10.244.2.11", "10.244.2.12"], [DNS]));
}

function withdraw(name: string): void {
  lab.cluster.remove("services", apiService(name, { clusterIP: "None" }));
  lab.cluster.remove("endpointslices", apiSlice(name, []));
}

/** A list with the client that is allowed, in a prefix of this length, and so many other prefixes. */
function ranges(length: number, others: number): readonly string[] {
  const step = 2 ** (32 - length);
  const own = `192.0.2.${200 - (200 % step)}/${length}`;
  return [own, ...Array.from({ length: others }, (_, n) => `20.${n >> 8}.${n & 255}.0/30`)];
}

/** Counts the flows of clients to the explicit port and to one of the range while something changes. */
async function flowsDuring(
  change: () => Promise<void>,
  ...clients: readonly ("ext" | "ext2")[]
): Promise<readonly FlowCounts[]> {
  const flows = await Promise.all(
    clients.flatMap((client) =>
      [53, 5353].map((port) =>
        ConstantFlows.start(lab.lab, {
          ...{ machine: "ext", source: addressesOf(client).v4, address: VIP, port },
          isServed: client === "ext2",
        }),
      ),
    ),
  );
  await change();
  return await Promise.all(flows.map((flow) => flow.end()));
}

test("while the source ranges of a Service change, no packet of an allowed client is dropped, and none of a forbidden one is let in", async () => {
  put("guarded", VIP, ranges(32, 0));
  await lab.converged();
  const lists = [
    ranges(25, 63),
    ranges(26, 64),
    ranges(30, 2500),
    ranges(25, 63),
    ranges(32, 0),
    ranges(28, 3),
  ];
  const counts = await flowsDuring(
    async () => {
      for (const list of lists) {
        put("guarded", VIP, list);
        await lab.converged();
      }
    },
    "ext2",
    "ext",
  );
  for (const { sent, answered } of counts.slice(0, 2)) {
    expect(answered).toBe(sent);
    expect(sent).toBeGreaterThan(100);
  }
  for (const { sent, answered } of counts.slice(2)) {
    expect(answered).toBe(0);
    expect(sent).toBeGreaterThan(100);
  }
});

test("a forbidden client is never let in while Services with source ranges are created and deleted, the last one as well", async () => {
  withdraw("guarded");
  await lab.converged();
  const counts = await flowsDuring(async () => {
    for (let round = 0; round < 6; round++) {
      put("guarded", VIP, ranges(25, 40 * round));
      await lab.converged();
      withdraw("guarded");
      if (round === 2) withdraw("other");
      await lab.converged();
    }
  }, "ext");
  expect(await lab.kernelText()).not.toContain("source-range");
  for (const { sent, answered } of counts) {
    expect(answered).toBe(0);
    expect(sent).toBeGreaterThan(100);
  }
});

test("a restart while a list waits to be deleted drops no packet of an allowed client, and the list is deleted", async () => {
  const elements = async () => (await lab.kernel()).ip?.sets.get(SOURCE_RANGES)?.elements.size ?? 0;
  const numbers = () => lab.nft("list", "map", "ip", "nft-proxy", SOURCE_RANGE_LISTS);
  put("guarded", VIP, ranges(26, 12_000));
  await lab.converged();
  const before = await numbers();
  const counts = await flowsDuring(
    async () => {
      put("guarded", VIP, ranges(32, 0));
      await expect.poll(numbers).not.toBe(before);
      daemon.signal("SIGKILL");
      await daemon.ended;
      expect(await elements()).toBeGreaterThan(2000);
      daemon = lab.start(["--iptables-sync-period=1s"]);
      await lab.converged();
    },
    "ext2",
    "ext",
  );
  expect(await elements()).toBeLessThan(10);
  for (const { sent, answered } of counts.slice(0, 2)) expect(answered).toBe(sent);
  for (const { answered } of counts.slice(2)) expect(answered).toBe(0);
});
