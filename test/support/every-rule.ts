import { FAMILIES, type Family } from "../../src/base/family.ts";
import { SCHEDULERS } from "../../src/features/schedulers/scheduler.ts";
import type { Ruleset } from "../../src/nft/ast/ruleset.ts";
import {
  localEndpoint,
  port,
  renderAll,
  type ServiceOptions,
  service,
  slice,
  slicePort,
  testNodeContext,
} from "./build.ts";

/**
 * Returns the address with this number and kind. The kind is the third part in IPv4, and the last but one in
 * IPv6.
 */
function address(family: Family, kind: number, number: number): string {
  return family === "ip" ? `10.96.${kind}.${number}` : `fd00:10:96::${kind}:${number.toString(16)}`;
}

const both = (kind: number, number: number): readonly string[] =>
  FAMILIES.map((family) => address(family, kind, number));

const ENDPOINTS = {
  ip: ["10.244.1.11", "10.244.1.12", "10.244.2.11", "10.244.2.12", "10.244.2.13"],
  ip6: ["fd00:244:1::11", "fd00:244:1::12", "fd00:244:2::11", "fd00:244:2::12", "fd00:244:2::13"],
} as const;

/** Port ranges: one is a prefix, one touches it, one has a single port. */
const RANGES = [
  { first: 1024, last: 2047 },
  { first: 2048, last: 2050 },
  { first: 8080, last: 8080 },
];

/** All ways to balance, with all kinds of addresses and both policies. */
const BALANCED = SCHEDULERS.flatMap((scheduler) =>
  [0, 600].flatMap((affinitySeconds) =>
    (["Cluster", "Local"] as const).map((external) => ({ scheduler, affinitySeconds, external })),
  ),
).map(
  (options, index): ServiceOptions => ({
    ...options,
    name: `balanced-${index}`,
    clusterIPs: both(1, index + 1),
    externalIPs: both(2, index + 1),
    loadBalancerIPs: both(3, index + 1),
    ports: [port(80, { nodePort: 30_100 + index, ranges: RANGES })],
  }),
);

/** Source ranges that are prefixes, ranges and single addresses. */
const GUARDED: ServiceOptions = {
  name: "guarded",
  clusterIPs: both(1, 101),
  loadBalancerIPs: both(3, 101),
  sourceRanges: [
    "192.0.2.0/25",
    "198.51.100.1/32",
    "198.51.100.2/32",
    "203.0.113.9/32",
    "fd00:c0::1/128",
    "fd00:c1::/64",
  ],
};

/** Timeouts that are nft's defaults, and others. */
const TIMED: ServiceOptions = {
  name: "timed",
  clusterIPs: both(1, 105),
  ports: [port(80, { name: "tcp" }), port(53, { name: "udp", protocol: "udp" })],
  connectionTimeouts: { "tcp-established": 7200, "tcp-close-wait": 60, "udp-stream": 300 },
};
const TIMED_PORTS = [slicePort(8080, { name: "tcp" }), slicePort(53, { name: "udp", protocol: "udp" })];
const WEIGHTED: ServiceOptions = {
  name: "weighted",
  clusterIPs: both(1, 102),
  clientLimits: { connections: 100, rate: { amount: 20, per: "minute", burst: 5 } },
};

const WITHOUT_ENDPOINTS: readonly ServiceOptions[] = [
  { name: "nowhere", clusterIPs: both(1, 103), ports: [port(80, { nodePort: 30_203, ranges: RANGES })] },
  {
    name: "elsewhere",
    clusterIPs: both(1, 104),
    ports: [port(80, { nodePort: 30_204 })],
    internal: "Local",
    external: "Local",
  },
];

/** The rules of a cluster with Services and options of all kinds. */
export function everyRule(): Ruleset {
  const weights = (service: string) =>
    FAMILIES.flatMap((family) =>
      [1, 3].map((weight, index) =>
        slice({
          service,
          name: `${service}-${family}-${index}`,
          weight,
          endpoints: [ENDPOINTS[family][index + 2] ?? ""],
        }),
      ),
    );
  const everywhere = (service: string) =>
    FAMILIES.map((family) => {
      const [first = "", second = "", ...others] = ENDPOINTS[family];
      return slice({ service, endpoints: [localEndpoint(first), localEndpoint(second), ...others] });
    });
  const elsewhere = (service: string) =>
    FAMILIES.map((family) => slice({ service, endpoints: [ENDPOINTS[family][2]] }));
  const { state } = renderAll(
    {
      services: [...BALANCED, GUARDED, TIMED, WEIGHTED, ...WITHOUT_ENDPOINTS].map((options) =>
        service(options),
      ),
      slices: [
        ...[...BALANCED, GUARDED].flatMap(({ name = "" }) => everywhere(name)),
        slice({ service: "timed", ports: TIMED_PORTS, endpoints: [ENDPOINTS.ip[2]] }),
        slice({ service: "timed", ports: TIMED_PORTS, endpoints: [ENDPOINTS.ip6[2]] }),
        ...weights("weighted"),
        ...elsewhere("elsewhere"),
      ],
    },
    testNodeContext({
      localTraffic: { kind: "interface", pattern: "veth*" },
      nodePorts: { kind: "all" },
      loopbackNodePorts: true,
      settings: { answerPing: true, serviceCounters: "endpoints" },
      resetVanished: true,
    }),
  );
  for (const family of FAMILIES)
    state.families[family]?.setKeys("connection-life", new Set([`${ENDPOINTS[family][4]} . 8080`]));
  return state.ruleset;
}
