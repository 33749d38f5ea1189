import { afterAll, beforeAll, expect, test } from "vitest";
import type { NodeContext } from "../../src/ruleset/node-context.ts";
import {
  DRAINING,
  familyContext,
  localEndpoint,
  type Objects,
  port,
  type ServiceOptions,
  slicePort,
  testNodeContext,
} from "../support/build.ts";
import type { Outcome, Probe } from "../support/lab/outcome.ts";
import {
  answered,
  dropped,
  objects,
  type PacketRow,
  packetTable,
  refused,
  tcp,
} from "../support/packet-table.ts";
import { ProgrammedLab } from "../support/programmed-lab.ts";

// Behaviours that the recorded town does not cover, with real connections. Addresses are those of the lab:
// pods 10.244.1.11 to .16 on the node, 10.244.2.11 and so on elsewhere; `ext` is outside.

const POD1 = localEndpoint("10.244.1.11");
const POD1_V6 = localEndpoint("fd00:244:1::11");
const REMOTE = ["10.244.2.11", "10.244.2.12", "10.244.3.11"];
const NODE = "192.0.2.2";
const NODE_SECOND = "198.51.100.2";

let node: ProgrammedLab;
beforeAll(async () => {
  node = await ProgrammedLab.create();
});
afterAll(() => node?.close());

const packets = (title: string, given: Objects, nodeContext: NodeContext, rows: readonly PacketRow[]) =>
  packetTable(() => node, title, given, nodeContext, rows);

const STICKY_LOCAL: ServiceOptions = {
  name: "sticky-local",
  clusterIPs: ["10.96.1.1", "fd00:10:96::1:1"],
  loadBalancerIPs: ["203.0.113.20", "fd00:1b::20"],
  ports: [port(80, { nodePort: 30020 })],
  affinitySeconds: 600,
  external: "Local",
};
const STICKY_REMOTE: ServiceOptions = {
  ...STICKY_LOCAL,
  name: "sticky-remote",
  clusterIPs: ["10.96.1.2"],
  loadBalancerIPs: ["203.0.113.21"],
  ports: [port(80, { nodePort: 30021 })],
};

packets(
  "session affinity with external Local policy",
  objects(
    [STICKY_LOCAL, { endpoints: [POD1, ...REMOTE] }, { endpoints: [POD1_V6, "fd00:244:2::11"] }],
    [STICKY_REMOTE, { endpoints: REMOTE }],
  ),
  testNodeContext(),
  [
    {
      shows: "a client outside keeps its address, and gets a local endpoint",
      ...{ from: "ext", to: "203.0.113.20", ...tcp, expected: answered("kept", "10.244.1.11 8080") },
    },
    {
      shows: "a client outside keeps its address, and gets a local endpoint (IPv6)",
      ...{ from: "ext2", to: "fd00:1b::20", ...tcp, expected: answered("kept", "fd00:244:1::11 8080") },
    },
    {
      shows: "a client outside keeps its address, and gets a local endpoint (NodePort)",
      ...{ from: "ext", to: NODE, port: 30020, proto: "tcp", expected: answered("kept", "10.244.1.11 8080") },
    },
    {
      shows: "a client outside is dropped without a local endpoint",
      ...{ from: "ext", to: "203.0.113.21", ...tcp, n: 2, expected: dropped },
    },
    {
      shows: "a pod keeps one endpoint of the whole cluster",
      ...{ from: "pod3", to: "203.0.113.21", ...tcp, sticky: true, expected: { result: "ok", distinct: 1 } },
    },
    {
      shows: "the node keeps one endpoint of the whole cluster",
      ...{ from: "node", to: "203.0.113.21", ...tcp, sticky: true, expected: { result: "ok", distinct: 1 } },
    },
    {
      shows: "a pod keeps one endpoint of the whole cluster (NodePort)",
      ...{
        from: "pod3",
        to: NODE,
        port: 30021,
        proto: "tcp",
        sticky: true,
        expected: { result: "ok", distinct: 1 },
      },
    },
  ],
);

