import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { configurationOf } from "../../../src/config/configuration.ts";
import { printConfiguration } from "../../../src/config/configuration-file.ts";
import { FORMATS } from "../../../src/config/formats.ts";
import type { ProxyOptions } from "../../../src/config/options.ts";
import { resolveOptions } from "../../../src/config/resolve.ts";
import { PORT_RANGE_ADDRESSES } from "../../../src/features/port-ranges/rules.ts";
import { SCHEDULERS } from "../../../src/features/schedulers/scheduler.ts";
import { ALL_FEATURES } from "../../../src/features/selection.ts";
import type { EnabledFeatures } from "../../../src/model/features.ts";
import { canonicalAddress, canonicalCidr, isLoopback } from "../../../src/model/ip.ts";

const ipv4 = fc.ipV4();
const ipv6 = fc.ipV6().map((text) => canonicalAddress(text) ?? "fd00::1");
const cidr4 = fc.tuple(ipv4, fc.nat(32)).map((pair) => canonicalCidr(pair.join("/")) ?? "");
const cidr6 = fc.tuple(ipv6, fc.nat(128)).map((pair) => canonicalCidr(pair.join("/")) ?? "");
const isNotLoopback = (cidr: string) => !isLoopback(cidr.slice(0, cidr.indexOf("/")));
const listen = fc.record({ address: fc.oneof(ipv4, ipv6), port: fc.integer({ min: 1, max: 65_535 }) });
const count = fc.nat(2 ** 31 - 1);
const timeout = fc.nat(1_000_000_000_000);
const interfaceName = fc
  .string({ minLength: 1, maxLength: 15 })
  .filter((text) => FORMATS["interface-name"]?.check(text) ?? false);
const path = fc.string({ minLength: 1 }).filter((text) => !text.includes("\0"));

/** Any options that a file can express. */
const anyOptions: fc.Arbitrary<ProxyOptions> = fc.record({
  hostnameOverride: fc.oneof(fc.constant(""), fc.domain()),
  bindAddress: fc.oneof(ipv4, ipv6),
  healthzBindAddress: fc.option(listen, { nil: undefined }),
  secondHealthzBindAddress: fc.option(listen, { nil: undefined }),
  metricsBindAddress: fc.option(listen, { nil: undefined }),
  bindAddressHardFail: fc.boolean(),
  client: fc.record({
    kubeconfig: fc.oneof(fc.constant(""), path),
    master: fc.constantFrom("", "https://192.0.2.1:6443", "http://[fd00::1]/x"),
  }),
  clusterCIDRs: fc.record({ ip: fc.array(cidr4, { maxLength: 1 }), ip6: fc.array(cidr6, { maxLength: 1 }) }),
  detectLocal: fc.oneof(
    fc.constantFrom({ kind: "cluster-cidr" } as const, { kind: "node-cidr" } as const),
    interfaceName.map((name) => ({ kind: "bridge", interface: name }) as const),
    interfaceName.map((prefix) => ({ kind: "interface-prefix", prefix }) as const),
  ),
  nodePortAddresses: fc.record({
    primary: fc.boolean(),
    localhost: fc.record({ ip: fc.boolean(), ip6: fc.boolean() }),
    cidrs: fc.record({
      ip: fc.uniqueArray(cidr4.filter(isNotLoopback), { minLength: 1 }),
      ip6: fc.uniqueArray(cidr6.filter(isNotLoopback), { minLength: 1 }),
    }),
  }),
  serviceExternalIPs: fc.boolean(),
  masqueradeAll: fc.boolean(),
  masqueradeBit: fc.nat(31),
  syncPeriodMs: fc.integer({ min: 1_000_000, max: 2 ** 31 - 1 }),
  minSyncPeriodMs: fc.integer({ min: 0, max: 1_000_000_000 }).map((microseconds) => microseconds / 1_000),
  fullResyncPeriodMs: fc.integer({ min: 1, max: 2 ** 31 - 1 }),
  conntrack: fc.record({
    maxPerCore: count,
    min: count,
    tcpEstablishedTimeoutMs: timeout,
    tcpCloseWaitTimeoutMs: timeout,
    udpTimeoutMs: timeout,
    udpStreamTimeoutMs: timeout,
    tcpBeLiberal: fc.boolean(),
  }),
  oomScoreAdj: fc.integer({ min: -1_000, max: 1_000 }),
  logFormat: fc.constantFrom("text" as const, "json" as const),
  logVerbosity: count,
  reserveNodePorts: fc.boolean(),
  features: fc.constantFrom<EnabledFeatures>(
    {},
    ALL_FEATURES,
    { "client-limits": "all", "port-ranges": ["media", "voip"] },
    { schedulers: ["shop"] },
  ),
  maxAffinityTimeoutMs: fc.integer({ min: 1000, max: 86_400_000 }),
  settings: fc.record({
    answerPing: fc.boolean(),
    fastPath: fc.boolean(),
    fastPathAfter: fc.integer({ min: 1, max: 2 ** 31 - 1 }),
    fastPathInterfaces: fc.array(fc.constantFrom("eth0", "veth*", "*"), { maxLength: 3 }),
    scheduler: fc.constantFrom(...SCHEDULERS),
    portRanges: fc.constantFrom(...PORT_RANGE_ADDRESSES),
    maxPortRanges: fc.integer({ min: 1, max: 2 ** 32 - 1 }),
    refusalLogSize: fc.integer({ min: 0, max: 2 ** 32 - 1 }),
    resetVanished: fc.boolean(),
    serviceCounters: fc.constantFrom("off", "services", "endpoints"),
    observe: fc.constantFrom("off", "connections", "accounting"),
    maxLimitedClients: fc.integer({ min: 1, max: 2 ** 32 - 1 }),
    passiveHealthCheck: fc.oneof(
      fc.constant("off" as const),
      fc.record({
        failures: fc.integer({ min: 1, max: 1000 }),
        intervalMs: fc.integer({ min: 1000, max: 60_000 }),
        ejectMs: fc.integer({ min: 1000, max: 300_000 }),
        maxEjected: fc.integer({ min: 1, max: 100 }),
      }),
    ),
  }),
  affinityMapSize: fc.integer({ min: 1, max: 2 ** 32 - 1 }),
  maxServiceElements: fc.integer({ min: 1, max: 2 ** 32 - 1 }),
  maxElements: fc.integer({ min: 1, max: 12_000_000 }),
  maxNamespaceElements: fc.integer({ min: 1, max: 12_000_000 }),
  daemonSocket: fc.oneof(fc.constant(""), path),
  nftPath: path,
});

