import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { formatClassid } from "../../src/nft/canonical/constant.ts";
import { deletionTransaction } from "../../src/nft/transaction.ts";
import { setSpecs } from "../../src/ruleset/set-specs.ts";
import { AFFINITY } from "../../src/ruleset/sets.ts";
import {
  affinityEntries,
  affinityKey,
  endpointIdsOf,
  parseAffinityKey,
} from "../support/affinity-entries.ts";
import { apiService, apiSlice } from "../support/api-objects.ts";
import { familyContext } from "../support/build.ts";
import { DaemonLab } from "../support/daemon-lab.ts";
import type { ProbeSource } from "../support/lab/topology.ts";
import type { RunningDaemon } from "../support/running-daemon.ts";
import { loadTown } from "../support/stub-api/town.ts";

// All tenants share the affinity map. These tests fill it with one tenant's clients and check the clients of
// others.

const STICKY = {
  sessionAffinity: "ClientIP",
  sessionAffinityConfig: { clientIP: { timeoutSeconds: 86_400 } },
};
const ADDRESSES = { attacked: "10.96.7.1", neighbour: "10.96.7.2" } as const;
const ENDPOINTS = ["10.244.2.11", "10.244.2.12", "10.244.2.13", "10.244.3.11", "10.244.3.12", "10.244.3.13"];
const CLIENTS: readonly ProbeSource[] = ["pod1", "pod2", "pod3", "pod4"];
type Name = keyof typeof ADDRESSES;

let lab: DaemonLab;
let daemon: RunningDaemon;
beforeAll(async () => {
  lab = await DaemonLab.create();
  loadTown(lab.cluster);
  for (const [name, clusterIP] of Object.entries(ADDRESSES)) {
    lab.cluster.put("services", apiService(name, { clusterIP, spec: STICKY }));
    lab.cluster.put("endpointslices", apiSlice(name, ENDPOINTS));
  }
});
afterEach(async () => {
  await daemon.stop();
  await lab.nft("flush", "ruleset");
});
afterAll(() => lab?.close());

async function idsOf(name: Name) {
  const { ip } = await lab.kernel();
  if (ip === undefined) throw new Error("no table ip nft-proxy");
  return endpointIdsOf(ip, `${ADDRESSES[name]} . tcp . 80`);
}

/** Makes the kernel remember clients of a Service, as packets with forged addresses do. */
async function forge(name: Name, count: number): Promise<number> {
  const { servicePort, endpoints } = await idsOf(name);
  const [id = 0] = endpoints.keys();
  const clients = Array.from({ length: count }, (_, n) => {
    return `${affinityKey(`198.18.${n >> 8}.${n & 255}`, servicePort)} timeout 1d : ${formatClassid(id)}`;
  });
  await lab.nft(
    "-f",
    await lab.file("forged.nft", `add element ip nft-proxy ${AFFINITY} { ${clients.join(", ")} }\n`),
  );
  return servicePort;
}

/** Counts the entries of each service port, by its id. */
async function entries(): Promise<ReadonlyMap<number, number>> {
  const counts = new Map<number, number>();
  for (const { key } of affinityEntries(await lab.nft("-j", "list", "map", "ip", "nft-proxy", AFFINITY))) {
    const { servicePort } = parseAffinityKey(key);
    counts.set(servicePort, (counts.get(servicePort) ?? 0) + 1);
  }
  return counts;
}

/** Returns the endpoints that answered 8 connections of each of the neighbour's clients. */
async function answers(): Promise<readonly string[]> {
  const tcp = { to: ADDRESSES.neighbour, port: 80, proto: "tcp", n: 8 } as const;
  const tallies = await lab.lab.observe(CLIENTS.map((from) => ({ id: from, from, ...tcp })));
  return CLIENTS.map((client) => Object.keys(tallies.get(client) ?? {}).join());
}

