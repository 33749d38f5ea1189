import fc from "fast-check";
import type { Family } from "../../src/base/family.ts";
import type { ClientLimits } from "../../src/features/client-limits/limits.ts";
import type { ConnectionTimeouts } from "../../src/features/connection-timeouts/timeouts.ts";
import { DEFAULT_PASSIVE_HEALTH_CHECK } from "../../src/features/passive-health-checks/check.ts";
import { rangesOf } from "../../src/features/port-ranges/parse.ts";
import { PORT_RANGE_ADDRESSES } from "../../src/features/port-ranges/rules.ts";
import { SCHEDULERS } from "../../src/features/schedulers/scheduler.ts";
import type { EndpointSlice, SliceEndpoint, SlicePort } from "../../src/model/endpoint-slice.ts";
import type { Protocol } from "../../src/model/ids.ts";
import { familyOf } from "../../src/model/ip.ts";
import type { NodePortAddresses } from "../../src/model/node.ts";
import type { Service, ServicePortSpec } from "../../src/model/service.ts";
import { servicePortsOf } from "../../src/model/service-port.ts";
import { ECHO_PROTOCOLS } from "../../src/nft/ast/expression.ts";
import type { PortInterval } from "../../src/ruleset/interval-frontends.ts";
import type { FamilyContext, LocalTraffic } from "../../src/ruleset/node-context.ts";
import type { Packet } from "../../src/trace/packet.ts";
import { familyContext, HERE, type Objects, service, slice, testNodeContext } from "./build.ts";

// There are few values of everything, so that addresses, ports and endpoints often conflict.

const NAMES = ["a", "b", "b-2", "other/a", "other/c", "other/c-d"];
const CLUSTER_IPS = { ip: ["10.96.0.1", "10.96.0.2", "10.96.0.3"], ip6: ["fd00:10:96::1", "fd00:10:96::2"] };
const EXTERNAL_IPS = [
  "203.0.113.1",
  "203.0.113.2",
  "10.96.0.1",
  "192.0.2.2",
  "fd00:1b::1",
  "fd00:1b::2",
  "fd00:c0::2",
];
const RANGES = [
  "10.0.0.0/8",
  "10.1.0.0/16",
  "192.0.2.0/24",
  "192.0.2.200/32",
  "0.0.0.0/0",
  "fd00::/8",
  "fd00:c0::/64",
];
const ENDPOINTS: Readonly<Record<Family, readonly string[]>> = {
  ip: ["10.244.1.1", "10.244.1.2", "10.244.2.1", "10.244.2.2", "10.244.3.1"],
  ip6: ["fd00:244:1::1", "fd00:244:1::2", "fd00:244:2::1", "fd00:244:2::2"],
};
const PORT_NAMES = ["", "http", "dns"];

const protocol = fc.constantFrom<Protocol>("tcp", "tcp", "tcp", "tcp", "udp", "sctp");
const mostly = <T>(value: T, other: fc.Arbitrary<T>) =>
  fc.oneof({ weight: 3, arbitrary: fc.constant(value) }, { weight: 1, arbitrary: other });
const some = <T>(values: readonly T[], maxLength = 2) =>
  fc.uniqueArray(fc.constantFrom(...values), { maxLength });
const policy = fc.constantFrom("Cluster" as const, "Local" as const);

/**
 * Ranges that overlap, touch and contain each other, with explicit ports in them, at their ends and beside
 * them.
 */
const PORT_RANGES: readonly (readonly PortInterval[])[] = [
  [{ first: 80, last: 80 }],
  [{ first: 443, last: 450 }],
  [{ first: 79, last: 500 }],
  [
    { first: 70, last: 79 },
    { first: 81, last: 90 },
  ],
  [{ first: 1, last: 65535 }],
];

/** Timeouts of one protocol, of both, and with a value in common. */
const TIMEOUTS: readonly ConnectionTimeouts[] = [
  { "tcp-established": 7200 },
  { "tcp-established": 7200, "udp-stream": 300 },
  { udp: 10 },
];
const portSpec: fc.Arbitrary<ServicePortSpec> = fc
  .record({
    name: fc.constantFrom(...PORT_NAMES),
    protocol,
    port: fc.constantFrom(80, 443),
    nodePort: fc.constantFrom(0, 0, 30080, 30081),
    ranges: fc.oneof({ arbitrary: fc.constant(undefined), weight: 5 }, fc.constantFrom(...PORT_RANGES)),
  })
  .map(({ ranges, ...spec }) => (ranges === undefined ? spec : { ...spec, ranges }));

const clusterIPs = fc
  .record({
    ip: fc.option(fc.constantFrom(...CLUSTER_IPS.ip), { freq: 8 }),
    ip6: fc.option(fc.constantFrom(...CLUSTER_IPS.ip6), { freq: 1 }),
  })
  .map(({ ip, ip6 }) => [ip, ip6].filter((address) => address !== null));

