import { describe, expect, test } from "vitest";
import type { Family } from "../../../src/base/family.ts";
import { resolveOptions } from "../../../src/config/resolve.ts";
import { KERNEL_TIMEOUTS } from "../../../src/features/connection-timeouts/timeouts.ts";
import { FEATURES } from "../../../src/features/registry.ts";
import { ALL_FEATURES } from "../../../src/features/selection.ts";
import { ObjectCache } from "../../../src/model/object-cache.ts";
import { MOST_STICKY_PORTS } from "../../../src/ruleset/list-ids.ts";
import type { FamilyContext } from "../../../src/ruleset/node-context.ts";
import { type HostView, nodeContextOf } from "../../../src/sync/node-context.ts";
import type { SupportedOptions } from "../../../src/sync/supported-options.ts";
import { HERE, node, serviceCIDR } from "../../support/build.ts";

const PARTS = FEATURES.flatMap(({ ruleset, annotations }) => (annotations ? (ruleset ?? []) : []));

const host: HostView = {
  families: ["ip", "ip6"],
  addresses: { ip: ["127.0.0.1", "192.0.2.2", "198.51.100.2"], ip6: ["::1", "fd00:c0::2"] },
  local: [],
};

function cache(): ObjectCache {
  const made = new ObjectCache(HERE.name);
  made.putNode(
    node({
      addresses: { ip: "192.0.2.2", ip6: "" },
      podCIDRs: { ip: ["10.244.1.0/24"], ip6: [] },
      zone: "zone-c",
    }),
  );
  made.putServiceCIDR(serviceCIDR("b", ["10.97.0.0/16"]));
  made.putServiceCIDR(serviceCIDR("a", ["10.96.0.0/16", "fd00:10:96::/112"]));
  return made;
}

function contextOf(options: Partial<SupportedOptions>, family: Family = "ip"): FamilyContext {
  const defaults = resolveOptions().options;
  const settings = { ...defaults.settings, refusalLogSize: 0 };
  const nodeContext = nodeContextOf({ ...defaults, settings, ...options }, cache(), host);
  const found = nodeContext.find((context) => context.family === family);
  if (found === undefined) throw new Error(`no context for ${family}`);
  return found;
}

test("the node context comes from the Node, the ServiceCIDRs and the options", () => {
  expect(
    contextOf({
      masqueradeAll: true,
      masqueradeBit: 31,
      affinityMapSize: 7,
      maxAffinityTimeoutMs: 1999,
      maxServiceElements: 9,
      settings: { maxLimitedClients: 5, maxPortRanges: 7, refusalLogSize: 0 },
      maxElements: 99,
      maxNamespaceElements: 98,
      features: ALL_FEATURES,
    }),
  ).toEqual({
    family: "ip",
    place: { name: "node-1", zone: "zone-c" },
    nodeAddress: "192.0.2.2",
    localTraffic: { kind: "unknown" },
    masqueradeAll: true,
    masqueradeMark: 2147483648,
    nodePorts: { kind: "addresses", addresses: ["192.0.2.2"] },
    loopbackNodePorts: false,
    serviceCIDRs: ["10.96.0.0/16", "10.97.0.0/16"],
    affinityMapSize: 7,
    maxAffinitySeconds: 1,
    maxServiceElements: 9,
    features: PARTS,
    lacking: [],
    settings: {
      maxLimitedClients: 5,
      maxPortRanges: 7,
      refusalLogSize: 0,
      ...KERNEL_TIMEOUTS,
      "tcp-established": 86_400,
      "tcp-close-wait": 3600,
    },
    maxElements: 99,
    maxNamespaceElements: 98,
    maxStickyPorts: MOST_STICKY_PORTS,
    apiServers: [],
  });
});

test("features have the kernel's connection timeouts, replaced by the conntrack options; none if they are off", () => {
  const { conntrack } = resolveOptions().options;
  const of = { ...conntrack, tcpEstablishedTimeoutMs: 0, udpTimeoutMs: 7999, udpStreamTimeoutMs: 8000 };
  expect(contextOf({ conntrack: of, features: ALL_FEATURES }).settings).toMatchObject({
    ...KERNEL_TIMEOUTS,
    "tcp-close-wait": 3600,
    udp: 7,
    "udp-stream": 8,
  });
  const lacking = ["connection-timeouts", "client-limits"];
  expect(contextOf({ features: ALL_FEATURES, lacking })).toMatchObject({ features: PARTS, lacking });
  expect(contextOf({ features: {} })).toMatchObject({
    features: [],
    settings: { maxLimitedClients: 65_536 },
  });
});

