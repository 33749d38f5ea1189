import { afterAll, beforeAll, expect, test } from "vitest";
import { localEndpoint, port, type ServiceOptions, slicePort, testNodeContext } from "../support/build.ts";
import type { Outcome, Probe } from "../support/lab/outcome.ts";
import {
  answered,
  dropped,
  objects,
  type PacketRow,
  packetTable,
  refused,
  type ServiceWithSlices,
} from "../support/packet-table.ts";
import { ProgrammedLab } from "../support/programmed-lab.ts";

// Port ranges with real connections. The pods of the lab answer on ports 53, 80, 443, 3000, 5353, 6379,
// 7777, 8080, 8081, 8443, 9100 and 9153, so ranges begin and end there.

let node: ProgrammedLab;
beforeAll(async () => {
  node = await ProgrammedLab.create();
});
afterAll(() => node?.close());

const RANGE = { first: 7777, last: 8443 };
const MEDIA: ServiceOptions = {
  name: "media",
  clusterIPs: ["10.96.6.1", "fd00:10:96::6:1"],
  externalIPs: ["203.0.113.60", "fd00:1b::60"],
  ports: [port(80, { name: "rtp", nodePort: 30_060, ranges: [RANGE] }), port(8100, { name: "own" })],
};
const MEDIA_PORTS = [slicePort(8080, { name: "rtp" }), slicePort(9153, { name: "own" })];
const OTHER = ["10.244.2.12", "fd00:244:2::12"] as const;
const UDP_RANGE = port(53, { protocol: "udp", ranges: [{ first: 3000, last: 5353 }] });
const LOCAL: ServiceOptions = {
  name: "local",
  clusterIPs: ["10.96.6.4"],
  loadBalancerIPs: ["203.0.113.61"],
  external: "Local",
  sourceRanges: ["192.0.2.0/25", "10.0.0.0/8"],
  ports: [port(80, { ranges: [RANGE] })],
};

const OBJECTS = objects(
  [
    MEDIA,
    { ports: MEDIA_PORTS, endpoints: ["10.244.2.11"] },
    { ports: MEDIA_PORTS, endpoints: ["fd00:244:2::11"] },
  ],
  [
    {
      name: "explicit",
      clusterIPs: ["10.96.6.2", "fd00:10:96::6:2"],
      externalIPs: MEDIA.externalIPs ?? [],
      ports: [port(8081)],
    },
    { endpoints: [OTHER[0]] },
    { endpoints: [OTHER[1]] },
  ],
  [
    {
      name: "younger",
      createdAt: 2000,
      clusterIPs: ["10.96.6.3", "fd00:10:96::6:3"],
      externalIPs: MEDIA.externalIPs ?? [],
      ports: [port(443, { ranges: [{ first: 8080, last: 9153 }] })],
    },
    { endpoints: [OTHER[0]] },
    { endpoints: [OTHER[1]] },
  ],
  [LOCAL, { endpoints: ["10.244.2.11"] }],
  [{ name: "idle", clusterIPs: ["10.96.6.5"], ports: [port(80, { ranges: [RANGE] })] }],
  [
    { name: "voice", clusterIPs: ["10.96.6.6"], ports: [UDP_RANGE] },
    { ports: [slicePort(5353, { protocol: "udp" })], endpoints: ["10.244.2.11", "10.244.2.12"] },
  ],
  [
    { name: "self", clusterIPs: ["10.96.6.7", "fd00:10:96::6:7"], ports: [port(80, { ranges: [RANGE] })] },
    { endpoints: [localEndpoint("10.244.1.11")] },
    { endpoints: [localEndpoint("fd00:244:1::11")] },
  ],
);

const to = (
  from: Probe["from"],
  address: string,
  number: number,
  expected: Outcome,
): Omit<PacketRow, "shows"> => ({
  ...{ from, to: address, port: number, proto: "tcp", n: 4, expected },
});
const at = (number: number, source = "kept") => answered(source, `10.244.2.11 ${number}`);
const at6 = (number: number, source = "kept") => answered(source, `fd00:244:2::11 ${number}`);
const [IP, IP6] = ["10.96.6.1", "fd00:10:96::6:1"] as const;
const [EXTERNAL, EXTERNAL6] = ["203.0.113.60", "fd00:1b::60"] as const;

