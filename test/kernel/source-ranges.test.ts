import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { addressText, addressWidth, parseInterval } from "../../src/base/address-interval.ts";
import { type ByFamily, FAMILIES, type Family } from "../../src/base/family.ts";
import { splitParts } from "../../src/nft/elements.ts";
import { SOURCE_RANGES_CHECK } from "../../src/ruleset/chain-names.ts";
import { SOURCE_RANGES } from "../../src/ruleset/sets.ts";
import { fullSync } from "../../src/sync/full-sync.ts";
import {
  type Objects,
  port,
  renderAll,
  type ServiceOptions,
  service,
  slice,
  slicePort,
} from "../support/build.ts";
import { createLab, type Lab } from "../support/lab/lab.ts";
import { nftOf } from "../support/lab/nft-of.ts";
import type { Outcome, Probe } from "../support/lab/outcome.ts";
import { parseWithElements } from "../support/listed-elements.ts";
import { nftTables } from "../support/nft-tables.ts";
import { ProgrammedLab } from "../support/programmed-lab.ts";

// Source ranges with real connections. Of the two clients outside, `ext` is not allowed and `ext2` is.

const PORTS = [port(80, { name: "http" }), port(53, { name: "dns", protocol: "udp" })];
const SLICE_PORTS = [slicePort(8080, { name: "http" }), slicePort(5353, { name: "dns", protocol: "udp" })];

interface Addresses {
  /** The load-balancer IPs of two Services. */
  readonly first: string;
  readonly second: string;
  readonly clusterIPs: readonly string[];
  readonly endpoint: string;
  /** The same ranges with `ext2`, written in two ways. */
  readonly ranges: readonly string[];
  readonly sameRanges: readonly string[];
  /** Ranges with `ext`. */
  readonly otherRanges: readonly string[];
}

const ADDRESSES: ByFamily<Addresses> = {
  ip: {
    first: "203.0.113.70",
    second: "203.0.113.71",
    clusterIPs: ["10.96.7.1", "10.96.7.2"],
    endpoint: "10.244.2.11",
    ranges: ["198.51.100.0/24", "192.0.2.128/25"],
    sameRanges: ["192.0.2.192/26", "192.0.2.128/26", "198.51.100.0/24", "198.51.100.7/32"],
    otherRanges: ["192.0.2.0/25"],
  },
  ip6: {
    first: "fd00:1b::70",
    second: "fd00:1b::71",
    clusterIPs: ["fd00:10:96::71", "fd00:10:96::72"],
    endpoint: "fd00:244:2::11",
    ranges: ["fd00:99::/64", "fd00:c0::100/120", "fd00:c0::200/120"],
    sameRanges: ["fd00:c0::200/120", "fd00:99::/64", "fd00:c0::100/120"],
    otherRanges: ["fd00:c0::/120"],
  },
};

interface Cluster {
  readonly ranges: readonly string[];
  /** The ranges of a second Service. If absent, there is only one Service. */
  readonly others?: readonly string[];
  readonly endpoints?: readonly string[];
}

function cluster(family: Family, { ranges, others, endpoints }: Cluster): Objects {
  const { first, second, clusterIPs, endpoint } = ADDRESSES[family];
  const options = (index: number, address: string, sourceRanges: readonly string[]): ServiceOptions => ({
    name: `guarded-${family}-${index}`,
    clusterIPs: clusterIPs.slice(index, index + 1),
    loadBalancerIPs: [address],
    ports: PORTS,
    sourceRanges,
  });
  const all = [options(0, first, ranges), ...(others === undefined ? [] : [options(1, second, others)])];
  return {
    services: all.map((each) => service(each)),
    slices: all.map(({ name = "" }) =>
      slice({ service: name, ports: SLICE_PORTS, endpoints: endpoints ?? [endpoint], family }),
    ),
  };
}

const PROTOCOLS = [
  ["tcp", 80],
  ["udp", 53],
] as const;

const served: Outcome = { result: "ok" };
const dropped: Outcome = { result: "timeout" };
const refused: Outcome = { result: "refused" };

let node: ProgrammedLab;
beforeAll(async () => {
  node = await ProgrammedLab.create();
});
afterAll(() => node?.close());

/**
 * Returns the outcomes of packets from both clients to addresses over TCP and UDP, by names such as
 * `ext 203.0.113.70 tcp`.
 */
async function outcomes(...addresses: readonly string[]): Promise<Record<string, Outcome>> {
  const probes = addresses.flatMap((to) =>
    PROTOCOLS.flatMap(([proto, number]) =>
      (["ext", "ext2"] as const).map((from): Probe => {
        return { id: `${from} ${to} ${proto}`, from, to, port: number, proto, n: 1 };
      }),
    ),
  );
  const seen = await node.lab.probe(probes);
  return Object.fromEntries([...seen].map(([id, { result }]) => [id, { result }]));
}