const CLIENT_LIMITS: readonly ClientLimits[] = [
  { connections: 1 },
  { connections: 100, rate: { amount: 1, per: "hour", burst: 1 } },
  { rate: { amount: 20, per: "second", burst: 40 } },
];

const anyService: fc.Arbitrary<Service> = fc
  .record({
    name: fc.constantFrom(...NAMES),
    createdAt: fc.constantFrom(0, 1000, 2000),
    clusterIPs,
    ports: fc.uniqueArray(portSpec, { selector: ({ name }) => name, minLength: 1, maxLength: 3 }),
    externalIPs: some(EXTERNAL_IPS),
    loadBalancerIPs: some(EXTERNAL_IPS),
    sourceRanges: some(RANGES, 3),
    affinitySeconds: fc.constantFrom(0, 0, 60, 10800),
    internal: policy,
    external: policy,
    scheduler: fc.oneof({ arbitrary: fc.constant(null), weight: 7 }, fc.constantFrom(...SCHEDULERS)),
    clientLimits: fc.constantFrom(null, null, null, ...CLIENT_LIMITS),
    connectionLife: fc.constantFrom(
      {},
      {},
      { drainTimeoutMs: 60_000 },
      { onEndpointRemoved: "reset" as const },
      { onEndpointRemoved: "keep" as const },
    ),
    passiveHealthCheck: fc.constantFrom(null, null, null, "off" as const, DEFAULT_PASSIVE_HEALTH_CHECK),
    connectionTimeouts: fc.constantFrom<ConnectionTimeouts | null>(null, null, null, ...TIMEOUTS),
  })
  .map(({ scheduler, passiveHealthCheck, clientLimits, connectionTimeouts, connectionLife, ...options }) =>
    service({
      ...options,
      ...connectionLife,
      ...(scheduler === null ? {} : { scheduler }),
      ...(clientLimits === null ? {} : { clientLimits }),
      ...(passiveHealthCheck === null ? {} : { passiveHealthCheck }),
      ...(connectionTimeouts === null ? {} : { connectionTimeouts }),
    }),
  );

const slicePort: fc.Arbitrary<SlicePort> = fc.record({
  name: fc.constantFrom(...PORT_NAMES),
  protocol,
  port: fc.constantFrom(8080, 8081),
});

function sliceEndpoint(family: Family): fc.Arbitrary<SliceEndpoint> {
  return fc.record({
    address: fc.constantFrom(...ENDPOINTS[family]),
    nodeName: fc.constantFrom(HERE.name, "node-2", ""),
    zone: fc.constantFrom("zone-a", "zone-b", ""),
    ready: mostly(true, fc.boolean()),
    serving: mostly(true, fc.boolean()),
    terminating: mostly(false, fc.boolean()),
    zoneHints: mostly(["zone-a", "zone-b"], some(["zone-a", "zone-b"])),
    nodeHints: mostly<string[]>([], some([HERE.name, "node-2"])),
    pod: fc.constant(""),
  });
}

const anySlice: fc.Arbitrary<EndpointSlice> = fc
  .tuple(fc.constantFrom(...NAMES), fc.constantFrom<Family>("ip", "ip", "ip6"), fc.nat(2))
  .chain(([owner, family, index]) =>
    fc
      .record({
        ports: fc.uniqueArray(slicePort, {
          selector: (port) => `${port.name} ${port.protocol}`,
          minLength: 2,
          maxLength: 6,
        }),
        endpoints: fc.array(sliceEndpoint(family), { minLength: 1, maxLength: 5 }),
        // Few clusters have slot tables, because these are large.
        weight: fc.oneof({ arbitrary: fc.constant(1), weight: 14 }, fc.constantFrom(0, 3)),
      })
      .map((rest) =>
        slice({ ...rest, service: owner, family, name: `${owner.replace("/", "-")}-${family}-${index}` }),
      ),
  );

/**
 * Clusters of up to six Services with up to eighteen EndpointSlices, whose addresses, ports and endpoints
 * conflict.
 */
export const anyObjects: fc.Arbitrary<Required<Objects>> = fc.record({
  services: fc.uniqueArray(anyService, {
    selector: ({ name }) => name,
    maxLength: NAMES.length,
    size: "max",
  }),
  slices: fc.uniqueArray(anySlice, {
    selector: ({ namespace, name }) => `${namespace}/${name}`,
    maxLength: 18,
    size: "max",
  }),
});

const localTraffic = (family: Family): fc.Arbitrary<LocalTraffic> =>
  fc.constantFrom<LocalTraffic>(
    familyContext(family).localTraffic,
    { kind: "unknown" },
    { kind: "interface", pattern: "veth*" },
  );

const nodePorts = (family: Family): fc.Arbitrary<NodePortAddresses> =>
  fc.constantFrom<NodePortAddresses>(
    familyContext(family).nodePorts,
    { kind: "all" },
    { kind: "addresses", addresses: [] },
    { kind: "addresses", addresses: family === "ip" ? ["192.0.2.2", "198.51.100.2"] : ["fd00:c0::9"] },
  );

