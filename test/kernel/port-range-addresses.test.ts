import { afterAll, beforeAll, expect, test } from "vitest";
import type { PortRangeAddresses } from "../../src/features/port-ranges/rules.ts";
import type { PortInterval } from "../../src/ruleset/interval-frontends.ts";
import { port, type ServiceOptions, slicePort, testNodeContext } from "../support/build.ts";
import type { Outcome, Probe } from "../support/lab/outcome.ts";
import { answered, objects, type PacketRow, packetTable, refused } from "../support/packet-table.ts";
import { ProgrammedLab } from "../support/programmed-lab.ts";

// A tenant's ranges of all ports at addresses of the node and at other addresses, with real connections. The
// node answers on ports 53, 443, 8080 and others, as pods do.

let node: ProgrammedLab;
beforeAll(async () => {
  node = await ProgrammedLab.create();
});
afterAll(() => node?.close());

const ALL_PORTS: readonly PortInterval[] = [{ first: 1, last: 65_535 }];
const [NODE, NODE6, SECOND, OTHER_NODE] = ["192.0.2.2", "fd00:c0::2", "198.51.100.2", "192.0.2.3"] as const;
const [VIRTUAL, VIRTUAL6, CLUSTER_IP] = ["203.0.113.70", "fd00:1b::70", "10.96.6.20"] as const;
const [POD, POD6] = ["10.244.2.11", "fd00:244:2::11"] as const;

const TENANT: ServiceOptions = {
  name: "tenant",
  clusterIPs: [CLUSTER_IP, "fd00:10:96::6:20"],
  loadBalancerIPs: [NODE, NODE6, VIRTUAL, VIRTUAL6, OTHER_NODE],
  ports: [
    port(80, { name: "t", nodePort: 30_070, ranges: ALL_PORTS }),
    port(80, { name: "u", protocol: "udp", ranges: ALL_PORTS }),
  ],
};
const TENANT_PORTS = [slicePort(8080, { name: "t" }), slicePort(5353, { name: "u", protocol: "udp" })];
const OBJECTS = objects(
  [TENANT, { ports: TENANT_PORTS, endpoints: [POD] }, { ports: TENANT_PORTS, endpoints: [POD6] }],
  [
    { name: "node-port", clusterIPs: ["10.96.6.21"], ports: [port(80, { nodePort: 30_071 })] },
    { endpoints: [POD] },
  ],
  [{ name: "idle-node-port", clusterIPs: ["10.96.6.22"], ports: [port(80, { nodePort: 30_072 })] }],
  [
    {
      name: "idle",
      clusterIPs: ["10.96.6.23"],
      loadBalancerIPs: [SECOND],
      ports: [
        port(80, { name: "t", ranges: ALL_PORTS }),
        port(80, { name: "u", protocol: "udp", ranges: ALL_PORTS }),
      ],
    },
  ],
);

type Row = Omit<PacketRow, "shows">;
const to = (from: Probe["from"], address: string, number: number, expected: Outcome): Row => ({
  ...{ from, to: address, port: number, proto: "tcp", n: 3, expected },
});
const udpTo = (from: Probe["from"], address: string, number: number, expected: Outcome): Row => ({
  ...to(from, address, number, expected),
  proto: "udp",
});

/**
 * @param listener returns the expected outcome at an address of the node, on a port of one of its programs
 */
const rowsOfNode = (listener: (own: string, pod: string, number: number) => Outcome): PacketRow[] =>
  (["ext", "node", "pod3"] as const).flatMap((from) => [
    { shows: `TCP from ${from} to the node`, ...to(from, NODE, 8080, listener(NODE, POD, 8080)) },
    { shows: `TCP from ${from} to the node, IPv6`, ...to(from, NODE6, 443, listener(NODE6, POD6, 443)) },
    { shows: `UDP from ${from} to the node`, ...udpTo(from, NODE, 5353, listener(NODE, POD, 5353)) },
    { shows: `UDP from ${from} to the node, IPv6`, ...udpTo(from, NODE6, 53, listener(NODE6, POD6, 53)) },
  ]);

