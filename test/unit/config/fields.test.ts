import { readFileSync } from "node:fs";
import { Ajv } from "ajv";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import schema from "../../../schemas/kubeproxyconfiguration.schema.json" with { type: "json" };
import { configurationOf, valueAt } from "../../../src/config/configuration.ts";
import { IGNORED_FIELDS } from "../../../src/config/ignored-settings.ts";
import type { ProxyOptions } from "../../../src/config/options.ts";
import { resolveOptions } from "../../../src/config/resolve.ts";
import { fileWith, subjectOf } from "./support.ts";

const DEFAULTS = resolveOptions().options;
const { client: CLIENT, conntrack: CONNTRACK, settings: SETTINGS } = DEFAULTS;

/** A field with a value for it in YAML, and the options that this changes. */
type Row = readonly [string, string, Partial<ProxyOptions>];

/** Every field that has an effect has a row. */
const WORKING_FIELDS: readonly Row[] = [
  ["bindAddress", "192.0.2.1", { bindAddress: "192.0.2.1" }],
  ["bindAddressHardFail", "true", { bindAddressHardFail: true }],
  ["clientConnection.kubeconfig", "/k", { client: { ...CLIENT, kubeconfig: "/k" } }],
  ["clusterCIDR", "10.1.0.0/16", { clusterCIDRs: { ip: ["10.1.0.0/16"], ip6: [] } }],
  ["conntrack.maxPerCore", "0", { conntrack: { ...CONNTRACK, maxPerCore: 0 } }],
  ["conntrack.min", "0", { conntrack: { ...CONNTRACK, min: 0 } }],
  ["conntrack.tcpBeLiberal", "true", { conntrack: { ...CONNTRACK, tcpBeLiberal: true } }],
  ["conntrack.tcpCloseWaitTimeout", "0s", { conntrack: { ...CONNTRACK, tcpCloseWaitTimeoutMs: 0 } }],
  [
    "conntrack.tcpEstablishedTimeout",
    "1h30m",
    { conntrack: { ...CONNTRACK, tcpEstablishedTimeoutMs: 5_400_000 } },
  ],
  ["conntrack.udpStreamTimeout", "2m", { conntrack: { ...CONNTRACK, udpStreamTimeoutMs: 120_000 } }],
  ["conntrack.udpTimeout", "3s", { conntrack: { ...CONNTRACK, udpTimeoutMs: 3_000 } }],
  ["detectLocal.bridgeInterface", "br0", {}],
  ["detectLocal.interfaceNamePrefix", "veth", {}],
  ["detectLocalMode", "NodeCIDR", { detectLocal: { kind: "node-cidr" } }],
  ["featureGates.AllowServiceExternalIPs", "false", { serviceExternalIPs: false }],
  ["healthzBindAddress", "127.0.0.1", { healthzBindAddress: { address: "127.0.0.1", port: 10_256 } }],
  ["hostnameOverride", "Node-1", { hostnameOverride: "node-1" }],
  ["logging.format", "json", { logFormat: "json" }],
  ["logging.verbosity", "5", { logVerbosity: 5 }],
  ["metricsBindAddress", '"[::]:9"', { metricsBindAddress: { address: "::", port: 9 } }],
  ["mode", "nftables", {}],
  ["nftProxy.maxLimitedClients", "1000", { settings: { ...SETTINGS, maxLimitedClients: 1_000 } }],
  ["nftProxy.affinityMapSize", "1000", { affinityMapSize: 1_000 }],
  ["nftProxy.maxAffinityTimeout", "10m", { maxAffinityTimeoutMs: 600_000 }],
  ["nftProxy.refusalLogSize", "0", { settings: { ...SETTINGS, refusalLogSize: 0 } }],
  ["nftProxy.maxServiceElements", "7", { maxServiceElements: 7 }],
  ["nftProxy.maxElements", "7", { maxElements: 7 }],
  ["nftProxy.maxNamespaceElements", "7", { maxNamespaceElements: 7 }],
  ["nftProxy.maxPortRanges", "7", { settings: { ...SETTINGS, maxPortRanges: 7 } }],
  ["nftProxy.daemonSocket", '""', { daemonSocket: "" }],
  [
    "nftProxy.secondHealthzBindAddress",
    '"::"',
    { secondHealthzBindAddress: { address: "::", port: 10_256 } },
  ],
  ["nftProxy.fastPath", "true", { settings: { ...SETTINGS, fastPath: true } }],
  [
    "nftProxy.features",
    "[client-limits, port-ranges@voip, port-ranges@media]",
    { features: { "client-limits": "all", "port-ranges": ["media", "voip"] } },
  ],
  ["nftProxy.fastPathAfter", "7", { settings: { ...SETTINGS, fastPathAfter: 7 } }],
  [
    "nftProxy.fastPathInterfaces",
    "[eth0, 'veth*']",
    { settings: { ...SETTINGS, fastPathInterfaces: ["eth0", "veth*"] } },
  ],
  ["nftProxy.fullResyncPeriod", "1ms", { fullResyncPeriodMs: 1 }],
  ["nftProxy.master", '"https://192.0.2.1"', { client: { ...CLIENT, master: "https://192.0.2.1" } }],
  ["nftProxy.nftPath", "/sbin/nft", { nftPath: "/sbin/nft" }],
  [
    "nftProxy.passiveHealthCheck",
    "failures=5",
    {
      settings: {
        ...SETTINGS,
        passiveHealthCheck: { failures: 5, intervalMs: 1000, ejectMs: 10_000, maxEjected: 50 },
      },
    },
  ],
  ["nftProxy.portRanges", "all", { settings: { ...SETTINGS, portRanges: "all" } }],
  ["nftProxy.reserveNodePorts", "true", { reserveNodePorts: true }],
  ["nftProxy.answerPing", "true", { settings: { ...SETTINGS, answerPing: true } }],
  ["nftProxy.resetVanished", "true", { settings: { ...SETTINGS, resetVanished: true } }],
  ["nftProxy.scheduler", "flow-hash", { settings: { ...SETTINGS, scheduler: "flow-hash" } }],
  ["nftProxy.serviceCounters", "services", { settings: { ...SETTINGS, serviceCounters: "services" } }],
  ["nftProxy.observe", "connections", { settings: { ...SETTINGS, observe: "connections" } }],
  ["nftables.masqueradeAll", "true", { masqueradeAll: true }],
  ["nftables.masqueradeBit", "0", { masqueradeBit: 0 }],
  ["nftables.minSyncPeriod", "100ms", { minSyncPeriodMs: 100 }],
  ["nftables.syncPeriod", "1m", { syncPeriodMs: 60_000 }],
  [
    "nodePortAddresses",
    '["10.0.0.0/8"]',
    {
      nodePortAddresses: {
        primary: false,
        localhost: { ip: false, ip6: false },
        cidrs: { ip: ["10.0.0.0/8"], ip6: ["::/0"] },
      },
    },
  ],
  ["oomScoreAdj", "0", { oomScoreAdj: 0 }],
  ["iptables.masqueradeAll", "true", { masqueradeAll: true }],
  ["iptables.masqueradeBit", "0", { masqueradeBit: 0 }],
];