/** Returns the {@link outcomes} if all packets of each client have the same outcome. */
function ofClients(ext: Outcome, ext2: Outcome, ...addresses: readonly string[]): Record<string, Outcome> {
  return Object.fromEntries(
    addresses.flatMap((to) =>
      PROTOCOLS.flatMap(([proto]) => [
        [`ext ${to} ${proto}`, ext],
        [`ext2 ${to} ${proto}`, ext2],
      ]),
    ),
  );
}

/** Counts the lists of source ranges in the kernel; undefined if it has no set of them. */
async function lists(family: Family): Promise<number | undefined> {
  const table = parseWithElements(await node.nft("-j", "list", "table", family, "nft-proxy"))[family];
  const set = table?.sets.get(SOURCE_RANGES);
  expect(table?.chains.has(SOURCE_RANGES_CHECK)).toBe(set !== undefined);
  return set && new Set([...set.elements.keys()].map((key) => splitParts(key)[1])).size;
}

describe.each(FAMILIES)("source ranges (%s)", (family) => {
  const { first, second, clusterIPs, ranges, sameRanges, otherRanges } = ADDRESSES[family];

  test("that two Services share are one list, and restrict both Services", async () => {
    await node.program(cluster(family, { ranges, others: sameRanges }));
    expect(await lists(family)).toBe(1);
    expect(await outcomes(first, second)).toEqual(ofClients(dropped, served, first, second));
  });

  test("still restrict a Service after another Service that shared them is changed or deleted", async () => {
    await node.program(cluster(family, { ranges, others: otherRanges }));
    expect(await lists(family)).toBe(2);
    expect(await outcomes(first, second)).toEqual({
      ...ofClients(dropped, served, first),
      ...ofClients(served, dropped, second),
    });
    await node.follow(cluster(family, { ranges, others: sameRanges }));
    expect(await outcomes(first, second)).toEqual(ofClients(dropped, served, first, second));
    // The list that no Service has any more is deleted with the next change.
    await node.follow(cluster(family, { ranges }));
    expect(await lists(family)).toBe(1);
    expect(await outcomes(first)).toEqual(ofClients(dropped, served, first));
    expect(await node.differences()).toEqual([]);
  });

  test("are removed with the last Service that has them, and packets are no longer checked", async () => {
    await node.program(cluster(family, { ranges, others: sameRanges }));
    await node.follow(cluster(family, { ranges: [], others: sameRanges }));
    expect(await lists(family)).toBe(1);
    // Their elements are deleted first.
    for (const _ of [1, 2]) await node.follow(cluster(family, { ranges: [], others: [] }));
    expect(await lists(family)).toBeUndefined();
    expect(await outcomes(first, second)).toEqual(ofClients(served, served, first, second));
  });

  test("of 64 and of 65 prefixes that two Services share are one list, and restrict both Services", async () => {
    for (const count of [64, 65, 64]) {
      const list = [...ranges.slice(-1), ...MANY[family].slice(1, count)];
      await node.follow(cluster(family, { ranges: list, others: list }));
      expect(await outcomes(first, second)).toEqual(ofClients(dropped, served, first, second));
      expect(await node.differences()).toEqual([]);
    }
    await node.program(cluster(family, { ranges: sameRanges, others: sameRanges }));
    expect(await lists(family)).toBe(1);
    expect(await outcomes(first, second)).toEqual(ofClients(dropped, served, first, second));
  });

  test("of a Service without endpoints drop clients that are not allowed, and allowed ones are refused", async () => {
    await node.program(cluster(family, { ranges, others: otherRanges, endpoints: [] }));
    expect(await outcomes(first, second, ...clusterIPs)).toEqual({
      ...ofClients(dropped, refused, first),
      ...ofClients(refused, dropped, second),
      ...ofClients(refused, refused, ...clusterIPs),
    });
  });
});

/**
 * 20,000 ranges of four addresses that do not touch each other: the first, 19,998 in between, and the last.
 */
const MANY: ByFamily<readonly string[]> = {
  ip: ["11.0.0.0/30", ...many((n) => `20.${n >> 13}.${(n >> 5) & 255}.${(n & 31) * 8}/30`), "223.255.0.4/30"],
  ip6: ["fd00:11::/126", ...many((n) => `fd00:20::${n.toString(16)}:0/126`), "fd00:ff::4/126"],
};

function many(rangeOf: (n: number) => string): string[] {
  return Array.from({ length: 19_998 }, (_, n) => rangeOf(n));
}

/**
 * Clients inside the first range, one in the middle and the last one, and the addresses right before and
 * after each of these.
 */
