import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { dynamicElements, readListing } from "../../src/nft/canonical/parse.ts";
import { localEndpoint, type Objects, type ServiceOptions, service, slice, testNodeContext } from "../support/build.ts";
import type { ProbeSource } from "../support/lab/topology.ts";
import { ProgrammedLab } from "../support/programmed-lab.ts";

// Session affinity with real connections, where only a kernel can tell: who keeps which endpoint, and for how long.

const CLUSTER_IP = "10.96.5.1";
const EXTERNAL_IP = "203.0.113.50";
const ENDPOINTS = ["10.244.2.11", "10.244.2.12", "10.244.2.13", "10.244.3.11", "10.244.3.12", "10.244.3.13"];
const CLIENTS: readonly ProbeSource[] = ["pod1", "pod2", "pod3", "pod4", "pod5", "pod6", "ext", "ext2"];

let node: ProgrammedLab;
beforeAll(async () => {
  node = await ProgrammedLab.create();
});
afterAll(() => node?.close());
beforeEach(async () => {
  for (const map of ["affinity", "nodeport-affinity"]) await node.nft("flush", "map", "ip", "nft-proxy", map);
});

function sticky(endpoints: readonly string[], options: ServiceOptions = {}): Objects {
  return {
    services: [service({ clusterIPs: [CLUSTER_IP], externalIPs: [EXTERNAL_IP], affinitySeconds: 600, ...options })],
    slices: [
      slice({ endpoints: endpoints.map((each) => (each.startsWith("10.244.1.") ? localEndpoint(each) : each)) }),
    ],
  };
}

/** The one endpoint that answers all of a client's connections. */
async function endpointOf(from: ProbeSource, to = CLUSTER_IP): Promise<string> {
  const answers = await node.answers({ from, to, port: 80, proto: "tcp", n: 6 });
  expect(answers, `${from} meets one endpoint`).toHaveLength(1);
  return answers[0] ?? "";
}

async function endpointsOfAll(): Promise<Map<ProbeSource, string>> {
  const met = new Map<ProbeSource, string>();
  for (const client of CLIENTS) met.set(client, await endpointOf(client));
  return met;
}

/** What the kernel remembers of clients. */
async function remembered() {
  return dynamicElements(readListing(await node.nft("-j", "list", "map", "ip", "nft-proxy", "affinity")));
}

describe("a client with session affinity", () => {
  test("keeps its endpoint when others come and go", async () => {
    await node.program(sticky(ENDPOINTS.slice(0, 3)));
    const before = await endpointsOfAll();
    await node.program(sticky(ENDPOINTS));
    expect(await endpointsOfAll()).toEqual(before);
    const used = new Set(before.values());
    await node.program(sticky(ENDPOINTS.filter((each) => used.has(each))));
    expect(await endpointsOfAll()).toEqual(before);
  });

  test("gets another endpoint when its endpoint goes; other clients keep theirs", async () => {
    await node.program(sticky(ENDPOINTS));
    const before = await endpointsOfAll();
    const gone = before.get("ext") ?? "";
    const rest = ENDPOINTS.filter((each) => each !== gone);
    await node.program(sticky(rest));
    const after = await endpointsOfAll();
    for (const [client, endpoint] of before) {
      if (endpoint === gone) expect(rest).toContain(after.get(client));
      else expect(after.get(client)).toBe(endpoint);
    }
    await node.program(sticky(ENDPOINTS));
    expect(await endpointsOfAll()).toEqual(after);
  });

  test("is refused when the last endpoint goes, and served again when one comes", async () => {
    await node.program(sticky(["10.244.2.11"]));
    expect(await endpointOf("pod1")).toBe("10.244.2.11");
    await node.program(sticky([]));
    expect(await node.answers({ from: "pod1", to: CLUSTER_IP, port: 80, proto: "tcp" })).toEqual(["refused"]);
    await node.program(sticky(["10.244.2.12"]));
    expect(await endpointOf("pod1")).toBe("10.244.2.12");
  });

  test("from outside moves to a local endpoint when Cluster policy becomes Local", async () => {
    await node.program(sticky(ENDPOINTS));
    for (const client of ["ext", "ext2"] as const) expect(ENDPOINTS).toContain(await endpointOf(client, EXTERNAL_IP));
    await node.program(sticky([...ENDPOINTS, "10.244.1.11"], { external: "Local" }));
    for (const client of ["ext", "ext2"] as const) expect(await endpointOf(client, EXTERNAL_IP)).toBe("10.244.1.11");
    const pod = await endpointOf("pod3", EXTERNAL_IP);
    expect([...ENDPOINTS, "10.244.1.11"]).toContain(pod);
    await node.program(sticky(ENDPOINTS, { external: "Local" }));
    expect(await node.answers({ from: "ext", to: EXTERNAL_IP, port: 80, proto: "tcp", n: 2 })).toEqual(["timeout"]);
  });
});

describe("the time of session affinity", () => {
  test("restarts with every connection", async () => {
    await node.program(sticky(ENDPOINTS));
    const endpoint = await endpointOf("pod1");
    const [{ key, value } = { key: "", value: "" }] = await remembered();
    const element = (rest: string) => `{ ${key}${rest} }`;
    await node.nft("delete", "element", "ip", "nft-proxy", "affinity", element(""));
    const classid = `${(Number(value) >>> 16).toString(16)}:${(Number(value) & 0xffff).toString(16)}`;
    await node.nft("add", "element", "ip", "nft-proxy", "affinity", element(` timeout 600s expires 100s : ${classid}`));
    expect(await endpointOf("pod1")).toBe(endpoint);
    expect((await remembered()).map(({ expires }) => expires > 300)).toEqual([true]);
  });

  test("ends: the client's entry is deleted, and it is balanced again", async () => {
    await node.program(sticky(ENDPOINTS, { affinitySeconds: 1 }));
    const connect = () => node.answers({ from: "pod1", to: CLUSTER_IP, port: 80, proto: "tcp", n: 1 });
    const [first] = await connect();
    const others: string[] = [];
    // One of six at random again and again: less likely than 1 in 10^7.
    for (let round = 0; round < 10 && others.length === 0; round++) {
      await expect.poll(remembered, { timeout: 30_000 }).toEqual([]);
      others.push(...(await connect()).filter((each) => each !== first));
    }
    expect(ENDPOINTS).toContain(others[0]);
  });
});

test("a full affinity map costs stickiness, not connections", async () => {
  // The size is a part of the map's declaration, which a transaction cannot change in place.
  await node.program(sticky(ENDPOINTS), testNodeContext({ affinityMapSize: 2 }));
  for (const client of ["pod1", "pod2"] as const) await endpointOf(client);
  for (const client of ["pod3", "ext"] as const) {
    const answers = await node.answers({ from: client, to: CLUSTER_IP, port: 80, proto: "tcp" });
    expect(answers).toEqual(ENDPOINTS);
  }
  expect(await remembered()).toHaveLength(2);
  expect(await endpointOf("pod1")).toBe(await endpointOf("pod1"));
});
