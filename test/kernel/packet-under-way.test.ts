import { afterEach, beforeEach, expect, test } from "vitest";
import { DEFAULT_PASSIVE_HEALTH_CHECK } from "../../src/features/passive-health-checks/check.ts";
import { WATCH_SETS } from "../../src/features/passive-health-checks/rules.ts";
import { port, service, slice } from "../support/build.ts";
import { ProgrammedLab } from "../support/programmed-lab.ts";

// Look-ups see the newest elements, while a packet in flight still follows the old rules. Such a packet can
// meet this state once in thousands of changes. Here the state is permanent: elements are missing that rules
// and other elements still refer to.

const CLUSTER_IP = "10.96.6.1";
const CLIENTS = ["pod1", "pod2", "pod3", "pod4"] as const;

let node: ProgrammedLab;
beforeEach(async () => {
  node = await ProgrammedLab.create();
});
afterEach(() => node?.close());

const nft = (...args: string[]) => node.lab.mustRun("node", ["nft", ...args]);

async function program(options: Parameters<typeof service>[0]): Promise<void> {
  await node.program({
    services: [service({ clusterIPs: [CLUSTER_IP], ports: [port(80)], ...options })],
    slices: [slice({ endpoints: ["10.244.2.11", "10.244.2.12", "10.244.3.11"] })],
  });
}

/** Deletes the only element of a map whose listing contains a text. */
async function deleteElement(map: string, text: string): Promise<void> {
  const listing = await nft("list", "map", "ip", "nft-proxy", map);
  const elements = [...listing.matchAll(/([0-9a-f]+:[0-9a-f]* \. \w+) : [^,}]+/g)];
  const [key, ...others] = elements.filter(([line]) => line.includes(text)).map(([, of = ""]) => of);
  expect(others).toEqual([]);
  await nft("delete", "element", "ip", "nft-proxy", map, `{ ${key} }`);
}

/** Returns the outcomes of 80 connections from clients without affinity entries. */
async function answers(): Promise<ReadonlySet<string>> {
  const seen = new Set<string>();
  for (let round = 0; round < 20; round++) {
    await nft("flush", "map", "ip", "nft-proxy", "affinity-clients");
    const tallies = await node.lab.observe(
      CLIENTS.map((from) => ({ id: from, from, to: CLUSTER_IP, port: 80, proto: "tcp", n: 1 })),
    );
    for (const tally of tallies.values())
      for (const answer of Object.keys(tally)) seen.add(answer.split(" ")[0] ?? "");
  }
  return seen;
}

test.each([
  ["the last endpoint of its list", {}, "endpoints", ". 2 :"],
  ["the last endpoint of its list, with session affinity", { affinitySeconds: 600 }, "affinity-ids", ". 2 :"],
  ["the drawn endpoint, with session affinity", { affinitySeconds: 600 }, "endpoints", "10.244.3.11"],
] as const)("a packet that does not find %s goes to another endpoint", async (_, options, map, element) => {
  await program(options);
  expect((await answers()).size).toBe(3);
  await deleteElement(map, element);
  expect(await answers()).toEqual(new Set(["10.244.2.11", "10.244.2.12"]));
});

test("a connection to an endpoint that is no longer or not yet watched is served, and is not counted", async () => {
  await program({ passiveHealthCheck: DEFAULT_PASSIVE_HEALTH_CHECK });
  for (const set of WATCH_SETS)
    await nft("delete", "element", "ip", "nft-proxy", set, "{ 10.244.3.11 . 8080 }");
  const probe = { from: "pod1", to: CLUSTER_IP, port: 80, proto: "tcp", n: 60 } as const;
  expect(await node.answers(probe)).toEqual(["10.244.2.11", "10.244.2.12", "10.244.3.11"]);
  const counted = async (set: string) =>
    [...(await nft("list", "set", "ip", "nft-proxy", set)).matchAll(/(\S+) \. 8080 counter packets [1-9]/g)]
      .map(([, address]) => address)
      .sort();
  expect(await counted("endpoint-attempts")).toEqual(["10.244.2.11", "10.244.2.12"]);
  expect(await counted("endpoint-answers")).toEqual(["10.244.2.11", "10.244.2.12"]);
});