packets(
  "a load-balancer address of the node with external Local policy, on another Service's NodePort",
  objects(
    [
      {
        name: "balancer",
        clusterIPs: ["10.96.1.3"],
        loadBalancerIPs: [NODE_SECOND],
        ports: [port(30090)],
        external: "Local",
      },
      { endpoints: REMOTE },
    ],
    [
      { name: "other", clusterIPs: ["10.96.1.4"], ports: [port(80, { nodePort: 30090 })] },
      { endpoints: ["10.244.2.12"] },
    ],
  ),
  testNodeContext({ nodePorts: { kind: "all" } }),
  [
    {
      shows: "a client outside is dropped without a local endpoint",
      ...{ from: "ext", to: NODE_SECOND, port: 30090, proto: "tcp", n: 2, expected: dropped },
    },
    {
      shows: "a pod is balanced over the endpoints of the whole cluster",
      ...{
        from: "pod3",
        to: NODE_SECOND,
        port: 30090,
        proto: "tcp",
        expected: answered("kept", ...REMOTE.map((address) => `${address} 8080`)),
      },
    },
    {
      shows: "the NodePort answers on the node's other addresses",
      ...{ from: "ext", to: NODE, port: 30090, proto: "tcp", expected: answered("node", "10.244.2.12 8080") },
    },
  ],
);

packets(
  "an endpoint that terminates in one slice and is ready in another",
  objects([
    { name: "moved", clusterIPs: ["10.96.1.5"] },
    { endpoints: [localEndpoint("10.244.1.11", DRAINING)] },
    { endpoints: ["10.244.1.11"] },
  ]),
  testNodeContext(),
  [
    {
      shows: "the endpoint is served",
      ...{ from: "pod3", to: "10.96.1.5", ...tcp, expected: answered("kept", "10.244.1.11 8080") },
    },
  ],
);

const GUARDED: ServiceOptions = {
  name: "guarded",
  clusterIPs: ["10.96.1.6", "fd00:10:96::1:6"],
  externalIPs: ["203.0.113.24"],
  loadBalancerIPs: ["203.0.113.22", "fd00:1b::22"],
  ports: [port(80, { name: "http" }), port(53, { name: "dns", protocol: "udp" })],
  sourceRanges: ["192.0.2.128/25", "fd00:c0::200/120"],
};
const GUARDED_PORTS = [slicePort(8080, { name: "http" }), slicePort(5353, { name: "dns", protocol: "udp" })];

packets(
  "source ranges",
  objects(
    [
      GUARDED,
      { ports: GUARDED_PORTS, endpoints: ["10.244.2.11"] },
      { ports: GUARDED_PORTS, endpoints: ["fd00:244:2::11"] },
    ],
    [
      {
        ...GUARDED,
        name: "guarded-idle",
        clusterIPs: ["10.96.1.7"],
        externalIPs: [],
        loadBalancerIPs: ["203.0.113.23"],
      },
    ],
  ),
  testNodeContext(),
  [
    {
      shows: "a client inside them is served",
      ...{ from: "ext2", to: "203.0.113.22", ...tcp, expected: answered("node", "10.244.2.11 8080") },
    },
    {
      shows: "a client inside them is served (IPv6)",
      ...{ from: "ext2", to: "fd00:1b::22", ...tcp, expected: answered("node", "fd00:244:2::11 8080") },
    },
    {
      shows: "a client inside them is served (UDP)",
      ...{
        from: "ext2",
        to: "203.0.113.22",
        port: 53,
        proto: "udp",
        expected: answered("node", "10.244.2.11 5353"),
      },
    },
    {
      shows: "a client outside them is dropped",
      from: "ext",
      to: "203.0.113.22",
      ...tcp,
      n: 2,
      expected: dropped,
    },
    {
      shows: "a client outside them is dropped (IPv6)",
      from: "ext",
      to: "fd00:1b::22",
      ...tcp,
      n: 2,
      expected: dropped,
    },
    {
      shows: "a client outside them is dropped (UDP)",
      ...{ from: "ext", to: "203.0.113.22", port: 53, proto: "udp", n: 2, expected: dropped },
    },
    {
      shows: "a pod outside them is dropped",
      from: "pod3",
      to: "203.0.113.22",
      ...tcp,
      n: 2,
      expected: dropped,
    },
    {
      shows: "a client outside them is served at an external IP, which they do not guard",
      ...{ from: "ext", to: "203.0.113.24", ...tcp, expected: answered("node", "10.244.2.11 8080") },
    },
    {
      shows: "a client inside them is refused if there are no endpoints",
      ...{ from: "ext2", to: "203.0.113.23", ...tcp, expected: refused },
    },
    {
      shows: "a client outside them is dropped even if there are no endpoints",
      ...{ from: "ext", to: "203.0.113.23", ...tcp, n: 2, expected: dropped },
    },
  ],
);

