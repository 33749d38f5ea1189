import { describe, expect, it } from "vitest";
import { resolveOptions } from "../../../src/config/resolve.ts";
import { errorOf, fileWith } from "./support.ts";

const faultsOf = (lines: string): Readonly<Record<string, string>> => {
  const error = errorOf(() => resolveOptions({ configText: fileWith(lines), configName: "proxy.yaml" }));
  expect(error.code).toBe("BAD_CONFIG");
  expect(error.message).toContain("proxy.yaml");
  return error.evidence;
};

/** Lines of a configuration, and the path at fault. */
const WRONG_VALUES: readonly [string, string][] = [
  ["mode: kernelspace", "mode"],
  ["mode: 5", "mode"],
  ["hostnameOverride: '  '", "hostnameOverride"],
  ["hostnameOverride: 'a b'", "hostnameOverride"],
  ["hostnameOverride: -a", "hostnameOverride"],
  ["hostnameOverride: 7", "hostnameOverride"],
  [`hostnameOverride: ${"a".repeat(254)}`, "hostnameOverride"],
  ["bindAddress: 010.0.0.1", "bindAddress"],
  ["bindAddress: fe80::1%eth0", "bindAddress"],
  ["bindAddress: ::ffff:10.0.0.1", "bindAddress"],
  ["bindAddress: '10.0.0.1; flush ruleset'", "bindAddress"],
  ["healthzBindAddress: 0.0.0.0:00", "healthzBindAddress"],
  ["healthzBindAddress: 0.0.0.0:-1", "healthzBindAddress"],
  ["healthzBindAddress: 0.0.0.0:65536", "healthzBindAddress"],
  ["healthzBindAddress: ':10256'", "healthzBindAddress"],
  ["metricsBindAddress: localhost:10249", "metricsBindAddress"],
  ["metricsBindAddress: 10249", "metricsBindAddress"],
  ["bindAddressHardFail: 'true'", "bindAddressHardFail"],
  ["bindAddressHardFail: 1", "bindAddressHardFail"],
  ["clusterCIDR: 10.0.0.0", "clusterCIDR"],
  ["clusterCIDR: '10.0.0.0/8, fd00::/8'", "clusterCIDR"],
  ["clusterCIDR: 10.0.0.0/8,11.0.0.0/8", "clusterCIDR"],
  ["clusterCIDR: [10.0.0.0/8]", "clusterCIDR"],
  ["detectLocalMode: clusterCIDR", "detectLocalMode"],
  ["detectLocalMode: BridgeInterface", "detectLocal.bridgeInterface"],
  ["detectLocalMode: InterfaceNamePrefix", "detectLocal.interfaceNamePrefix"],
  ["detectLocal: {bridgeInterface: sixteen-letters-}", "detectLocal.bridgeInterface"],
  ["detectLocal: {bridgeInterface: '@cluster-ips'}", "detectLocal.bridgeInterface"],
  ["detectLocal: {interfaceNamePrefix: 'veth*'}", "detectLocal.interfaceNamePrefix"],
  ["detectLocal: br0", "detectLocal"],
  ["nodePortAddresses: primary", "nodePortAddresses"],
  ["nodePortAddresses: [10.0.0.0/8, 10.0.0.1]", "nodePortAddresses[1]"],
  ["nodePortAddresses: [Primary]", "nodePortAddresses[0]"],
  ["nodePortAddresses: ['']", "nodePortAddresses[0]"],
  ["nodePortAddresses: [null]", "nodePortAddresses[0]"],
  ["nodePortAddresses: [primary, Localhost]", "nodePortAddresses[1]"],
  ['clientConnection: {kubeconfig: "a\\0b"}', "clientConnection.kubeconfig"],
  ["nftables: {masqueradeBit: 32}", "nftables.masqueradeBit"],
  ["nftables: {masqueradeBit: -1}", "nftables.masqueradeBit"],
  ["nftables: {masqueradeAll: 'no'}", "nftables.masqueradeAll"],
  ["nftables: {minSyncPeriod: 1}", "nftables.minSyncPeriod"],
  ["nftables: {minSyncPeriod: -1s}", "nftables.minSyncPeriod"],
  ["nftables: {minSyncPeriod: 1 second}", "nftables.minSyncPeriod"],
  ["nftables: {minSyncPeriod: 31s}", "nftables.syncPeriod"],
  ["nftables: {minSyncPeriod: 1s, syncPeriod: 1ms}", "nftables.syncPeriod"],
  ["nftables: {syncPeriod: 597h}", "nftables.syncPeriod"],
  ["conntrack: {maxPerCore: -1}", "conntrack.maxPerCore"],
  ["conntrack: {min: 2147483648}", "conntrack.min"],
  ["conntrack: {tcpBeLiberal: 0}", "conntrack.tcpBeLiberal"],
  ["conntrack: {tcpCloseWaitTimeout: -1s}", "conntrack.tcpCloseWaitTimeout"],
  ["conntrack: {tcpEstablishedTimeout: soon}", "conntrack.tcpEstablishedTimeout"],
  ["conntrack: {udpTimeout: 5}", "conntrack.udpTimeout"],
  ["conntrack: {udpStreamTimeout: 2000000h}", "conntrack.udpStreamTimeout"],
  ["oomScoreAdj: -1001", "oomScoreAdj"],
  ["oomScoreAdj: '0'", "oomScoreAdj"],
  ["logging: {format: klog}", "logging.format"],
  ["logging: {verbosity: -1}", "logging.verbosity"],
  ["nftProxy: {maxLimitedClients: -1}", "nftProxy.maxLimitedClients"],
  ["nftProxy: {affinityMapSize: 0}", "nftProxy.affinityMapSize"],
  ["nftProxy: {maxAffinityTimeout: 25h}", "nftProxy.maxAffinityTimeout"],
  ["nftProxy: {maxAffinityTimeout: 0s}", "nftProxy.maxAffinityTimeout"],
  ["nftProxy: {refusalLogSize: -1}", "nftProxy.refusalLogSize"],
  ["nftProxy: {maxServiceElements: 0}", "nftProxy.maxServiceElements"],
  ["nftProxy: {maxElements: 0}", "nftProxy.maxElements"],
  ["nftProxy: {maxElements: 12000001}", "nftProxy.maxElements"],
  ["nftProxy: {maxNamespaceElements: 1.5}", "nftProxy.maxNamespaceElements"],
  ["nftProxy: {maxPortRanges: 1.5}", "nftProxy.maxPortRanges"],
  ["nftProxy: {fullResyncPeriod: 0s}", "nftProxy.fullResyncPeriod"],
  ["nftProxy: {master: 192.0.2.1}", "nftProxy.master"],
  ["nftProxy: {master: 'https://'}", "nftProxy.master"],
  ["nftProxy: {features: [ports]}", "nftProxy.features[0]"],
  ["nftProxy: {features: [none@shop]}", "nftProxy.features[0]"],
  ["nftProxy: {features: [port-ranges@Shop]}", "nftProxy.features[0]"],
  ["nftProxy: {passiveHealthCheck: failures=0}", "nftProxy.passiveHealthCheck"],
  ["nftProxy: {portRanges: on}", "nftProxy.portRanges"],
  ["nftProxy: {nftPath: [nft]}", "nftProxy.nftPath"],
  ["nftProxy: {serviceCounters: on}", "nftProxy.serviceCounters"],
  ["nftProxy: {observe: on}", "nftProxy.observe"],
  ["iptables: none", "iptables"],
  ["conntrack: []", "conntrack"],
];