packetTable(() => node, "a port range", OBJECTS, testNodeContext(), [
  { shows: "its first port reaches the same port of an endpoint", ...to("pod3", IP, 7777, at(7777)) },
  { shows: "a port within it reaches the same port of an endpoint", ...to("pod3", IP, 8080, at(8080)) },
  { shows: "its last port reaches the same port of an endpoint", ...to("pod3", IP, 8443, at(8443)) },
  { shows: "its first port is served over IPv6", ...to("pod3", IP6, 7777, at6(7777)) },
  { shows: "its last port is served over IPv6", ...to("pod3", IP6, 8443, at6(8443)) },
  { shows: "the port below it is refused", ...to("pod3", IP, 7776, refused) },
  { shows: "the port above it is refused", ...to("pod3", IP, 8444, refused) },
  { shows: "the port above it is refused over IPv6", ...to("pod3", IP6, 8444, refused) },
  { shows: "the port with the range goes to its own target port", ...to("pod3", IP, 80, at(8080)) },
  {
    shows: "an explicit port of the Service within it goes to its own target port",
    ...to("pod3", IP, 8100, at(9153)),
  },
  { shows: "a NodePort goes to its own target port", ...to("ext", "192.0.2.2", 30_060, at(8080, "node")) },
  { shows: "an external IP has the range, masqueraded", ...to("ext", EXTERNAL, 7777, at(7777, "node")) },
  { shows: "an external IP has the range over IPv6", ...to("ext", EXTERNAL6, 7777, at6(7777, "node")) },
  {
    shows: "an explicit port of another Service on the same address wins",
    ...to("ext", EXTERNAL, 8081, answered("node", `${OTHER[0]} 8080`)),
  },
  {
    shows: "the older of two Services gets the ports that both want",
    ...to("ext", EXTERNAL, 8443, at(8443, "node")),
  },
  {
    shows: "the younger of two Services gets the rest",
    ...to("ext", EXTERNAL, 9100, answered("node", `${OTHER[0]} 9100`)),
  },
  {
    shows: "the younger of two Services gets the rest over IPv6",
    ...to("ext", EXTERNAL6, 9153, answered("node", `${OTHER[1]} 9153`)),
  },
  {
    shows: "the younger Service has its whole range at its own address",
    ...to("pod3", "10.96.6.3", 8081, answered("kept", `${OTHER[0]} 8081`)),
  },
  { shows: "a range without endpoints is refused", ...to("pod3", "10.96.6.5", 8080, refused) },
  { shows: "a Local policy without a local endpoint drops", ...to("ext", "203.0.113.61", 8080, dropped) },
  {
    shows: "a Local policy lets a pod reach endpoints of the whole cluster",
    ...to("pod3", "203.0.113.61", 8080, at(8080)),
  },
  { shows: "a client outside the source ranges is dropped", ...to("ext2", "203.0.113.61", 8080, dropped) },
  {
    shows: "UDP is balanced",
    ...{ from: "pod3", to: "10.96.6.6", port: 5353, proto: "udp" },
    expected: answered("kept", "10.244.2.11 5353", "10.244.2.12 5353"),
  },
  {
    shows: "a pod that reaches itself sees the node's address",
    ...to("pod1", "10.96.6.7", 8081, answered("node", "10.244.1.11 8081")),
  },
  {
    shows: "a pod reaches itself over IPv6",
    ...to("pod1", "fd00:10:96::6:7", 8081, answered("node", "fd00:244:1::11 8081")),
  },
]);