/**
 * Values that stand for "not given", besides null, in each field that has such. Everywhere else zero means
 * zero.
 */
const UNSET_VALUES: readonly [string, string][] = [
  ["bindAddress", '""'],
  ["clusterCIDR", '""'],
  ["detectLocalMode", '""'],
  ["healthzBindAddress", '""'],
  ["hostnameOverride", '""'],
  ["logging.format", '""'],
  ["metricsBindAddress", '""'],
  ["nftProxy.nftPath", '""'],
  ["nftProxy.serviceCounters", '""'],
  ["nftProxy.observe", '""'],
  ["nftables.minSyncPeriod", "0s"],
  ["nftables.syncPeriod", "0s"],
  ["nodePortAddresses", "[]"],
];

/** A value that asks for something, for each field without effect. */
const IGNORED_VALUES: Readonly<Record<string, string>> = {
  "clientConnection.acceptContentTypes": "text/plain",
  "clientConnection.contentType": "text/plain",
  "clientConnection.burst": "7",
  "clientConnection.qps": "0.5",
  configSyncPeriod: "1m",
  enableProfiling: "true",
  "iptables.localhostNodePorts": "maybe",
  "iptables.minSyncPeriod": "2s",
  "iptables.snatNodeInternalIP": "true",
  "iptables.syncPeriod": "31s",
  "ipvs.excludeCIDRs": "[10.0.0.0/8]",
  "ipvs.minSyncPeriod": "1s",
  "ipvs.strictARP": "true",
  "ipvs.syncPeriod": "31s",
  "ipvs.tcpFinTimeout": "1s",
  "ipvs.tcpTimeout": "1s",
  "ipvs.udpTimeout": "1s",
  "logging.flushFrequency": "6s",
  "logging.options": '{json: {splitStream: true, infoBufferSize: "0"}}',
  "logging.vmodule": "[{filePattern: x, verbosity: 5}]",
  portRange: "1-2",
  showHiddenMetricsForVersion: "1.35",
  windowsRunAsService: "true",
  "winkernel.enableDSR": "true",
  "winkernel.forwardHealthCheckVip": "true",
  "winkernel.networkName": "x",
  "winkernel.rootHnsEndpointName": "x",
  "winkernel.sourceVip": "192.0.2.1",
};