test("a deletion of entries succeeds if one has expired already, and fails if a client has got another endpoint in the meantime", async () => {
  daemon = lab.start();
  await daemon.saying("full sync");
  await lab.converged();
  const { servicePort: neighbour, endpoints } = await idsOf("neighbour");
  const [first = 0, second = 0] = endpoints.keys();
  await forge("neighbour", 2);
  const spec = setSpecs(familyContext("ip")).find(({ name }) => name === AFFINITY);
  if (spec === undefined) throw new Error("no affinity map");
  const send = async (client: string, endpoint: number) => {
    const elements = [
      { key: `${neighbour} . 198.18.0.1`, value: String(first) },
      { key: `${neighbour} . ${client}`, value: String(endpoint) },
    ];
    await lab.lab.loadTransaction(JSON.stringify(deletionTransaction("ip", spec, elements)));
  };
  await expect(send("198.18.0.0", second)).rejects.toThrow("File exists");
  expect(await entries()).toEqual(new Map([[neighbour, 2]]));
  await send("198.18.9.9", second);
  expect(await entries()).toEqual(new Map([[neighbour, 1]]));
});

test("entries of a deleted Service make room for the clients of others, who stay sticky", async () => {
  daemon = lab.startImpatient(["--affinity-map-size=5000"]);
  await daemon.saying("full sync");
  await lab.converged({ affinityMapSize: 5000 });
  await forge("attacked", 4000);
  const { servicePort: neighbour } = await idsOf("neighbour");
  const before = await answers();
  lab.cluster.remove("services", apiService("attacked", { clusterIP: ADDRESSES.attacked }));
  await expect.poll(entries).toEqual(new Map([[neighbour, CLIENTS.length]]));
  expect(await answers()).toEqual(before);
  await expect.poll(() => lab.metric("nft_proxy_affinity_entries_deleted_total", 'reason="gone"')).toBe(4000);
  lab.cluster.put("services", apiService("next", { clusterIP: "10.96.7.3", spec: STICKY }));
  lab.cluster.put("endpointslices", apiSlice("next", ENDPOINTS));
  await lab.converged({ affinityMapSize: 5000 });
  expect(await entries()).toEqual(new Map([[neighbour, CLIENTS.length]]));
  // The next test needs this Service again.
  lab.cluster.put("services", apiService("attacked", { clusterIP: ADDRESSES.attacked, spec: STICKY }));
});

test("in a nearly full map, the Service with the most entries loses some to the clients of others, and gets an Event", async () => {
  const flags = ["--affinity-map-size=100"];
  daemon = lab.start(flags);
  await daemon.saying("full sync");
  await lab.converged({ affinityMapSize: 100 });
  const attacked = await forge("attacked", 100 - CLIENTS.length + 1);
  // There is no room for one of the clients.
  expect((await answers()).some((each) => each.includes(","))).toBe(true);
  await daemon.stop();
  daemon = lab.startImpatient(flags);
  const line = await daemon.saying(
    "the affinity map is nearly full: deleted entries of the service ports with the most",
  );
  const { servicePort: neighbour } = await idsOf("neighbour");
  const before = await answers();
  for (const each of before) expect(ENDPOINTS).toContain(each.split(" ")[0]);
  expect(before.some((each) => each.includes(","))).toBe(false);
  expect(await answers()).toEqual(before);
  expect(line).toMatchObject({
    family: "ip",
    size: 100,
    servicePorts: 1,
    most: [expect.stringContaining("shop/attacked")],
  });
  const left = await entries();
  expect(left.get(neighbour)).toBe(CLIENTS.length);
  expect(left.get(attacked)).toBe(80 - (CLIENTS.length - 1));
  expect(await lab.metric("nft_proxy_affinity_entries_deleted_total", 'reason="crowded"')).toBe(
    Number(line.deleted),
  );
  const events = () => lab.api.events.filter(({ reason }) => reason === "AffinityMapNearlyFull");
  await expect
    .poll(events)
    .toMatchObject([{ regarding: { kind: "Service", namespace: "shop", name: "attacked" } }]);
});
