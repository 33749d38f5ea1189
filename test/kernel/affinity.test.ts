import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type ByFamily, FAMILIES } from "../../src/base/family.ts";
import { formatClassid } from "../../src/nft/canonical/constant.ts";
import { AFFINITY } from "../../src/ruleset/sets.ts";
import { affinityEntries, affinityKey, parseAffinityKey } from "../support/affinity-entries.ts";
import {
  DRAINING,
  localEndpoint,
  type Objects,
  port,
  type ServiceOptions,
  service,
  slice,
  slicePort,
  testNodeContext,
} from "../support/build.ts";
import type { ProbeSource } from "../support/lab/topology.ts";
import { ProgrammedLab } from "../support/programmed-lab.ts";

// Session affinity with real connections, for questions that only a kernel can answer: which clients keep
// which endpoint, and for how long.

/** The addresses of a Service, and those of its endpoints elsewhere and on the node. */
interface Addresses {
  readonly clusterIP: string;
  readonly externalIP: string;
  readonly loadBalancerIP: string;
  readonly node: string;
  readonly elsewhere: readonly string[];
  readonly here: readonly string[];
}

const ADDRESSES: ByFamily<Addresses> = {
  ip: {
    clusterIP: "10.96.5.1",
    externalIP: "203.0.113.50",
    loadBalancerIP: "203.0.113.51",
    node: "192.0.2.2",
    elsewhere: ["10.244.2.11", "10.244.2.12", "10.244.2.13", "10.244.3.11", "10.244.3.12", "10.244.3.13"],
    here: ["10.244.1.11", "10.244.1.12"],
  },
  ip6: {
    clusterIP: "fd00:10:96::501",
    externalIP: "fd00:1b::50",
    loadBalancerIP: "fd00:1b::51",
    node: "fd00:c0::2",
    elsewhere: [
      "fd00:244:2::11",
      "fd00:244:2::12",
      "fd00:244:2::13",
      "fd00:244:3::11",
      "fd00:244:3::12",
      "fd00:244:3::13",
    ],
    here: ["fd00:244:1::11", "fd00:244:1::12"],
  },
};
const NODE_PORT = 30_050;
const CLIENTS: readonly ProbeSource[] = ["pod1", "pod2", "pod3", "pod4", "pod5", "pod6", "ext", "ext2"];
/** Two ways to bring a node's rules up to date with the objects. */
const CHANGES = [
  ["a restart", "program"],
  ["events", "follow"],
] as const;
const OUTSIDE: readonly ProbeSource[] = ["ext", "ext2"];

let node: ProgrammedLab;
beforeAll(async () => {
  node = await ProgrammedLab.create();
});
afterAll(() => node?.close());
beforeEach(async () => {
  for (const family of FAMILIES) await node.nft("flush", "map", family, "nft-proxy", AFFINITY);
});