interface SchemaPart {
  readonly properties?: Readonly<Record<string, SchemaPart>>;
}

function leaves({ properties }: SchemaPart, path = ""): string[] {
  if (properties === undefined) return [path];
  return Object.entries(properties).flatMap(([key, part]) =>
    leaves(part, path === "" ? key : `${path}.${key}`),
  );
}

function fileWithField(path: string, value: string): string {
  const [first, second] = path.split(".");
  return fileWith(second === undefined ? `${first}: ${value}\n` : `${first}:\n  ${second}: ${value}\n`);
}

const resolveField = (path: string, value: string) =>
  resolveOptions({ configText: fileWithField(path, value) });

describe("the schema of the configuration", () => {
  it("is a valid JSON schema of draft 7", () => {
    expect(new Ajv().validateSchema(schema)).toBe(true);
  });

  it("lists exactly the fields that have an effect and those that have none", () => {
    const ignored = IGNORED_FIELDS.map(({ path }) => path);
    const working = WORKING_FIELDS.map(([path]) => path);
    expect(leaves(schema as SchemaPart).sort()).toEqual(
      ["apiVersion", "kind", "ipvs.scheduler", ...ignored, ...working].sort(),
    );
    expect(Object.keys(IGNORED_VALUES)).toEqual(ignored);
  });

  it("knows every field that kube-proxy writes", () => {
    const theirs = parse(readFileSync("test/fixtures/kube-proxy/defaults.yaml", "utf8"));
    const { warnings } = resolveOptions({ configText: JSON.stringify(theirs) });
    expect(warnings.filter((warning) => warning.includes("no such field"))).toEqual([]);
  });
});

describe("fields that have an effect:", () => {
  it.each(WORKING_FIELDS)("%s: %s sets its option, and no other", (path, value, changes) => {
    expect(resolveField(path, value)).toEqual({ options: { ...DEFAULTS, ...changes }, warnings: [] });
  });

  it.each(["healthzBindAddress", "metricsBindAddress"])("%s with port 0 switches the server off", (path) => {
    for (const value of ["127.0.0.1:0", '"[::]:0"'])
      expect(resolveField(path, value)).toEqual({
        options: { ...DEFAULTS, [path]: undefined },
        warnings: [],
      });
  });

  it.each(WORKING_FIELDS)("%s: null is the default", (path) => {
    expect(resolveField(path, "null")).toEqual({ options: DEFAULTS, warnings: [] });
  });

  it.each(UNSET_VALUES)("%s: %s is the same as not given", (path, value) => {
    expect(resolveField(path, value)).toEqual({ options: DEFAULTS, warnings: [] });
  });

  it("a section that is null has the defaults of its fields", () => {
    const sections =
      "clientConnection: null\nconntrack:\ndetectLocal:\nlogging:\nnftables:\nnftProxy:\niptables:\n";
    expect(resolveOptions({ configText: fileWith(sections) })).toEqual({ options: DEFAULTS, warnings: [] });
  });

  it("bindAddress of IPv6 makes the servers listen on IPv6", () => {
    const { options } = resolveField("bindAddress", '"FD00::1"');
    expect(options.bindAddress).toBe("fd00::1");
    expect(options.healthzBindAddress).toEqual({ address: "::", port: 10_256 });
    expect(options.metricsBindAddress).toEqual({ address: "::1", port: 10_249 });
  });

  it.each([
    ["BridgeInterface", "bridgeInterface: br0", { kind: "bridge", interface: "br0" }],
    ["InterfaceNamePrefix", "interfaceNamePrefix: veth", { kind: "interface-prefix", prefix: "veth" }],
    ["ClusterCIDR", "bridgeInterface: br0", { kind: "cluster-cidr" }],
  ])("detectLocalMode: %s uses its own field of detectLocal, and no other", (mode, field, detectLocal) => {
    const configText = fileWith(`detectLocalMode: ${mode}\ndetectLocal: {${field}}\n`);
    expect(resolveOptions({ configText }).options.detectLocal).toEqual(detectLocal);
  });
});