describe("a printed configuration", () => {
  it("is read back as the same options, without a warning", () => {
    fc.assert(
      fc.property(anyOptions, (options) => {
        expect(resolveOptions({ configText: printConfiguration(options) })).toEqual({
          options,
          warnings: [],
        });
      }),
    );
  });

  it("is the same data as YAML and as an object, its fields sorted", () => {
    fc.assert(
      fc.property(anyOptions, (options) => {
        const printed = parse(printConfiguration(options));
        expect(printed).toEqual(configurationOf(options));
        expect(Object.keys(printed)).toEqual(Object.keys(printed).sort());
      }),
    );
  });

  it("of the defaults shows every option", () => {
    expect(printConfiguration(resolveOptions().options)).toMatchInlineSnapshot(`
      "apiVersion: kubeproxy.config.k8s.io/v1alpha1
      bindAddress: 0.0.0.0
      bindAddressHardFail: false
      clientConnection:
        kubeconfig: ""
      clusterCIDR: ""
      conntrack:
        maxPerCore: 32768
        min: 131072
        tcpBeLiberal: false
        tcpCloseWaitTimeout: 1h0m0s
        tcpEstablishedTimeout: 24h0m0s
        udpStreamTimeout: 0s
        udpTimeout: 0s
      detectLocal:
        bridgeInterface: ""
        interfaceNamePrefix: ""
      detectLocalMode: ClusterCIDR
      healthzBindAddress: 0.0.0.0:10256
      hostnameOverride: ""
      kind: KubeProxyConfiguration
      logging:
        format: text
        verbosity: 0
      metricsBindAddress: 127.0.0.1:10249
      mode: nftables
      nftProxy:
        affinityMapSize: 1048576
        answerPing: false
        daemonSocket: /run/nft-proxy/daemon.sock
        fastPath: false
        fastPathAfter: 20
        fastPathInterfaces: []
        features:
          - none
        fullResyncPeriod: 1h0m0s
        master: ""
        maxAffinityTimeout: 24h0m0s
        maxElements: 1000000
        maxLimitedClients: 65536
        maxNamespaceElements: 500000
        maxPortRanges: 10000
        maxServiceElements: 150000
        nftPath: nft
        observe: off
        passiveHealthCheck: off
        portRanges: virtual
        refusalLogSize: 65536
        reserveNodePorts: false
        resetVanished: false
        scheduler: random
        secondHealthzBindAddress: 0.0.0.0:0
        serviceCounters: off
      nftables:
        masqueradeAll: false
        masqueradeBit: 14
        minSyncPeriod: 0s
        syncPeriod: 30s
      nodePortAddresses:
        - primary
      oomScoreAdj: -999
      "
    `);
  });
});