describe("a wrong value", () => {
  it.each(WRONG_VALUES)("%s is refused at %s", (lines, path) => {
    const faults = faultsOf(lines);
    expect(Object.keys(faults)).toEqual([path]);
    expect(faults[path]).toMatch(/^must /);
  });

  it("does not hide other wrong values", () => {
    expect(
      faultsOf("mode: userspace\nconntrack: {min: x, maxPerCore: 1.5}\nnodePortAddresses: [a, primary, b]"),
    ).toEqual({
      mode: 'must be nftables, iptables or ipvs, not "userspace"',
      "conntrack.min": 'must be an integer, not "x"',
      "conntrack.maxPerCore": "must be an integer, not 1.5",
      "nodePortAddresses[0]":
        'must be a CIDR such as "192.0.2.0/24", or one of the words primary, localhost and all, not "a"',
      "nodePortAddresses[2]":
        'must be a CIDR such as "192.0.2.0/24", or one of the words primary, localhost and all, not "b"',
    });
  });

  it("of another type than text is told the form of the text", () => {
    expect(faultsOf("nftables: {syncPeriod: 30}\nbindAddress: 1\nclientConnection: {kubeconfig: 1}")).toEqual(
      {
        "nftables.syncPeriod": 'must be a duration such as "30s" or "1h30m", from 0s to 596h, not 30',
        bindAddress: "must be an IP address, without leading zeros or a zone, not 1",
        "clientConnection.kubeconfig": "must be a path, not 1",
      },
    );
  });

  it("does not hide fields that depend on each other, or that are unknown", () => {
    const lines = "clusterCIDR: foo\nconntrack: {min: x}\nnftables: {minSyncPeriod: 31s}\nconntrak: {min: 1}";
    expect(Object.keys(faultsOf(lines)).sort()).toEqual([
      "clusterCIDR",
      "conntrack.min",
      "nftables.syncPeriod",
    ]);
    const error = errorOf(() => resolveOptions({ configText: fileWith(lines) }));
    expect(error.hint).toContain("conntrak is ignored");
    expect(error.hint).toContain("did you mean conntrack?");
  });

  it("is a misspelt field of nftProxy, too, which no kube-proxy knows", () => {
    expect(faultsOf("nftProxy: {schedulr: random, x: 1}\nconntrack: {mni: 1}")).toEqual({
      "nftProxy.schedulr": "is not a field of nftProxy: did you mean scheduler?",
      "nftProxy.x": "is not a field of nftProxy",
    });
  });

  it("is one that forbade a feature before --features, which the error names", () => {
    const off = (feature: string) =>
      expect.stringContaining(`: ${feature} is off unless --features (nftProxy.features) names it`);
    expect(
      faultsOf(
        "nftProxy: {connectionTimeouts: off, ignoreServiceResets: true, maxLimitedClients: 0, passiveHealthCheck: never, portRanges: off}",
      ),
    ).toEqual({
      "nftProxy.connectionTimeouts": off("connection-timeouts"),
      "nftProxy.ignoreServiceResets": off("connection-life"),
      "nftProxy.maxLimitedClients": off("client-limits"),
      "nftProxy.passiveHealthCheck": off("passive-health-checks"),
      "nftProxy.portRanges": off("port-ranges"),
    });
  });

  it("does not blame a field for one that it depends on", () => {
    expect(Object.keys(faultsOf("nftables: {minSyncPeriod: 31s, syncPeriod: x}"))).toEqual([
      "nftables.syncPeriod",
    ]);
    expect(faultsOf("nftables: {minSyncPeriod: x, syncPeriod: 1ms}")).not.toHaveProperty(
      "nftables.syncPeriod",
    );
  });

  it("that is long is truncated in the message", () => {
    expect(faultsOf(`bindAddress: ${"x".repeat(1_000)}`).bindAddress?.length).toBeLessThan(200);
  });
});

describe("a document of another kind", () => {
  it.each([
    ["apiVersion", "kind: KubeProxyConfiguration", "must be given"],
    [
      "apiVersion",
      "apiVersion: kubeproxy.config.k8s.io/v1beta1\nkind: KubeProxyConfiguration",
      'must be kubeproxy.config.k8s.io/v1alpha1, not "kubeproxy.config.k8s.io/v1beta1"',
    ],
    ["kind", "apiVersion: kubeproxy.config.k8s.io/v1alpha1", "must be given"],
    [
      "kind",
      "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeletConfiguration",
      'must be KubeProxyConfiguration, not "KubeletConfiguration"',
    ],
    ["(the document)", "[]", "must be an object, not an array"],
    ["(the document)", "text", 'must be an object, not "text"'],
  ])("is refused at %s when it is %j", (path, configText, reason) => {
    expect(errorOf(() => resolveOptions({ configText })).evidence).toEqual({ [path]: reason });
  });
});