describe.each(FAMILIES)("session affinity (%s)", (family) => {
  const { clusterIP, externalIP, loadBalancerIP, node: nodeAddress, elsewhere, here } = ADDRESSES[family];
  const EXTERNAL_WAYS = [
    ["external IP", externalIP, 80],
    ["load-balancer IP", loadBalancerIP, 80],
    ["NodePort", nodeAddress, NODE_PORT],
  ] as const;

  function sticky(endpoints: readonly string[], options: ServiceOptions = {}): Objects {
    const web: ServiceOptions = {
      clusterIPs: [clusterIP],
      externalIPs: [externalIP],
      loadBalancerIPs: [loadBalancerIP],
      ports: [port(80, { nodePort: NODE_PORT })],
      affinitySeconds: 600,
    };
    const given = endpoints.map((each) => (here.includes(each) ? localEndpoint(each) : each));
    return { services: [service({ ...web, ...options })], slices: [slice({ endpoints: given, family })] };
  }

  /** Returns the endpoint that answers each client. Fails if several endpoints answer one client. */
  async function endpointsOf(
    clients = CLIENTS,
    to = clusterIP,
    toPort = 80,
  ): Promise<Map<ProbeSource, string>> {
    const probes = clients.map((from) => ({ id: from, from, to, port: toPort, proto: "tcp" as const, n: 6 }));
    const tallies = await node.lab.observe(probes);
    return new Map(
      clients.map((client) => {
        const answers = Object.keys(tallies.get(client) ?? {}).map((answer) => answer.split(" ")[0] ?? "");
        const [answer = "", ...others] = new Set(answers);
        expect(others, `others than ${answer} answer ${client}`).toEqual([]);
        return [client, answer];
      }),
    );
  }

  const endpointOf = async (from: ProbeSource) => (await endpointsOf([from])).get(from) ?? "";

  /** Returns the entries of the affinity map. */
  async function remembered() {
    return affinityEntries(await node.nft("-j", "list", "map", family, "nft-proxy", AFFINITY));
  }

  describe("a client", () => {
    test("has the same endpoint at all addresses of a service port", async () => {
      await node.program(sticky(elsewhere));
      const before = await endpointsOf();
      for (const [name, to, toPort] of EXTERNAL_WAYS) {
        expect(await endpointsOf(CLIENTS, to, toPort), name).toEqual(before);
      }
      expect(await remembered()).toHaveLength(CLIENTS.length);
    });

    test("has an endpoint of its own for each port of a Service", async () => {
      const names = ["a", "b"];
      await node.program({
        services:
          sticky([], { ports: names.map((name, index) => port(80 + index, { name })) }).services ?? [],
        slices: [slice({ endpoints: elsewhere, ports: names.map((name) => slicePort(8080, { name })) })],
      });
      const before = await endpointsOf();
      const other = await endpointsOf(CLIENTS, clusterIP, 81);
      expect(await remembered()).toHaveLength(2 * CLIENTS.length);
      expect([...before.keys()].filter((client) => before.get(client) !== other.get(client))).not.toEqual([]);
      expect(await endpointsOf()).toEqual(before);
    });
  });

  describe.each(CHANGES)("after rules changed by %s, a client", (_, how) => {
    const change = (objects: Objects) => node[how](objects);

    test("keeps its endpoint when other endpoints are added and removed", async () => {
      await node.program(sticky(elsewhere.slice(0, 3)));
      const before = await endpointsOf();
      await change(sticky(elsewhere));
      expect(await endpointsOf()).toEqual(before);
      const used = new Set(before.values());
      await change(sticky(elsewhere.filter((each) => used.has(each))));
      expect(await endpointsOf()).toEqual(before);
    });

    test("gets another endpoint when its own is removed, and other clients keep theirs", async () => {
      await node.program(sticky(elsewhere));
      const before = await endpointsOf();
      const gone = before.get("ext") ?? "";
      const rest = elsewhere.filter((each) => each !== gone);
      await change(sticky(rest));
      const after = await endpointsOf();
      for (const [client, endpoint] of before) {
        if (endpoint === gone) expect(rest).toContain(after.get(client));
        else expect(after.get(client)).toBe(endpoint);
      }
      await change(sticky(elsewhere));
      expect(await endpointsOf()).toEqual(after);
    });

    test("is refused when the last endpoint is removed, and is served again when one is added", async () => {
      const [first, second] = elsewhere as [string, string];
      await node.program(sticky([first]));
      expect(await endpointOf("pod1")).toBe(first);
      await change(sticky([]));
      expect(await endpointOf("pod1")).toBe("refused");
      await change(sticky([second]));
      expect(await endpointOf("pod1")).toBe(second);
    });

    test("keeps its endpoint when Services whose names sort before and after are added and deleted", async () => {
      const [first] = elsewhere as [string];
      await node.program(sticky(elsewhere));
      const before = await endpointsOf();
      const { services = [], slices = [] } = sticky(elsewhere);
      const others = ["after", "before", "xenon"].map((name, index) => ({
        service: service({
          name,
          clusterIPs: [family === "ip" ? `10.96.5.${index + 10}` : `fd00:10:96::51${index}`],
        }),
        slice: slice({ service: name, endpoints: [first] }),
      }));
      await change({
        services: [...services, ...others.map((one) => ({ ...one.service, affinitySeconds: 60 }))],
        slices: [...slices, ...others.map((one) => one.slice)],
      });
      expect(await endpointsOf()).toEqual(before);
      await change(sticky(elsewhere));
      expect(await endpointsOf()).toEqual(before);
    });
  });

  describe("with external Local policy, a client", () => {
    const local: ServiceOptions = { external: "Local" };

    test("from outside with a local endpoint at an external address has this endpoint at the cluster IP, too", async () => {
      await node.program(sticky([...elsewhere, ...here], local));
      for (const [name, to, toPort] of EXTERNAL_WAYS) {
        await node.nft("flush", "map", family, "nft-proxy", AFFINITY);
        const before = await endpointsOf(OUTSIDE, to, toPort);
        for (const endpoint of before.values()) expect(here, name).toContain(endpoint);
        expect(await endpointsOf(OUTSIDE), name).toEqual(before);
      }
    });

    test("from outside with a remote endpoint gets a local one at an external address, and keeps its own at the cluster IP", async () => {
      for (const [name, to, toPort] of EXTERNAL_WAYS) {
        await node.nft("flush", "map", family, "nft-proxy", AFFINITY);
        await node.program(sticky(elsewhere, local));
        const before = await endpointsOf();
        await node.program(sticky([...elsewhere, ...here], local));
        expect(await endpointsOf(), name).toEqual(before);
        const after = await endpointsOf(OUTSIDE, to, toPort);
        for (const endpoint of after.values()) expect(here, name).toContain(endpoint);
        expect(await endpointsOf(), name).toEqual(before);
        expect(await endpointsOf(OUTSIDE, to, toPort), name).toEqual(after);
      }
    });

    test("of this cluster has the same endpoint at all addresses, local or remote", async () => {
      const pods = CLIENTS.filter((client) => !OUTSIDE.includes(client));
      await node.program(sticky(elsewhere, local));
      const before = await endpointsOf(pods);
      await node.program(sticky([...elsewhere, ...here], local));
      for (const [name, to, toPort] of EXTERNAL_WAYS)
        expect(await endpointsOf(pods, to, toPort), name).toEqual(before);
    });

    test("from outside is dropped without a local endpoint, and keeps its endpoint at the cluster IP", async () => {
      await node.program(sticky(elsewhere, local));
      const before = await endpointsOf(OUTSIDE);
      const probe = { to: externalIP, port: 80, proto: "tcp", n: 2 } as const;
      const probes = OUTSIDE.map((from) => ({ ...probe, id: from, from }));
      const outcomes = await node.lab.probe(probes);
      expect([...outcomes.values()]).toEqual([{ result: "timeout" }, { result: "timeout" }]);
      expect(await endpointsOf(OUTSIDE)).toEqual(before);
    });
  });

  describe("a client that uses all addresses in turn", () => {
    /** Returns the endpoints that answered clients outside at each address, in 15 turns. */
    async function byTurns(): Promise<readonly ReadonlySet<string>[]> {
      const ways = [
        [clusterIP, 80],
        ...EXTERNAL_WAYS.map(([, to, toPort]) => [to, toPort] as const),
      ] as const;
      const seen = ways.map(() => new Set<string>());
      for (let turn = 0; turn < 15; turn++) {
        for (const [index, [to, toPort]] of ways.entries()) {
          for (const [client, answer] of await endpointsOf(OUTSIDE, to, toPort))
            seen[index]?.add(`${client} ${answer}`);
        }
      }
      return seen;
    }

    test.each([
      ["external Local policy and a local endpoint that terminates", { external: "Local" }, 1],
      ["internal Local policy and a local endpoint that terminates", { internal: "Local" }, 0],
    ] as const)("keeps one endpoint for each policy, with %s", async (_, options, firstLocal) => {
      const [draining = ""] = here;
      await node.program({
        services: sticky([], options).services ?? [],
        slices: [slice({ endpoints: [...elsewhere, localEndpoint(draining, DRAINING)], family })],
      });
      const seen = await byTurns();
      const isLocal = (index: number) => (firstLocal === 0 ? index === 0 : index >= firstLocal);
      for (const [index, answers] of seen.entries()) {
        expect(answers.size).toBe(OUTSIDE.length);
        for (const each of answers)
          expect(isLocal(index) ? [draining] : elsewhere).toContain(each.split(" ")[1]);
      }
      // All addresses of one policy have the same endpoint.
      expect(new Set(seen.map((answers) => [...answers].sort().join())).size).toBe(2);
      expect(await remembered()).toHaveLength(2 * OUTSIDE.length);
    });
  });

  describe.each(CHANGES)(
    "a policy that becomes Local by %s leaves no client on a remote endpoint",
    (_, how) => {
      const change = (objects: Objects) => node[how](objects);

      test.each(EXTERNAL_WAYS)("at the %s", async (_way, to, toPort) => {
        await node.program(sticky(elsewhere));
        for (const endpoint of (await endpointsOf(OUTSIDE, to, toPort)).values())
          expect(elsewhere).toContain(endpoint);
        await change(sticky([...elsewhere, ...here], { external: "Local" }));
        for (const endpoint of (await endpointsOf(OUTSIDE, to, toPort)).values())
          expect(here).toContain(endpoint);
      });

      test("at the cluster IP", async () => {
        await node.program(sticky(elsewhere));
        const before = await endpointsOf();
        for (const endpoint of before.values()) expect(elsewhere).toContain(endpoint);
        await change(sticky([...elsewhere, ...here], { internal: "Local" }));
        for (const endpoint of (await endpointsOf()).values()) expect(here).toContain(endpoint);
        await change(sticky([...elsewhere, ...here]));
        expect(await endpointsOf(), "back again").toEqual(before);
      });
    },
  );

  describe("the timeout of an entry", () => {
    test("restarts with every connection", async () => {
      await node.program(sticky(elsewhere));
      const endpoint = await endpointOf("pod1");
      const [{ key, value } = { key: "", value: "" }] = await remembered();
      const { client, servicePort } = parseAffinityKey(key);
      const element = (rest: string) => `{ ${affinityKey(client, servicePort)}${rest} }`;
      await node.nft("delete", "element", family, "nft-proxy", AFFINITY, element(""));
      const shortened = ` timeout 600s expires 100s : ${formatClassid(Number(value))}`;
      await node.nft("add", "element", family, "nft-proxy", AFFINITY, element(shortened));
      expect(await endpointOf("pod1")).toBe(endpoint);
      expect((await remembered()).map(({ expiresMs = 0 }) => expiresMs > 300_000)).toEqual([true]);
    });

    test("applies to each client from its next connection on when it changes, and clients keep their endpoints", async () => {
      await node.program(sticky(elsewhere));
      const before = await endpointsOf();
      await node.program(sticky(elsewhere, { affinitySeconds: 300 }));
      // The kernel always lists the first timeout of an element, so this compares the time left.
      const left = async () => (await remembered()).map(({ expiresMs = 0 }) => expiresMs / 1000);
      for (const seconds of await left()) expect(seconds).toBeGreaterThan(300);
      expect(await endpointsOf()).toEqual(before);
      for (const seconds of await left()) expect(seconds).toSatisfy((one) => one > 200 && one <= 300);
      expect(await remembered()).toHaveLength(CLIENTS.length);
    });

    test("is at least the Service's and at most a tenth longer", async () => {
      for (const affinitySeconds of [7000, 7300]) {
        await node.program(sticky(elsewhere, { affinitySeconds }));
        await endpointOf("pod1");
        const [{ expiresMs = 0 } = {}] = await remembered();
        expect(expiresMs / 1000).toBeGreaterThan(affinitySeconds - 60);
        expect(expiresMs / 1000).toBeLessThanOrEqual(affinitySeconds * 1.1);
      }
    });

    test("expires: the entry is deleted, and the client is balanced again", async () => {
      await node.program(sticky(elsewhere, { affinitySeconds: 1 }));
      const connect = () => node.answers({ from: "pod1", to: clusterIP, port: 80, proto: "tcp", n: 1 });
      const [first] = await connect();
      const others: string[] = [];
      // The chance that one of six is drawn ten more times in a row is less than 1 in 10^7.
      for (let round = 0; round < 10 && others.length === 0; round++) {
        await expect.poll(remembered, { timeout: 30_000 }).toEqual([]);
        others.push(...(await connect()).filter((each) => each !== first));
      }
      expect(elsewhere).toContain(others[0]);
    });
  });

  test("is lost for new clients when the map is full, but no connection fails", async () => {
    // A new node context, because a transaction cannot change the size of an existing map.
    await node.program(sticky(elsewhere), testNodeContext({ affinityMapSize: 2 }));
    const before = await endpointsOf(["pod1", "pod2"]);
    for (const [from, to] of [
      ["pod3", clusterIP],
      ["ext", clusterIP],
      ["ext2", externalIP],
    ] as const) {
      expect(await node.answers({ from, to, port: 80, proto: "tcp" })).toEqual(elsewhere);
    }
    expect(await remembered()).toHaveLength(2);
    expect(await endpointsOf(["pod1", "pod2"])).toEqual(before);
  });
});