const INSIDE: ByFamily<readonly string[]> = {
  ip: ["11.0.0.0", "11.0.0.3", "20.1.0.8", "20.1.0.11", "223.255.0.4", "223.255.0.7"],
  ip6: ["fd00:11::", "fd00:11::3", "fd00:20::2001:0", "fd00:20::2001:3", "fd00:ff::4", "fd00:ff::7"],
};
const BESIDE: ByFamily<readonly string[]> = {
  ip: ["10.255.255.255", "11.0.0.4", "20.1.0.7", "20.1.0.12", "223.255.0.3", "223.255.0.8"],
  ip6: ["fd00:10:ffff::1", "fd00:11::4", "fd00:20::2000:ffff", "fd00:20::2001:4", "fd00:ff::3", "fd00:ff::8"],
};

/**
 * Connects to an address and port from several addresses. Prints `ok ADDRESS` for each that is answered
 * within 2 s.
 */
const CONNECT = `
  const [host, port, ...sources] = process.argv.slice(1);
  for (const localAddress of sources) {
    const socket = require("node:net").connect({ host, port, localAddress, timeout: 2000 });
    socket.on("data", () => console.log("ok " + localAddress));
    socket.on("timeout", () => socket.destroy());
    socket.on("error", (error) => console.log(error.code + " " + localAddress));
  }
`;

/**
 * Connects to the first Service from many addresses of the client outside. Returns the sorted lines of
 * {@link CONNECT}.
 */
async function answered(lab: Lab, family: Family, sources: readonly string[]): Promise<readonly string[]> {
  const length = addressWidth(family);
  const lines = sources.map((source) => `addr replace ${source}/${length} dev lo`);
  await lab.mustRun("ext", ["ip", "-batch", "-"], { input: `${lines.join("\n")}\n` });
  const connect = [process.execPath, "--eval", CONNECT, ADDRESSES[family].first, "80", ...sources] as const;
  return (await lab.mustRun("ext", connect)).split("\n").sort();
}

/** Disjoint prefixes of all lengths that do not contain the node. */
const OF_ALL_LENGTHS: ByFamily<readonly string[]> = {
  ip: [
    ...["160.0.0.0/3", "128.0.0.0/4", "96.0.0.0/5", "108.0.0.0/6", "116.0.0.0/7"],
    ...lengthsFrom(8, 32, (length) => `${4 + 2 * length}.0.0.0`),
  ],
  ip6: [
    ...["4000::/3", "7000::/4", "9800::/5", "8c00::/6", "9200::/7", "9500::/8"],
    ...lengthsFrom(9, 16, (length) => `${(0xa000 + 0x200 * length).toString(16)}::`),
    ...lengthsFrom(17, 128, (length) => `${(0x3000 + 2 * length).toString(16)}::`),
  ],
};

function lengthsFrom(first: number, last: number, addressOf: (length: number) => string): string[] {
  return Array.from({ length: last - first + 1 }, (_, n) => `${addressOf(first + n)}/${first + n}`);
}

test.each(FAMILIES)(
  "prefixes of each length allow the clients at both ends, and none beside (%s)",
  async (family) => {
    const prefixes = OF_ALL_LENGTHS[family];
    await node.program(cluster(family, { ranges: prefixes }));
    const ends = prefixes.map((prefix) => parseInterval(family, prefix));
    const text = (address: bigint) => addressText(family, address);
    const inside = [...new Set(ends.flatMap(({ first, last }) => [text(first), text(last)]))];
    const beside = ends.flatMap(({ first, last }) => [text(first - 1n), text(last + 1n)]);
    const expected = inside.map((source) => `ok ${source}`).sort();
    expect(await answered(node.lab, family, [...inside, ...beside])).toEqual(expected);
  },
);

describe("20,000 source ranges of one Service, loaded in several transactions", () => {
  let lab: Lab;
  beforeAll(async () => {
    lab = await createLab();
    const clusters = FAMILIES.map((family) => cluster(family, { ranges: MANY[family] }));
    const objects: Objects = {
      services: clusters.flatMap(({ services = [] }) => services),
      slices: clusters.flatMap(({ slices = [] }) => slices),
    };
    const desired = renderAll(objects).state.ruleset;
    const nft = nftOf(lab);
    const { applied } = await fullSync(nft, nftTables(nft), desired);
    expect(applied.length, "transactions").toBeGreaterThan(5);
    expect((await fullSync(nft, nftTables(nft), desired)).deltas).toEqual([]);
  });
  afterAll(() => lab?.close());

  test.each(FAMILIES)("allow the clients at both ends of ranges, and none outside (%s)", async (family) => {
    const lines = await answered(lab, family, [...INSIDE[family], ...BESIDE[family]]);
    expect(lines).toEqual(INSIDE[family].map((source) => `ok ${source}`).sort());
  });
});