const candidate = (name: string, createdAt: number): ServiceOptions => ({
  name,
  createdAt,
  clusterIPs: [`10.96.2.${createdAt}`],
  externalIPs: ["203.0.113.30"],
});

packets(
  "Services of all kinds",
  objects(
    [{ name: "hairpin", clusterIPs: ["10.96.2.10"], externalIPs: ["203.0.113.31"] }, { endpoints: [POD1] }],
    [{ name: "hairpin6", clusterIPs: ["fd00:10:96::2:10"] }, { endpoints: [POD1_V6] }],
    [
      { name: "dns", clusterIPs: ["10.96.2.11"], ports: [port(53, { protocol: "udp", nodePort: 30053 })] },
      { ports: [slicePort(5353, { protocol: "udp" })], endpoints: REMOTE },
    ],
    [candidate("newer", 2), { endpoints: ["10.244.2.12"] }],
    [
      { ...candidate("older", 1), externalIPs: ["203.0.113.30", "10.96.2.2"] },
      { endpoints: ["10.244.2.11"] },
    ],
    [
      { name: "signalling", clusterIPs: ["10.96.2.12"], ports: [port(36412, { protocol: "sctp" })] },
      { ports: [slicePort(36412, { protocol: "sctp" })], endpoints: ["10.244.2.11"] },
    ],
  ),
  testNodeContext(),
  [
    {
      shows: "a pod that reaches itself sees the node's address",
      ...{ from: "pod1", to: "10.96.2.10", ...tcp, expected: answered("node", "10.244.1.11 8080") },
    },
    {
      shows: "a pod reaches itself through an external IP",
      ...{ from: "pod1", to: "203.0.113.31", ...tcp, expected: answered("node", "10.244.1.11 8080") },
    },
    {
      shows: "a pod reaches itself over IPv6",
      ...{ from: "pod1", to: "fd00:10:96::2:10", ...tcp, expected: answered("node", "fd00:244:1::11 8080") },
    },
    {
      shows: "another pod keeps its address",
      ...{ from: "pod2", to: "10.96.2.10", ...tcp, expected: answered("kept", "10.244.1.11 8080") },
    },
    {
      shows: "UDP is balanced",
      from: "pod2",
      to: "10.96.2.11",
      port: 53,
      proto: "udp",
      expected: answered("kept", ...REMOTE.map((address) => `${address} 5353`)),
    },
    {
      shows: "UDP is balanced through a NodePort, masqueraded",
      from: "ext",
      to: NODE,
      port: 30053,
      proto: "udp",
      expected: answered("node", ...REMOTE.map((address) => `${address} 5353`)),
    },
    {
      shows: "TCP to a port that is served over UDP only is refused",
      ...{ from: "pod2", to: "10.96.2.11", port: 53, proto: "tcp", expected: refused },
    },
    {
      shows: "the older of two Services that want the same external IP gets it",
      ...{ from: "ext", to: "203.0.113.30", ...tcp, expected: answered("node", "10.244.2.11 8080") },
    },
    {
      shows: "a Service keeps its cluster IP that an older one names as an external IP",
      ...{ from: "pod1", to: "10.96.2.2", ...tcp, expected: answered("kept", "10.244.2.12 8080") },
    },
  ],
);

test("an SCTP port has a frontend in the kernel, as TCP and UDP ports have", async () => {
  const found = await node.nft("get element ip nft-proxy lists { 10.96.2.12 . sctp . 36412 }");
  const [, id] = /sctp \. 36412 : (\S+)/.exec(found) ?? [];
  expect(await node.nft(`get element ip nft-proxy balancers { ${id} }`)).toContain("goto balance-1");
});

const NODE_PORT = objects([
  { clusterIPs: ["10.96.3.1", "fd00:10:96::3:1"], ports: [port(80, { nodePort: 30080 })] },
  { endpoints: [POD1] },
  { endpoints: [POD1_V6] },
]);
const toNodePort = (from: Probe["from"], to: string, expected: Outcome): Omit<PacketRow, "shows"> => ({
  ...{ from, to, port: 30080, proto: "tcp", expected },
});
const byNodePort = answered("node", "10.244.1.11 8080");
const byNodePort6 = answered("node", "fd00:244:1::11 8080");