test("the API servers of each family are in its context, as frontends, sorted", () => {
  const servers = [
    { address: "192.0.2.9", port: 6443 },
    { address: "fd00::9", port: 443 },
    { address: "192.0.2.8", port: 443 },
  ];
  const nodeContext = nodeContextOf(resolveOptions().options, cache(), host, servers);
  expect(nodeContext.map(({ apiServers }) => apiServers)).toEqual([
    ["192.0.2.8 . tcp . 443", "192.0.2.9 . tcp . 6443"],
    ["fd00::9 . tcp . 443"],
  ]);
});

test("the node context has each family of the host, IPv4 first", () => {
  const families = (only: readonly Family[]) =>
    nodeContextOf(resolveOptions().options, cache(), { ...host, families: only }).map(({ family }) => family);
  expect(families(["ip6", "ip"])).toEqual(["ip", "ip6"]);
  expect(families(["ip6"])).toEqual(["ip6"]);
});

test.each([
  ["0.0.0.0", "192.0.2.2", ""],
  ["::", "192.0.2.2", ""],
  ["198.51.100.2", "198.51.100.2", ""],
  ["fd00:c0::2", "192.0.2.2", "fd00:c0::2"],
])("the bind address %s makes the node's addresses %s and '%s'", (bindAddress, ip, ip6) => {
  expect([contextOf({ bindAddress }).nodeAddress, contextOf({ bindAddress }, "ip6").nodeAddress]).toEqual([
    ip,
    ip6,
  ]);
});

describe("pods are told from others", () => {
  const clusterCIDRs = { ip: ["10.244.0.0/16"], ip6: [] };
  const unknown = { kind: "unknown" } as const;
  test.each<
    [string, SupportedOptions["detectLocal"], FamilyContext["localTraffic"], FamilyContext["localTraffic"]]
  >([
    [
      "by the cluster's CIDR, where the family has one",
      { kind: "cluster-cidr" },
      { kind: "sources", cidrs: ["10.244.0.0/16"] },
      unknown,
    ],
    [
      "by the node's CIDRs, where the family has one",
      { kind: "node-cidr" },
      { kind: "sources", cidrs: ["10.244.1.0/24"] },
      unknown,
    ],
    [
      "by a bridge",
      { kind: "bridge", interface: "cni0" },
      { kind: "interface", pattern: "cni0" },
      { kind: "interface", pattern: "cni0" },
    ],
    [
      "by a prefix",
      { kind: "interface-prefix", prefix: "veth" },
      { kind: "interface", pattern: "veth*" },
      { kind: "interface", pattern: "veth*" },
    ],
    [
      "by a prefix that is a whole name, for it has no room for more",
      { kind: "interface-prefix", prefix: "fifteen-letters" },
      { kind: "interface", pattern: "fifteen-letters" },
      { kind: "interface", pattern: "fifteen-letters" },
    ],
  ])("%s", (_, detectLocal, ip, ip6) => {
    const options = { detectLocal, clusterCIDRs };
    expect([contextOf(options).localTraffic, contextOf(options, "ip6").localTraffic]).toEqual([ip, ip6]);
  });
});

const NO_LOCALHOST = { localhost: { ip: false, ip6: false } };

test.each<
  [string, SupportedOptions["nodePortAddresses"], FamilyContext["nodePorts"], FamilyContext["nodePorts"]]
>([
  [
    "primary",
    { primary: true, ...NO_LOCALHOST, cidrs: { ip: [], ip6: [] } },
    { kind: "addresses", addresses: ["192.0.2.2"] },
    { kind: "all" },
  ],
  [
    "chosen",
    { primary: false, ...NO_LOCALHOST, cidrs: { ip: ["198.51.100.0/24", "127.0.0.0/8"], ip6: ["::/0"] } },
    { kind: "addresses", addresses: ["198.51.100.2"] },
    { kind: "all" },
  ],
  [
    "primary and chosen",
    { primary: true, ...NO_LOCALHOST, cidrs: { ip: ["198.51.100.0/24"], ip6: [] } },
    { kind: "addresses", addresses: ["192.0.2.2", "198.51.100.2"] },
    { kind: "all" },
  ],
  [
    "no other than loopback",
    { primary: false, localhost: { ip: true, ip6: true }, cidrs: { ip: [], ip6: [] } },
    { kind: "addresses", addresses: [] },
    { kind: "addresses", addresses: [] },
  ],
])("NodePorts answer on %s addresses", (_, nodePortAddresses, ip, ip6) => {
  expect([
    contextOf({ nodePortAddresses }).nodePorts,
    contextOf({ nodePortAddresses }, "ip6").nodePorts,
  ]).toEqual([ip, ip6]);
});
