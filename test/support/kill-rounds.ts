import { setTimeout as sleep } from "node:timers/promises";
import type { Table } from "../../src/nft/ast/ruleset.ts";
import { formatClassid } from "../../src/nft/canonical/constant.ts";
import { AFFINITY } from "../../src/ruleset/sets.ts";
import { affinityKey, endpointIdsOf, rememberedEndpoints } from "./affinity-entries.ts";
import { apiService, apiSlice } from "./api-objects.ts";
import type { DaemonLab } from "./daemon-lab.ts";
import type { StubCluster } from "./stub-api/stub-cluster.ts";

/** Returns a generator of numbers in [0, 1), which are the same for the same seed (mulberry32). */
export function seededRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A Service with affinity that no round changes. */
const STEADY = { name: "steady", clusterIP: "10.96.8.8", endpoints: ["10.244.1.11", "10.244.2.12"] } as const;

const FRONTEND = `${STEADY.clusterIP} . tcp . 80`;

const STICKY = {
  sessionAffinity: "ClientIP",
  sessionAffinityConfig: { clientIP: { timeoutSeconds: 10_800 } },
};

const POOL = Array.from({ length: 12 }, (_, n) => (n < 6 ? `10.244.1.${11 + n}` : `10.244.2.${5 + n}`));

/** Adds this Service. */
export function putSteady(cluster: StubCluster): void {
  cluster.put("services", apiService(STEADY.name, { clusterIP: STEADY.clusterIP, spec: STICKY }));
  cluster.put("endpointslices", apiSlice(STEADY.name, STEADY.endpoints));
}

/**
 * Changes a few of twenty other Services: creates, deletes or recreates them elsewhere, switches affinity,
 * replaces endpoints.
 */
function changeSomething(cluster: StubCluster, random: () => number): void {
  const changes = 1 + Math.floor(random() * 6);
  for (let n = 0; n < changes; n++) {
    const index = Math.floor(random() * 20);
    const name = `restless-${index}`;
    const known = cluster.objects("services").find(({ metadata }) => metadata.name === name);
    if (known !== undefined && random() < 0.3) cluster.remove("services", known);
    if (random() < 0.4) {
      const nodePort = random() < 0.5 ? { nodePort: 31_000 + index } : {};
      const spec = random() < 0.3 ? STICKY : {};
      const clusterIP = `10.96.9.${index + 100 * Math.floor(random() * 2)}`;
      cluster.put("services", apiService(name, { clusterIP, ports: [{ port: 80, ...nodePort }], spec }));
    }
    cluster.put(
      "endpointslices",
      apiSlice(
        name,
        POOL.filter(() => random() < 0.3),
      ),
    );
  }
}

/**
 * Returns the affinity entries of the steady Service, from clients to the address and port of their endpoint.
 */
export async function affinityEntries(lab: DaemonLab): Promise<ReadonlyMap<string, string>> {
  const listing = await lab.nft("-j", "list", "map", "ip", "nft-proxy", AFFINITY);
  return rememberedEndpoints(await tableOf(lab), listing, FRONTEND);
}

/** Adds affinity entries for clients of the steady Service, as their packets would. */
export async function rememberClients(lab: DaemonLab, count: number): Promise<void> {
  const { servicePort, endpoints } = endpointIdsOf(await tableOf(lab), FRONTEND);
  const ids = [...endpoints.keys()];
  if (ids.length !== STEADY.endpoints.length) throw new Error(`${ids.length} endpoint ids of ${FRONTEND}`);
  const clients = Array.from({ length: count }, (_, n) => {
    const id = ids[n % ids.length] as number;
    return `${affinityKey(`198.18.${n >> 8}.${n & 255}`, servicePort)} timeout 3h : ${formatClassid(id)}`;
  });
  const file = await lab.file(
    "clients.nft",
    `add element ip nft-proxy ${AFFINITY} { ${clients.join(", ")} }\n`,
  );
  await lab.nft("-f", file);
}

async function tableOf(lab: DaemonLab): Promise<Table> {
  const { ip } = await lab.kernel();
  if (ip === undefined) throw new Error("no table ip nft-proxy");
  return ip;
}

/**
 * Repeats: starts the daemon, makes random changes, and kills the daemon at a random moment. No daemon runs
 * at the end.
 */
export async function killRounds(lab: DaemonLab, rounds: number, random: () => number): Promise<void> {
  for (let round = 0; round < rounds; round++) {
    const daemon = lab.start();
    changeSomething(lab.cluster, random);
    await sleep(random() * 1200);
    changeSomething(lab.cluster, random);
    await sleep(random() * 300);
    daemon.signal("SIGKILL");
    await daemon.ended;
  }
}
