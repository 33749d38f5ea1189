import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readRefusals } from "../../src/features/refusal-record/refused-set.ts";
import type { RefusalEntry } from "../../src/features/seam/refusals.ts";
import { type Objects, port, service, slice, testNodeContext } from "../support/build.ts";
import type { Lab } from "../support/lab/lab.ts";
import { nftOf } from "../support/lab/nft-of.ts";
import type { Outcome, Probe } from "../support/lab/outcome.ts";
import { addressesOf } from "../support/lab/topology.ts";
import { nftTables } from "../support/nft-tables.ts";
import { ProgrammedLab } from "../support/programmed-lab.ts";

// The rules record refusals, and the records never change the outcome.

const LOAD_BALANCER = { ip: "203.0.113.60", ip6: "fd00:1b::60" };

/** Every kind of refused or dropped packet. */
const OBJECTS: Objects = {
  services: [
    service({
      name: "none",
      clusterIPs: ["10.96.5.1", "fd00:10:96::51"],
      externalIPs: ["203.0.113.61"],
      ports: [port(80, { nodePort: 30080 })],
    }),
    service({
      name: "elsewhere",
      clusterIPs: ["10.96.5.2", "fd00:10:96::52"],
      ports: [port(80, { nodePort: 30081 })],
      external: "Local",
      internal: "Local",
    }),
    service({
      name: "guarded",
      clusterIPs: ["10.96.5.3", "fd00:10:96::53"],
      loadBalancerIPs: Object.values(LOAD_BALANCER),
      sourceRanges: ["198.51.100.0/24", "fd00:99::/64"],
    }),
  ],
  slices: [
    slice({ service: "elsewhere", endpoints: ["10.244.2.11"] }),
    slice({ service: "elsewhere", endpoints: ["fd00:244:2::11"] }),
    slice({ service: "guarded", endpoints: ["10.244.2.12"] }),
    slice({ service: "guarded", endpoints: ["fd00:244:2::12"] }),
  ],
};

type Row = readonly [what: string, probe: Omit<Probe, "id" | "proto">, result: "refused" | "timeout"];

const ROWS: readonly Row[] = [
  ["no endpoints", { from: "pod1", to: "10.96.5.1", port: 80 }, "refused"],
  ["no endpoints, IPv6", { from: "pod1", to: "fd00:10:96::51", port: 80 }, "refused"],
  ["no endpoints, from the node itself", { from: "node", to: "10.96.5.1", port: 80 }, "refused"],
  ["an external IP without endpoints", { from: "ext", to: "203.0.113.61", port: 80 }, "refused"],
  ["a NodePort without endpoints", { from: "ext", to: "192.0.2.2", port: 30080 }, "refused"],
  ["a NodePort without endpoints, IPv6", { from: "ext", to: "fd00:c0::2", port: 30080 }, "refused"],
  ["no endpoint on this node", { from: "pod1", to: "10.96.5.2", port: 80 }, "timeout"],
  ["a NodePort without an endpoint on this node", { from: "ext", to: "192.0.2.2", port: 30081 }, "timeout"],
  ["a port that is not served", { from: "pod1", to: "10.96.5.1", port: 81 }, "refused"],
  ["an address that no Service has", { from: "pod1", to: "10.96.5.99", port: 80 }, "timeout"],
  ["a source out of range", { from: "ext", to: LOAD_BALANCER.ip, port: 80 }, "timeout"],
  ["a source out of range, IPv6", { from: "ext", to: LOAD_BALANCER.ip6, port: 80 }, "timeout"],
];

let node: ProgrammedLab;
beforeAll(async () => {
  node = await ProgrammedLab.create();
});
afterAll(() => node?.close());

async function recorded(of = node): Promise<RefusalEntry[] | undefined> {
  return await readRefusals(nftTables(nftOf(of.lab)), ["ip", "ip6"], Date.now());
}

/** Time for a refusal, which must come at once. IPv6 may first need a neighbour solicitation. */
function probeOf(probe: Omit<Probe, "id" | "proto">, result?: Row[2]): Omit<Probe, "id"> {
  return { proto: "tcp", n: 1, wait: result === "timeout" ? 0.5 : 1.5, ...probe };
}

async function outcomes(
  rows: readonly Row[],
  lab: Lab,
): Promise<readonly (readonly [string, Outcome | undefined])[]> {
  const seen = await lab.probe(
    rows.map(([what, probe, result]) => ({ id: what, ...probeOf(probe, result) })),
  );
  return rows.map(([what]) => [what, seen.get(what)]);
}

const expected = (rows: readonly Row[]) => rows.map(([what, , result]) => [what, { result }]);

describe("refused packets", () => {
  let entries: readonly RefusalEntry[];

  beforeAll(async () => {
    await node.program(OBJECTS);
    expect((await node.outcome(probeOf({ from: "pod1", to: "10.96.5.3", port: 80 }))).result).toBe("ok");
    expect(await recorded(), "connections that are served").toEqual([]);
    expect(await outcomes(ROWS, node.lab)).toEqual(expected(ROWS));
    entries = (await recorded()) ?? [];
  });

  test.each(ROWS)("are recorded with client and destination: %s", (_what, { from, to, port: toPort }) => {
    const own = addressesOf(from);
    const client = to.includes(":") ? own.v6 : own.v4;
    const found = entries.filter(
      (entry) => entry.client === client && entry.address === to && entry.port === toPort,
    );
    expect(found).toHaveLength(1);
    expect(found[0]?.protocol).toBe("tcp");
    expect(found[0]?.packets).toBeGreaterThan(0);
    expect(found[0]?.silentFor).toBeLessThan(60);
  });

  test("are the only packets that are recorded", () => {
    expect(entries).toHaveLength(ROWS.length);
  });
});

test.each([
  ["a full set of records", 1],
  ["no set of records", 0],
])("%s does not change which packets are refused", async (_what, refusalLogSize) => {
  const small = await ProgrammedLab.create();
  try {
    await small.program(OBJECTS, testNodeContext({ refusalLogSize }));
    const others = ROWS.flatMap(([what, probe, result]): Row[] =>
      probe.from === "pod1" ? [[`${what}, from another pod`, { ...probe, from: "pod2" }, result]] : [],
    );
    const rows = [...ROWS, ...others];
    expect(await outcomes(rows, small.lab)).toEqual(expected(rows));
    if (refusalLogSize === 0) expect(await recorded(small)).toBeUndefined();
    else {
      const listing = await small.nft("list", "set", "ip", "nft-proxy", "refused");
      expect(listing).toContain("size 1\n");
      expect(listing.match(/ counter packets /g)).toHaveLength(1);
    }
  } finally {
    await small.close();
  }
});