const explicitPorts: readonly PacketRow[] = [
  { shows: "the Service's own port at the node", ...to("ext", NODE, 80, answered("node", `${POD} 8080`)) },
  { shows: "a NodePort with endpoints", ...to("ext", NODE, 30_071, answered("node", `${POD} 8080`)) },
  { shows: "the Service's own NodePort", ...to("ext", NODE, 30_070, answered("node", `${POD} 8080`)) },
];

const virtualAddresses: readonly PacketRow[] = [
  {
    shows: "an address that belongs to no node",
    ...to("ext", VIRTUAL, 8443, answered("node", `${POD} 8443`)),
  },
  {
    shows: "an address that belongs to no node, IPv6",
    ...to("ext", VIRTUAL6, 8443, answered("node", `${POD6} 8443`)),
  },
  {
    shows: "an address that belongs to no node, UDP",
    ...udpTo("ext", VIRTUAL, 9100, answered("node", `${POD} 9100`)),
  },
  {
    shows: "an address that belongs to no node, from the node itself",
    ...to("node", VIRTUAL, 8443, answered("kept", `${POD} 8443`)),
  },
  { shows: "the cluster IP", ...to("pod3", CLUSTER_IP, 8443, answered("kept", `${POD} 8443`)) },
  {
    shows: "another port at the API server's address",
    ...to("pod3", OTHER_NODE, 8081, answered("node", `${POD} 8081`)),
  },
];

/** The daemon's API server is a program on another node. */
const apiServer: readonly PacketRow[] = [
  {
    shows: "the API server, from the node itself",
    ...to("node", OTHER_NODE, 8080, answered("kept", `${OTHER_NODE} 8080`)),
  },
  {
    shows: "the API server, from a pod",
    ...to("pod3", OTHER_NODE, 8080, answered("kept", `${OTHER_NODE} 8080`)),
  },
];

const context = (portRanges: PortRangeAddresses) =>
  testNodeContext({ settings: { portRanges }, apiServers: [`${OTHER_NODE} . tcp . 8080`] });

const ownProgram = (own: string, _: string, number: number) => answered("kept", `${own} ${number}`);
const untouched: readonly PacketRow[] = [
  ...rowsOfNode(ownProgram),
  ...explicitPorts,
  ...apiServer,
  { shows: "a NodePort without endpoints", ...to("ext", NODE, 30_072, refused) },
  {
    shows: "the node, beside a range without endpoints",
    ...to("ext", SECOND, 8080, answered("kept", `${SECOND} 8080`)),
  },
  {
    shows: "the node from itself, beside a range without endpoints, UDP",
    ...udpTo("node", SECOND, 5353, answered("kept", `${SECOND} 5353`)),
  },
];

packetTable(() => node, "ranges at virtual addresses", OBJECTS, context("virtual"), [
  ...untouched,
  ...virtualAddresses,
]);

packetTable(() => node, "ranges at all addresses", OBJECTS, context("all"), [
  ...rowsOfNode((_, pod, number) => answered("node", `${pod} ${number}`)).map((row) =>
    row.from === "node" ? { ...row, expected: { ...row.expected, source: "kept" } } : row,
  ),
  ...explicitPorts,
  ...apiServer,
  ...virtualAddresses,
  { shows: "the node, at a range without endpoints", ...to("ext", SECOND, 8080, refused) },
]);

test("a change of the option takes effect", async () => {
  const answers = async (portRanges: PortRangeAddresses) => {
    await node.program(OBJECTS, context(portRanges));
    expect(await node.differences()).toEqual([]);
    return await node.answers({ from: "ext", to: NODE, port: 8080, proto: "tcp", n: 2 });
  };
  expect(await answers("all")).toEqual([POD]);
  expect(await answers("virtual")).toEqual([NODE]);
});