describe("fields without an effect:", () => {
  it.each(IGNORED_FIELDS.map((field) => [field.path, field] as const))(
    "%s is warned about once when it asks for something",
    (path, { reason }) => {
      expect(resolveField(path, IGNORED_VALUES[path] ?? "")).toEqual({
        options: DEFAULTS,
        warnings: [`${path} is ignored: ${reason}`],
      });
    },
  );

  it.each(IGNORED_FIELDS.map((field) => [field.path, field] as const))(
    "%s is ignored without a warning when it asks for nothing",
    (path, { harmless = [] }) => {
      for (const value of [...harmless, null, "", 0, "0s", "0", false, [], {}]) {
        expect(resolveField(path, JSON.stringify(value)).warnings).toEqual([]);
      }
    },
  );

  it("a duration equal to the default is not warned about, however it is written", () => {
    expect(resolveField("configSyncPeriod", "900s").warnings).toEqual([]);
    expect(resolveField("iptables.minSyncPeriod", "1000ms").warnings).toEqual([]);
  });
});

describe("an unknown field", () => {
  it("is warned about once, with its path, and what it contains is not read", () => {
    const configText = fileWith(
      "spare: {deep: {er: 1}}\nconntrack: {spare: null}\nipvs: {spare: 1}\n__proto__: {mode: ipvs}\nconstructor: 1\n",
    );
    const { options, warnings } = resolveOptions({ configText });
    expect(options).toEqual(DEFAULTS);
    expect(warnings.map(subjectOf)).toEqual([
      "spare",
      "conntrack.spare",
      "ipvs.spare",
      "__proto__",
      "constructor",
    ]);
    expect(warnings[1]).toBe("conntrack.spare is ignored: KubeProxyConfiguration v1alpha1 has no such field");
  });
});

describe("the mode", () => {
  it('"" is accepted with one warning that names its meaning for kube-proxy', () => {
    const { options, warnings } = resolveField("mode", '""');
    expect(options).toEqual(DEFAULTS);
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toMatch(
      /^mode is "", which means iptables for kube-proxy: nft-proxy always programs/,
    );
  });

  it.each([
    ["iptables", SETTINGS.scheduler],
    ["ipvs", "round-robin"],
  ])("%s is accepted with one warning", (mode, scheduler) => {
    const { options, warnings } = resolveField("mode", mode);
    expect(options).toEqual({ ...DEFAULTS, settings: { ...SETTINGS, scheduler } });
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain(`mode is ${mode}: nft-proxy always programs nftables`);
  });
});

describe("clusterCIDR", () => {
  it("is validated in the mode ClusterCIDR, and ignored in other modes", () => {
    const configText = (mode: string) => fileWith(`detectLocalMode: ${mode}\nclusterCIDR: 10.244.0.0\n`);
    expect(() => resolveOptions({ configText: configText("ClusterCIDR") })).toThrow("a value is invalid");
    const { options } = resolveOptions({ configText: configText("NodeCIDR") });
    expect(options.clusterCIDRs).toEqual({ ip: [], ip6: [] });
  });
});

describe("feature gates", () => {
  it("are warned about, except for AllowServiceExternalIPs", () => {
    const configText = fileWith("featureGates: {AllowServiceExternalIPs: true, Other: true}\n");
    const { options, warnings } = resolveOptions({ configText });
    expect(options.serviceExternalIPs).toBe(true);
    expect(warnings.map(subjectOf)).toEqual(["featureGates.Other"]);
  });
});