packets("NodePorts on all addresses", NODE_PORT, testNodeContext({ nodePorts: { kind: "all" } }), [
  { shows: "a NodePort answers on the primary address", ...toNodePort("ext", NODE, byNodePort) },
  { shows: "a NodePort answers on another address", ...toNodePort("ext", NODE_SECOND, byNodePort) },
  { shows: "a NodePort answers pods", ...toNodePort("pod2", NODE_SECOND, byNodePort) },
  { shows: "a NodePort answers the node itself", ...toNodePort("node", NODE_SECOND, byNodePort) },
  { shows: "a NodePort answers on IPv6", ...toNodePort("ext", "fd00:c0::2", byNodePort6) },
  { shows: "a NodePort on loopback is refused", ...toNodePort("node", "127.0.0.1", refused) },
  { shows: "a NodePort on another loopback address is refused", ...toNodePort("node", "127.1.2.3", refused) },
  { shows: "a NodePort on IPv6 loopback is refused", ...toNodePort("node", "::1", refused) },
]);

packets(
  "NodePorts on chosen addresses",
  NODE_PORT,
  [familyContext("ip", { nodePorts: { kind: "addresses", addresses: [NODE_SECOND] } }), familyContext("ip6")],
  [
    { shows: "a NodePort answers on a chosen address", ...toNodePort("ext", NODE_SECOND, byNodePort) },
    { shows: "a NodePort on another address is refused", ...toNodePort("ext", NODE, refused) },
    { shows: "a NodePort on loopback is refused", ...toNodePort("node", "127.0.0.1", refused) },
  ],
);

const ORIGINS = objects(
  [{ name: "plain", clusterIPs: ["10.96.4.1"] }, { endpoints: [POD1] }],
  [
    { name: "local", clusterIPs: ["10.96.4.2"], loadBalancerIPs: ["203.0.113.40"], external: "Local" },
    { endpoints: ["10.244.2.11"] },
  ],
);
const keeps = answered("kept", "10.244.1.11 8080");
const masqueraded = answered("node", "10.244.1.11 8080");
const shortCut = answered("kept", "10.244.2.11 8080");

packets(
  "local traffic detected by a prefix of interface names",
  ORIGINS,
  testNodeContext({ localTraffic: { kind: "interface", pattern: "pod*" } }),
  [
    { shows: "a pod keeps its address", from: "pod2", to: "10.96.4.1", ...tcp, expected: keeps },
    {
      shows: "a pod gets the cluster-wide endpoints despite Local policy",
      from: "pod2",
      to: "203.0.113.40",
      ...tcp,
      expected: shortCut,
    },
    { shows: "a client outside is masqueraded", from: "ext", to: "10.96.4.1", ...tcp, expected: masqueraded },
    {
      shows: "a client outside is dropped by Local policy without a local endpoint",
      from: "ext",
      to: "203.0.113.40",
      ...tcp,
      n: 2,
      expected: dropped,
    },
  ],
);

packets(
  "local traffic detected by one bridge",
  ORIGINS,
  testNodeContext({ localTraffic: { kind: "interface", pattern: "pod2" } }),
  [
    { shows: "a pod keeps its address", from: "pod2", to: "10.96.4.1", ...tcp, expected: keeps },
    {
      shows: "a client on another interface is masqueraded",
      from: "pod3",
      to: "10.96.4.1",
      ...tcp,
      expected: masqueraded,
    },
    {
      shows: "a client on another interface is dropped by Local policy without a local endpoint",
      from: "pod3",
      to: "203.0.113.40",
      ...tcp,
      n: 2,
      expected: dropped,
    },
  ],
);

packets(
  "local traffic that cannot be detected",
  ORIGINS,
  testNodeContext({ localTraffic: { kind: "unknown" } }),
  [
    { shows: "a client outside is not masqueraded", from: "ext", to: "10.96.4.1", ...tcp, expected: keeps },
    {
      shows: "a pod is dropped by Local policy without a local endpoint",
      from: "pod2",
      to: "203.0.113.40",
      ...tcp,
      n: 2,
      expected: dropped,
    },
    {
      shows: "the node gets the cluster-wide endpoints despite Local policy",
      ...{ from: "node", to: "203.0.113.40", ...tcp, expected: answered("kept", "10.244.2.11 8080") },
    },
  ],
);

packets("masqueradeAll", ORIGINS, testNodeContext({ masqueradeAll: true }), [
  { shows: "a pod is masqueraded", from: "pod2", to: "10.96.4.1", ...tcp, expected: masqueraded },
]);
