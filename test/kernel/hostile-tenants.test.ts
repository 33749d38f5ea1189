import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { apiService, apiSlice } from "../support/api-objects.ts";
import { DaemonLab } from "../support/daemon-lab.ts";
import {
  COUNTS,
  FEATURES,
  MOTIONS,
  PAIRS,
  type TenantService,
  type TenantShape,
  tenantServices,
  tenantShape,
} from "../support/hostile-tenants.ts";
import type { RunningDaemon } from "../support/running-daemon.ts";
import { townList } from "../support/stub-api/town.ts";

// A neighbour's Service is served, whatever a tenant does with its own objects. Sizes and budgets are small
// here.

const BUDGETS = {
  maxServiceElements: 300,
  maxElements: 1000,
  maxNamespaceElements: 600,
  settings: { maxPortRanges: 100 },
};
const FLAGS = [
  "--max-service-elements=300",
  "--max-elements=1000",
  "--max-namespace-elements=600",
  "--max-port-ranges=100",
  // Stale chains go soon.
  "--iptables-sync-period=1s",
];

const NEIGHBOUR_IP = "10.96.20.1";
const PODS = ["10.244.1.11", "10.244.2.12"] as const;

let lab: DaemonLab;
let daemon: RunningDaemon;
beforeAll(async () => {
  lab = await DaemonLab.create();
  await lab.reach("192.0.2.2");
  for (const resource of ["nodes", "servicecidrs"] as const)
    lab.cluster.load(resource, townList("town", resource));
  const old = apiService("old", { clusterIP: NEIGHBOUR_IP });
  lab.cluster.put("services", inNeighbourhood(old));
  putPod(0);
  daemon = lab.start(FLAGS);
  await lab.converged(BUDGETS);
});
afterAll(async () => {
  await daemon?.stop();
  await lab?.close();
});

function inNeighbourhood<T extends { readonly metadata: object }>(object: T): T {
  return { ...object, metadata: { ...object.metadata, namespace: "neighbour" } };
}

/** Makes this pod the neighbour's only endpoint. */
function putPod(pod: number): void {
  lab.cluster.put("endpointslices", inNeighbourhood(apiSlice("old", [PODS[pod % 2] ?? ""])));
}

/** Returns the pods that answer new connections to the neighbour's Service, and other outcomes. */
async function answers(): Promise<readonly string[]> {
  const probe = {
    id: "old",
    from: "pod2",
    to: NEIGHBOUR_IP,
    port: 80,
    proto: "tcp",
    n: 5,
    wait: 0.5,
  } as const;
  const tally = (await lab.lab.observe([probe])).get("old") ?? {};
  return [...new Set(Object.keys(tally).map((answer) => answer.split(" ")[0] ?? ""))];
}

let pod = 0;
/** Replaces the neighbour's endpoint. Checks that the Service is served before, during and after this. */
async function expectServed(doing: string): Promise<void> {
  const allowed = [PODS[pod % 2], PODS[(pod + 1) % 2]];
  putPod(++pod);
  await expect
    .poll(
      async () => {
        const found = await answers();
        for (const answer of found) expect(allowed, doing).toContain(answer);
        return found;
      },
      { timeout: 60_000, message: doing },
    )
    .toEqual([PODS[pod % 2]]);
}

function play(services: readonly TenantService[], motion: string, round = 0): void {
  for (const [kind, resource, object] of MOTIONS[motion]?.(services, round) ?? [])
    lab.cluster[kind](resource, object);
}

/** Returns the reasons of the Events about Services of all namespaces with this prefix. */
function reasonsIn(namespace: string): readonly string[] {
  const own = lab.api.events.filter(({ regarding }) =>
    (regarding as { readonly namespace?: string }).namespace?.startsWith(namespace),
  );
  return [...new Set(own.map(({ reason }) => String(reason)))];
}

/** Small versions of scenes that once harmed neighbours, each with the Event that the tenant gets. */
const FOUND: readonly (readonly [name: string, shape: Partial<TenantShape>, told: string])[] = [
  [
    "a Service whose port ranges times addresses exceed its budget",
    { portRanges: 20, externalIPs: 20 },
    "ServicePortQuarantined",
  ],
  [
    "more port ranges than its namespace's share, with one pod",
    { services: 10, portRanges: 8, endpoints: 1, samePods: true },
    "PortRangesNotServed",
  ],
  [
    "a Service whose hashed ports exceed its budget",
    { ports: 20, scheduler: "source-hash" },
    "ServicePortQuarantined",
  ],
  ["more Services than its namespace's share", { services: 40, ports: 10 }, "ServicePortQuarantined"],
  [
    "more Services than the node's budget",
    { services: 60, ports: 10, apart: true },
    "ServicePortQuarantined",
  ],
  [
    "Services with many ports at the same address",
    { services: 10, ports: 8, externalIPs: 1, sameAddresses: true },
    "AddressConflict",
  ],
  [
    "ports and ranges at the neighbour's address",
    { ports: 10, portRanges: 4, addressesOfOthers: [NEIGHBOUR_IP] },
    "AddressConflict",
  ],
  ["Services with port ranges", { portRanges: 4 }, "InvalidPortRanges"],
];

/** Returns the prefix of the namespaces of a scene of {@link FOUND}. */
const namespaceOf = (name: string) => `found-${FOUND.findIndex(([one]) => one === name)}`;

async function expectEvent(name: string, reason: string) {
  await expect.poll(() => reasonsIn(namespaceOf(name)), { timeout: 30_000 }).toContain(reason);
}

describe("a neighbour is served while a tenant creates, moves and deletes", () => {
  test.each(FOUND)("%s", async (name, part, told) => {
    const services = tenantServices(tenantShape(part), namespaceOf(name));
    await expectServed("before");
    for (const motion of Object.keys(MOTIONS)) {
      play(services, motion);
      await expectServed(motion);
      // Their cause passes before a busy daemon may have seen it.
      if (motion === "annotations that are not understood" && told === "InvalidPortRanges")
        await expectEvent(name, told);
    }
  });
});

/** Returns a pair of features that is small enough for the budgets. */
function small(shape: TenantShape): TenantShape {
  const counts = COUNTS.map((name) => [name, Math.min(shape[name], name === "portRanges" ? 2 : 4)] as const);
  return {
    ...shape,
    ...Object.fromEntries(counts),
    services: Math.min(shape.services, 3),
    scheduler: undefined,
  };
}

describe("a neighbour is served while a tenant creates, moves and deletes Services with any other feature and", () => {
  test.each(Object.keys(FEATURES).slice(0, -1))("%s", async (feature) => {
    for (const [index, [name, shape]] of PAIRS.entries()) {
      if (!name.startsWith(`${feature} x `)) continue;
      const services = tenantServices(small(shape), `pair-${index}`);
      for (const motion of Object.keys(MOTIONS)) play(services, motion);
      await expectServed(name);
    }
  });
});

test.each(FOUND)("the tenant gets an Event for %s", async (name, _part, told) => {
  await expectEvent(name, told);
});

test("the tables match the objects after all such tenants have created and deleted their objects again", async () => {
  const all = FOUND.map(([name, part], index) =>
    tenantServices(tenantShape(part), namespaceOf(name), 100 * index),
  );
  for (const services of all) play(services, "made");
  await lab.converged(BUDGETS);
  for (const services of all) play(services, "deleted");
  await lab.converged(BUDGETS);
});