describe("the section iptables", () => {
  const resolve = (mode: string, sections: string) => {
    const { options, warnings } = resolveOptions({ configText: fileWith(`mode: ${mode}\n${sections}`) });
    const { masqueradeAll: all, masqueradeBit: bit } = options;
    return {
      all,
      bit,
      warnings: warnings.filter((text) => text.includes("masquerade")),
    };
  };
  const GIVEN = "iptables: {masqueradeAll: true, masqueradeBit: 20}\n";

  it.each(['""', "iptables", "ipvs"])(
    "decides how packets are masqueraded in mode %s, as in kube-proxy",
    (mode) => {
      expect(resolve(mode, GIVEN)).toEqual({ all: true, bit: 20, warnings: [] });
      // kubeadm writes every section.
      const nothing = "nftables: {masqueradeAll: false, masqueradeBit: null}\n";
      expect(resolve(mode, GIVEN + nothing)).toEqual({ all: true, bit: 20, warnings: [] });
    },
  );

  it("is ignored with a reason in mode nftables, and where nftables.masqueradeBit is given", () => {
    expect(resolve("nftables", GIVEN)).toEqual({
      all: false,
      bit: 14,
      warnings: [
        "iptables.masqueradeAll is ignored: it has an effect in modes other than nftables only",
        "iptables.masqueradeBit is ignored: it has an effect in modes other than nftables only",
      ],
    });
    expect(resolve("iptables", `${GIVEN}nftables: {masqueradeBit: 21}\n`)).toEqual({
      all: true,
      bit: 21,
      warnings: ["iptables.masqueradeBit is ignored: nftables.masqueradeBit overrides it"],
    });
  });
});

describe("ipvs.scheduler", () => {
  const resolve = (lines: string) => resolveOptions({ configText: fileWith(lines) });
  const warningsOf = (lines: string) =>
    resolve(lines).warnings.filter((warning) => subjectOf(warning) === "ipvs.scheduler");

  it.each([
    ["rr", "round-robin"],
    ["wrr", "round-robin"],
    ["sh", "source-hash"],
    ["mh", "flow-hash"],
    ['""', "round-robin"],
  ])("%s becomes %s in mode ipvs", (ipvs, scheduler) => {
    const lines = `mode: ipvs\nipvs: {scheduler: ${ipvs}}\n`;
    expect(resolve(lines).options.settings.scheduler).toBe(scheduler);
    expect(warningsOf(lines)).toEqual([]);
  });

  it.each(["lc", "toString"])(
    "%s, which has no counterpart, is replaced by random with one warning",
    (ipvs) => {
      const lines = `mode: ipvs\nipvs: {scheduler: ${ipvs}}\n`;
      expect(resolve(lines).options.settings.scheduler).toBe("random");
      expect(warningsOf(lines)).toEqual([
        `ipvs.scheduler: ${ipvs} is replaced by random; there are random, round-robin, source-hash or flow-hash`,
      ]);
    },
  );

  it.each([
    ["mode: nftables\n", "it has an effect with mode ipvs only; nftProxy.scheduler has one in every mode"],
    ["mode: ipvs\nnftProxy: {scheduler: flow-hash}\n", "nftProxy.scheduler decides"],
  ])("is ignored beside %j, with the reason", (lines, reason) => {
    expect(warningsOf(`${lines}ipvs: {scheduler: rr}\n`)).toEqual([`ipvs.scheduler is ignored: ${reason}`]);
    expect(resolve(`${lines}ipvs: {scheduler: rr}\n`).options.settings.scheduler).not.toBe("round-robin");
  });
});

describe("the defaults", () => {
  it("are those that kube-proxy writes", () => {
    const theirs = parse(readFileSync("test/fixtures/kube-proxy/defaults.yaml", "utf8"));
    const ours = configurationOf(DEFAULTS);
    // kube-proxy fills these in for nftables mode only (its file was written in iptables mode); without a
    // minimum period, ours follows the length of the syncs.
    const inNftablesMode: Readonly<Record<string, unknown>> = {
      mode: "nftables",
      nodePortAddresses: ["primary"],
      "nftables.minSyncPeriod": "0s",
      "nftables.syncPeriod": theirs.iptables.syncPeriod,
    };
    for (const [path] of WORKING_FIELDS.filter(([path]) => !path.startsWith("nftProxy."))) {
      expect(valueAt(ours, path.replace(/^iptables\./, "nftables.")), path).toEqual(
        inNftablesMode[path] ?? valueAt(theirs, path),
      );
    }
  });
});
