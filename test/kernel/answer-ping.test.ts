import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { localEndpoint, port, type ServiceOptions, testNodeContext } from "../support/build.ts";
import type { Outcome } from "../support/lab/outcome.ts";
import type { ProbeSource } from "../support/lab/topology.ts";
import { answered, dropped, objects, type PacketRow, packetTable, refused } from "../support/packet-table.ts";
import { ProgrammedLab } from "../support/programmed-lab.ts";

// Pings to addresses of Services, with real echo requests from a pod, the node, another node and outside.

let node: ProgrammedLab;
beforeAll(async () => {
  node = await ProgrammedLab.create();
});
afterAll(() => node?.close());

const ON = testNodeContext({ settings: { answerPing: true } });
const ENDPOINTS = [{ endpoints: ["10.244.2.11"] }, { endpoints: ["fd00:244:2::11"] }] as const;
const [NODE, NODE6, SECOND] = ["192.0.2.2", "fd00:c0::2", "198.51.100.2"] as const;

const WEB: ServiceOptions = {
  name: "web",
  clusterIPs: ["10.96.3.1", "fd00:10:96::301"],
  externalIPs: ["203.0.113.30", "fd00:1b::30"],
  loadBalancerIPs: ["203.0.113.31", "fd00:1b::31", SECOND],
};
const EMPTY: ServiceOptions = {
  name: "empty",
  clusterIPs: ["10.96.3.2", "fd00:10:96::302"],
  externalIPs: ["203.0.113.32", "fd00:1b::32"],
};
const GUARDED: ServiceOptions = {
  name: "guarded",
  clusterIPs: ["10.96.3.3", "fd00:10:96::303"],
  loadBalancerIPs: ["203.0.113.33", "fd00:1b::33"],
  sourceRanges: ["192.0.2.200/32", "10.244.1.11/32", "fd00:c0::200/128", "fd00:244:1::11/128"],
};
const LOCAL: ServiceOptions = {
  name: "local",
  clusterIPs: ["10.96.3.4", "fd00:10:96::304"],
  loadBalancerIPs: ["203.0.113.34", "fd00:1b::34"],
  external: "Local",
  internal: "Local",
};
const LOCAL_HERE: ServiceOptions = {
  ...LOCAL,
  name: "local-here",
  clusterIPs: ["10.96.3.5", "fd00:10:96::305"],
  loadBalancerIPs: ["203.0.113.35", "fd00:1b::35"],
};
/** Two Services that share an address have source ranges of their own. */
const SHARED = ["203.0.113.36", "fd00:1b::36"] as const;
const FIRST: ServiceOptions = {
  name: "first",
  clusterIPs: ["10.96.3.6", "fd00:10:96::306"],
  loadBalancerIPs: SHARED,
  sourceRanges: ["192.0.2.200/32", "fd00:c0::200/128"],
};
const SECOND_PORT: ServiceOptions = {
  ...FIRST,
  name: "second",
  clusterIPs: ["10.96.3.7", "fd00:10:96::307"],
  ports: [port(81)],
  sourceRanges: ["10.244.1.8/29", "fd00:244:1::11/128"],
};
const GUARDED_LOCAL: ServiceOptions = {
  ...LOCAL,
  name: "guarded-local",
  clusterIPs: ["10.96.3.8", "fd00:10:96::308"],
  loadBalancerIPs: ["203.0.113.38", "fd00:1b::38"],
  sourceRanges: ["192.0.2.200/32", "10.244.1.11/32", "fd00:c0::200/128", "fd00:244:1::11/128"],
};
const OBJECTS = objects(
  [WEB, ...ENDPOINTS],
  [EMPTY],
  [GUARDED, ...ENDPOINTS],
  [LOCAL, ...ENDPOINTS],
  [FIRST, ...ENDPOINTS],
  [SECOND_PORT, ...ENDPOINTS],
  [GUARDED_LOCAL, ...ENDPOINTS],
  [
    LOCAL_HERE,
    { endpoints: [localEndpoint("10.244.1.12")] },
    { endpoints: [localEndpoint("fd00:244:1::12")] },
  ],
);

const ping = (from: ProbeSource, to: string, expected: Outcome): Omit<PacketRow, "shows"> => ({
  ...{ from, to, port: 0, proto: "ping", n: 2, expected },
});
/** The answer comes from the address that was pinged. */
const pong = (address: string): Outcome => answered("kept", `${address} 0`);

/** The same expectation for each client. */
function rows(
  shows: string,
  from: readonly ProbeSource[],
  to: readonly string[],
  expected?: Outcome,
): PacketRow[] {
  return from.flatMap((client) =>
    to.map((address) => ({
      shows: `${shows}: from ${client} to ${address}`,
      ...ping(client, address, expected ?? pong(address)),
    })),
  );
}

const EVERYWHERE = ["pod1", "node", "node2", "ext"] as const;

