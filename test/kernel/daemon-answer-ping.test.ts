import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { apiService, apiSlice } from "../support/api-objects.ts";
import { DaemonLab } from "../support/daemon-lab.ts";
import { PATIENCE } from "../support/patience.ts";
import type { RunningDaemon } from "../support/running-daemon.ts";
import { townList } from "../support/stub-api/town.ts";

// The option of a daemon that is restarted with it and without it, over the same rules in the kernel.

const ON = { settings: { answerPing: true } } as const;
const [VIP, FENCED] = ["203.0.113.40", "203.0.113.41"] as const;

let lab: DaemonLab;
let daemon: RunningDaemon;
beforeAll(async () => {
  lab = await DaemonLab.create();
  for (const resource of ["nodes", "servicecidrs"] as const)
    lab.cluster.load(resource, townList("town", resource));
  const balanced = (address: string, spec = {}) => ({
    spec: { type: "LoadBalancer", ...spec },
    status: { loadBalancer: { ingress: [{ ip: address, ipMode: "VIP" }] } },
  });
  const fenced = balanced(FENCED, { loadBalancerSourceRanges: ["192.0.2.200/32"] });
  for (const [name, clusterIP, { spec, status }] of [
    ["open", "10.96.7.40", balanced(VIP)],
    ["fenced", "10.96.7.41", fenced],
  ] as const) {
    lab.cluster.put("services", { ...apiService(name, { clusterIP, spec }), status });
    lab.cluster.put("endpointslices", apiSlice(name, ["10.244.2.11"]));
  }
});
afterAll(async () => {
  await daemon?.stop();
  await lab?.close();
});

/** The results of pings from outside to an address without and one with source ranges, by two clients. */
async function pings(): Promise<readonly (string | undefined)[]> {
  const probes = (["ext", "ext2"] as const).flatMap((from) =>
    [VIP, FENCED].map((to) => ({
      id: `${from} ${to}`,
      from,
      to,
      port: 0,
      proto: "ping" as const,
      n: 2,
      wait: 0.5,
    })),
  );
  const seen = await lab.lab.probe(probes);
  return probes.map(({ id }) => seen.get(id)?.result);
}

const ANSWERED = ["ok", "timeout", "ok", "ok"];
const SILENT = ["timeout", "timeout", "timeout", "timeout"];

async function restart(...flags: readonly string[]): Promise<void> {
  await daemon?.stop();
  // Stale chains go within a second instead of 30.
  daemon = lab.start(["--iptables-sync-period=1s", ...flags]);
}

test("a Service's address does not answer pings without the option", async () => {
  await restart();
  await lab.converged();
  expect(await pings()).toEqual(SILENT);
});

test("a restart with the option adds it to the rules in the kernel, in one change of each table", async () => {
  await restart("--answer-ping");
  expect(await daemon.saying("full sync")).toMatchObject({ reason: "start" });
  await lab.converged(ON);
  expect(await pings()).toEqual(ANSWERED);
});

test("another restart with the option sends nothing", async () => {
  await restart("--answer-ping");
  expect(await daemon.saying("full sync")).toMatchObject({ sent: 0, chains: 0, sets: 0, elements: 0 });
  expect(await pings()).toEqual(ANSWERED);
});

test("an address answers pings from its first endpoint until its last one is removed", async () => {
  lab.cluster.put("endpointslices", apiSlice("open", []));
  lab.cluster.put("endpointslices", apiSlice("fenced", []));
  await lab.converged(ON);
  expect(await pings()).toEqual(SILENT);
  for (const name of ["open", "fenced"]) lab.cluster.put("endpointslices", apiSlice(name, ["10.244.2.12"]));
  await lab.converged(ON);
  expect(await pings()).toEqual(ANSWERED);
});

test.each([
  ["an element", (table: readonly string[]) => ["delete", "element", ...table, "ping-ips", `{ ${VIP} }`]],
  ["all elements", (table: readonly string[]) => ["flush", "map", ...table, "ping-ips"]],
  ["a chain's rules", (table: readonly string[]) => ["flush", "chain", ...table, "answer-ping"]],
  ["the whole table", (table: readonly string[]) => ["delete", "table", ...table]],
])("%s that another program deletes comes back", async (_what, command) => {
  await lab.nft(...command(["ip", "nft-proxy"]));
  await lab.converged(ON);
  expect(await pings()).toEqual(ANSWERED);
});

test("an element that another program adds is removed", async () => {
  await lab.nft("add", "element", "ip", "nft-proxy", "ping-ips", "{ 203.0.113.99 : goto answer-ping }");
  await lab.converged(ON);
});

test("a restart without the option removes its map and chains", async () => {
  await restart();
  await lab.converged();
  expect(await pings()).toEqual(SILENT);
  // Chains may go in a later transaction.
  await vi.waitFor(async () => expect(await lab.nft("list", "ruleset")).not.toMatch(/ping|icmp/), PATIENCE);
});