/**
 * Node contexts of both families, with all ways to detect pods and NodePorts, with and without ServiceCIDRs,
 * in two zones.
 */
export const anyContexts: fc.Arbitrary<FamilyContext[]> = fc
  .record({
    masqueradeAll: fc.boolean(),
    masqueradeMark: fc.constantFrom(0x4000, 0x8000_0000),
    place: fc.constantFrom(HERE, { name: HERE.name, zone: "zone-b" }, { name: HERE.name, zone: "" }),
    localTraffic: fc.record({ ip: localTraffic("ip"), ip6: localTraffic("ip6") }),
    nodePorts: fc.record({ ip: nodePorts("ip"), ip6: nodePorts("ip6") }),
    withServiceCIDRs: fc.boolean(),
    settings: fc.record({
      answerPing: fc.boolean(),
      portRanges: fc.constantFrom(...PORT_RANGE_ADDRESSES),
      passiveHealthCheck: fc.constantFrom("off" as const, "off" as const, DEFAULT_PASSIVE_HEALTH_CHECK),
    }),
    apiServers: fc.record({
      ip: some(["203.0.113.1 . tcp . 450", "10.96.0.2 . tcp . 79"]),
      ip6: some(["fd00:1b::1 . tcp . 450"]),
    }),
  })
  .map(({ localTraffic: traffic, nodePorts: addresses, withServiceCIDRs, apiServers, ...options }) =>
    testNodeContext(options).map((context) => ({
      ...context,
      localTraffic: traffic[context.family],
      nodePorts: addresses[context.family],
      apiServers: apiServers[context.family],
      serviceCIDRs: withServiceCIDRs ? context.serviceCIDRs : [],
    })),
  );

const SENDERS: readonly (Packet["from"] & { readonly family: Family })[] = [
  { family: "ip", address: "10.244.1.1", at: "pod", iifname: "veth1" },
  { family: "ip", address: "10.244.1.2", at: "pod", iifname: "veth2" },
  { family: "ip", address: "10.244.2.1", at: "outside", iifname: "eth0" },
  { family: "ip", address: "10.1.2.3", at: "outside", iifname: "eth0" },
  { family: "ip", address: "192.0.2.200", at: "outside", iifname: "eth0" },
  { family: "ip", address: "203.0.113.1", at: "outside", iifname: "eth0" },
  { family: "ip", address: "192.0.2.2", at: "node" },
  { family: "ip6", address: "fd00:244:1::1", at: "pod", iifname: "veth1" },
  { family: "ip6", address: "fd00:c0::200", at: "outside", iifname: "eth0" },
  { family: "ip6", address: "2001:db8::1", at: "outside", iifname: "eth0" },
  { family: "ip6", address: "fd00:c0::2", at: "node" },
];
const DESTINATIONS = [
  ...CLUSTER_IPS.ip,
  ...CLUSTER_IPS.ip6,
  ...EXTERNAL_IPS,
  "192.0.2.2",
  "fd00:c0::2",
  "10.96.9.9",
];

const senders = (to: string) =>
  fc
    .constantFrom(...SENDERS.filter(({ family }) => family === familyOf(to)))
    .map(({ family: _, ...from }) => from);

const anyPacket: fc.Arbitrary<Packet> = fc.constantFrom(...DESTINATIONS).chain((to) =>
  fc.record({
    from: senders(to),
    to: fc.constant(to),
    port: fc.constantFrom(80, 443, 30080, 30081),
    protocol,
  }),
);

/** An echo request in place of a connection. */
function pingOf(packet: Packet): Packet {
  return { ...packet, port: 7, protocol: ECHO_PROTOCOLS[familyOf(packet.to)] };
}

/** First packets from pods, the node and outside, most of them to frontends of the objects' service ports. */
export function packetsFor({ services }: Required<Objects>): fc.Arbitrary<Packet> {
  const served = services.flatMap(servicePortsOf).flatMap(({ service, spec, family }) => {
    const { clusterIPs, externalIPs, loadBalancerIPs } = service;
    const addresses = [clusterIPs[family], ...externalIPs[family], ...loadBalancerIPs[family]];
    const nodePort = { to: family === "ip" ? "192.0.2.2" : "fd00:c0::2", port: spec.nodePort };
    const ends = (rangesOf({ service, spec }) ?? []).flatMap(({ first, last }) => [
      first - 1,
      first,
      last,
      last + 1,
    ]);
    return [...addresses.flatMap((to) => [spec.port, ...ends].map((port) => ({ to, port }))), nodePort]
      .filter(({ port }) => port > 0 && port < 65536)
      .map((destination) => ({ ...destination, protocol: spec.protocol }));
  });
  if (served.length === 0) return anyPacket;
  const aimed = fc.constantFrom(...served).chain((to) => senders(to.to).map((from) => ({ from, ...to })));
  return fc.oneof(
    { weight: 5, arbitrary: aimed },
    { weight: 1, arbitrary: aimed.map(pingOf) },
    { weight: 1, arbitrary: anyPacket },
  );
}