test("a range is refused while its Service has no endpoint, and explicit ports within it stay independent", async () => {
  const media = (endpoints: readonly string[]) => [MEDIA, { ports: MEDIA_PORTS, endpoints }] as const;
  const explicit = (endpoints: readonly string[]) =>
    [
      { name: "explicit", clusterIPs: ["10.96.6.9"], externalIPs: [EXTERNAL], ports: [port(8081)] },
      { endpoints },
    ] as const;
  const outcomes = async (): Promise<readonly string[]> => {
    const probes = [
      ["cluster IP", "pod3", IP, 7777],
      ["external IP", "ext", EXTERNAL, 8443],
      ["explicit port", "ext", EXTERNAL, 8081],
    ] as const;
    const found = await node.lab.probe(
      probes.map(([id, from, address, number]) => ({
        id,
        from,
        to: address,
        port: number,
        proto: "tcp",
        n: 2,
      })),
    );
    return probes.map(([id]) => `${id} ${found.get(id)?.result}`);
  };
  const [served, own] = [["10.244.2.11"], [OTHER[0]]];
  const [ok, no] = ["ok", "refused"];
  for (const [endpoints, ofExplicit, ranges, atExplicit] of [
    [served, own, ok, ok],
    [[], own, no, ok],
    [[], [], no, no],
    [served, [], ok, no],
    [served, own, ok, ok],
  ] as const) {
    await node.follow(objects(media(endpoints), explicit(ofExplicit)));
    expect(await outcomes()).toEqual([
      `cluster IP ${ranges}`,
      `external IP ${ranges}`,
      `explicit port ${atExplicit}`,
    ]);
    expect(await node.differences()).toEqual([]);
  }
});

test("ranges of other Services stay when a thousand ranges of one Service are removed", async () => {
  const media = [MEDIA, { ports: MEDIA_PORTS, endpoints: ["10.244.2.11"] }] as const;
  const ranges = Array.from({ length: 1000 }, (_, n) => ({ first: 20_000 + 2 * n, last: 20_000 + 2 * n }));
  const many = [
    { name: "many", clusterIPs: ["10.96.6.9"], externalIPs: [EXTERNAL], ports: [port(443, { ranges })] },
    { endpoints: [OTHER[0]] },
  ] as const;
  for (const given of [[media, many], [media], [media, many]] as const) {
    await node.follow(objects(...given));
    const answers = await node.answers({ from: "ext", to: EXTERNAL, port: 8443, proto: "tcp", n: 3 });
    expect(answers).toEqual(["10.244.2.11"]);
    expect(await node.differences()).toEqual([]);
  }
});

test("a client with session affinity has the same endpoint for a port and its range", async () => {
  await node.program(
    objects([
      { ...MEDIA, affinitySeconds: 600 },
      {
        ports: MEDIA_PORTS,
        endpoints: ["10.244.2.11", "10.244.2.12", "10.244.2.13", "10.244.3.11", "10.244.3.12"],
      },
    ]),
  );
  for (const from of ["pod3", "pod4", "ext"] as const) {
    const found = new Set<string>();
    for (const [address, number] of [
      [IP, 80],
      [IP, 7777],
      [EXTERNAL, 8443],
      [EXTERNAL, 80],
    ] as const) {
      for (const one of await node.answers({ from, to: address, port: number, proto: "tcp", n: 5 }))
        found.add(one);
    }
    expect(found.size, from).toBe(1);
  }
});

test("explicit ports and older ranges override a range while they exist, and the kernel has the desired rules", async () => {
  const media = [MEDIA, { ports: MEDIA_PORTS, endpoints: ["10.244.2.11"] }] as const;
  const rival = (options: Partial<ServiceOptions>) =>
    [
      { name: "rival", createdAt: 1, clusterIPs: ["10.96.6.9"], externalIPs: [EXTERNAL], ...options },
      { endpoints: [OTHER[0]] },
    ] as const;
  const own = { ...MEDIA, ports: [port(8081, { name: "rtp" })] };
  const ranged = (first: number, last: number) =>
    rival({ ports: [port(443, { ranges: [{ first, last }] })] });
  const steps: readonly (readonly [answersAt8081: string, ...ServiceWithSlices[]])[] = [
    ["10.244.2.11", media],
    [OTHER[0], media, rival({ ports: [port(8081)] })],
    [OTHER[0], media, ranged(8080, 9000)],
    ["10.244.2.11", media, ranged(8082, 9000)],
    [OTHER[0], ranged(8081, 8081)],
    ["10.244.2.11", [own, { ports: MEDIA_PORTS, endpoints: ["10.244.2.11"] }]],
    ["10.244.2.11", media],
  ];
  for (const [index, [expected, ...given]] of steps.entries()) {
    await node.follow(objects(...given));
    const answers = await node.answers({ from: "ext", to: EXTERNAL, port: 8081, proto: "tcp", n: 3 });
    expect(answers, `step ${index}`).toEqual([expected]);
    expect(await node.differences()).toEqual([]);
  }
});