packetTable(() => node, "with --answer-ping", OBJECTS, ON, [
  ...rows("a Service with endpoints answers", EVERYWHERE, [
    ...["10.96.3.1", "fd00:10:96::301", "203.0.113.30", "fd00:1b::30", "203.0.113.31", "fd00:1b::31"],
  ]),
  ...rows("an endpoint's own Service answers", ["pod2"], ["10.96.3.5", "fd00:10:96::305"]),
  ...rows("a cluster IP without endpoints refuses", EVERYWHERE, ["10.96.3.2", "fd00:10:96::302"], refused),
  ...rows(
    "an external IP without endpoints is silent",
    ["pod1", "ext"],
    ["203.0.113.32", "fd00:1b::32"],
    dropped,
  ),
  ...rows(
    "an address without a Service is silent",
    ["pod1", "ext"],
    ["203.0.113.99", "fd00:1b::99", "10.96.99.9"],
    dropped,
  ),
  ...rows("source ranges allow", ["ext2", "pod1"], ["203.0.113.33", "fd00:1b::33"]),
  ...rows("source ranges do not allow", ["ext", "node2", "pod3"], ["203.0.113.33", "fd00:1b::33"], dropped),
  ...rows("source ranges do not hold for cluster IPs", ["ext", "pod3"], ["10.96.3.3", "fd00:10:96::303"]),
  ...rows("source ranges of either Service at an address allow", ["ext2", "pod1", "pod5"], [SHARED[0]]),
  ...rows("source ranges of either Service at an address allow", ["ext2", "pod1"], [SHARED[1]]),
  ...rows("source ranges of no Service at an address allow", ["ext", "node2", "pod6"], SHARED, dropped),
  ...rows(
    "external Local policy without a local endpoint, and source ranges allow",
    ["pod1"],
    ["203.0.113.38", "fd00:1b::38"],
  ),
  ...rows(
    "external Local policy without a local endpoint, or source ranges do not allow",
    ["ext2", "ext", "pod3"],
    ["203.0.113.38", "fd00:1b::38"],
    dropped,
  ),
  ...rows("Local policy with a local endpoint answers", EVERYWHERE, [
    ...["10.96.3.5", "fd00:10:96::305", "203.0.113.35", "fd00:1b::35"],
  ]),
  ...rows(
    "external Local policy without a local endpoint",
    ["pod1", "node"],
    ["203.0.113.34", "fd00:1b::34"],
  ),
  ...rows(
    "external Local policy without a local endpoint is silent",
    ["ext", "node2"],
    ["203.0.113.34", "fd00:1b::34"],
    dropped,
  ),
  ...rows(
    "internal Local policy without a local endpoint refuses",
    ["pod1", "ext"],
    ["10.96.3.4", "fd00:10:96::304"],
    refused,
  ),
  ...rows("the node's own addresses answer", EVERYWHERE, [NODE, NODE6, SECOND]),
  ...rows(
    "a pod and another node answer themselves",
    ["pod3", "node"],
    ["10.244.1.11", "10.244.2.11", "192.0.2.3"],
  ),
]);

packetTable(() => node, "without --answer-ping", OBJECTS, testNodeContext(), [
  ...rows("a cluster IP refuses", EVERYWHERE, ["10.96.3.1", "fd00:10:96::301"], refused),
  ...rows("an external IP is silent", ["pod1", "ext"], ["203.0.113.30", "fd00:1b::30"], dropped),
  ...rows("the node's own addresses answer", EVERYWHERE, [NODE, NODE6, SECOND]),
]);

packetTable(
  () => node,
  "with --answer-ping and no address of the node",
  OBJECTS,
  testNodeContext({ settings: { answerPing: true }, nodeAddress: "" }),
  rows("a cluster IP refuses", ["pod1", "node", "ext"], ["10.96.3.1", "fd00:10:96::301"], refused),
);

describe("pings while the cluster changes", () => {
  const outcomes = async () => {
    const probes = (["pod1", "node", "ext"] as const).flatMap((from) =>
      ["10.96.3.1", "fd00:10:96::301"].map((to) => ({ id: `${from} ${to}`, ...ping(from, to, refused) })),
    );
    const seen = await node.lab.probe(probes);
    return probes.map(({ id, to }) =>
      JSON.stringify(seen.get(id)) === JSON.stringify(pong(to)) ? "pong" : seen.get(id)?.result,
    );
  };
  const all = (result: string) => Array.from({ length: 6 }, () => result);

  test("are answered again when the last endpoint has left and come back", async () => {
    await node.program(OBJECTS, ON);
    await node.follow(objects([WEB, ...ENDPOINTS]));
    expect(await outcomes()).toEqual(all("pong"));
    await node.follow(objects([WEB]));
    expect(await outcomes()).toEqual(all("refused"));
    await node.follow(objects([WEB, ...ENDPOINTS]));
    expect(await outcomes()).toEqual(all("pong"));
    expect(await node.differences()).toEqual([]);
  });

  test("are answered while the option is on, and not after it is switched off", async () => {
    await node.program(OBJECTS);
    expect(await outcomes()).toEqual(all("refused"));
    await node.program(OBJECTS, ON);
    expect(await outcomes()).toEqual(all("pong"));
    expect(await node.differences()).toEqual([]);
    await node.program(OBJECTS);
    expect(await outcomes()).toEqual(all("refused"));
    expect(await node.differences()).toEqual([]);
    expect(await node.nft("list", "ruleset")).not.toMatch(/ping|icmp/);
  });
});

test("echo requests of two clients with one id, and to two addresses, get answers of their own", async () => {
  await node.program(OBJECTS, ON);
  const probes = (["pod1", "pod2", "ext", "ext2"] as const).flatMap((from) =>
    ["10.96.3.1", "203.0.113.30", NODE].map((to) => ({
      id: `${from} ${to}`,
      ...ping(from, to, refused),
      n: 10,
    })),
  );
  const seen = await node.lab.probe(probes);
  expect(probes.map(({ id }) => seen.get(id))).toEqual(probes.map(({ to }) => pong(to)));
});

test("a pod gets answers through an interface of the node without an address, as with Calico", async () => {
  await node.program(OBJECTS, ON);
  await node.lab.mustRun("node", ["ip", "-4", "addr", "flush", "dev", "pod6"]);
  await node.lab.mustRun("node", ["ip", "route", "replace", "10.244.1.16/32", "dev", "pod6"]);
  await node.lab.mustRun("node", ["sysctl", "-qw", "net.ipv4.conf.pod6.proxy_arp=1"]);
  expect(await node.outcome(ping("pod6", "10.96.3.1", refused))).toEqual(pong("10.96.3.1"));
});
