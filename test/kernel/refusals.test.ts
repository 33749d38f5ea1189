import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type RefusalEntry, readRefusals } from "../../src/kernel/refusals.ts";
import { REFUSAL_TIMEOUT } from "../../src/ruleset/refusals.ts";
import { REFUSED } from "../../src/ruleset/sets.ts";
import { bothContexts, type Objects, port, service, slice } from "../support/build.ts";
import type { Probe } from "../support/lab/outcome.ts";
import { ProgrammedLab } from "../support/programmed-lab.ts";

// What the rules refuse is recorded, and what is recorded never changes what they refuse.

const LOAD_BALANCER = { ip: "203.0.113.60", ip6: "fd00:1b::60" };

/** Every way to be refused or dropped. */
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

async function recorded(): Promise<RefusalEntry[]> {
  const listSet = (family: string, kind: string, name: string) =>
    node.nft("-j", "list", kind, family, "nft-proxy", name).catch(() => undefined);
  return await readRefusals({ listSet }, ["ip", "ip6"], { set: REFUSED, timeout: REFUSAL_TIMEOUT });
}

/** A refusal must come at once; IPv6 may take a neighbour solicitation longer. */
function probeOf(probe: Omit<Probe, "id" | "proto">, result?: Row[2]): Omit<Probe, "id"> {
  return { proto: "tcp", n: 1, wait: result === "timeout" ? 0.5 : 1.5, ...probe };
}

describe("refusals", () => {
  beforeEach(async () => {
    await node.program(OBJECTS);
    for (const family of ["ip", "ip6"]) await node.nft("flush", "set", family, "nft-proxy", "refused");
  });

  test.each(ROWS)("%s: recorded with client and destination", async (_what, probe, result) => {
    expect(await node.outcome(probeOf(probe, result))).toEqual({ result });
    const entries = await recorded();
    expect(entries).toHaveLength(1);
    expect(entries[0]).toMatchObject({ address: probe.to, port: probe.port, protocol: "tcp" });
    expect(entries[0]?.packets).toBeGreaterThan(0);
    expect(entries[0]?.silentFor).toBeLessThan(60);
  });

  test("connections that are served are not recorded, nor is what has no ports", async () => {
    expect((await node.outcome(probeOf({ from: "pod1", to: "10.96.5.3", port: 80 }))).result).toBe("ok");
    expect(await recorded()).toEqual([]);
  });
});

test.each([
  ["a full set", 1],
  ["no set", 0],
])("%s: every refusal is as it was", async (_what, refusalLogSize) => {
  const small = await ProgrammedLab.create();
  try {
    await small.program(OBJECTS, bothContexts({ refusalLogSize }));
    for (const from of ["pod1", "pod2"] as const) {
      for (const [what, probe, result] of ROWS) {
        const asked = probe.from === "pod1" ? { ...probe, from } : probe;
        expect([what, await small.outcome(probeOf(asked, result))]).toEqual([what, { result }]);
      }
    }
    if (refusalLogSize > 0) {
      const listing = await small.nft("list", "set", "ip", "nft-proxy", "refused");
      expect(listing).toContain("size 1\n");
      expect(listing.match(/ counter packets /g)).toHaveLength(1);
    }
  } finally {
    await small.close();
  }
});
