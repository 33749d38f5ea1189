import { describe, expect, it } from "vitest";
import { valueAt, withValueAt } from "../../../src/config/configuration.ts";
import { logLevel, NAMED_OPTIONS, type ProxyOptions } from "../../../src/config/options.ts";
import { planReload } from "../../../src/config/reload.ts";
import { resolveOptions } from "../../../src/config/resolve.ts";
import { DEFAULT_PASSIVE_HEALTH_CHECK } from "../../../src/features/passive-health-checks/check.ts";
import { ALL_FEATURES } from "../../../src/features/selection.ts";

const { options: OLD } = resolveOptions();

/** Every option with another value than its default. */
const NEW: ProxyOptions = {
  hostnameOverride: "node-1",
  bindAddress: "192.0.2.1",
  healthzBindAddress: { address: "127.0.0.1", port: 1 },
  secondHealthzBindAddress: { address: "127.0.0.1", port: 2 },
  metricsBindAddress: { address: "127.0.0.1", port: 2 },
  bindAddressHardFail: true,
  client: { ...OLD.client, master: "https://192.0.2.9" },
  clusterCIDRs: { ip: ["10.0.0.0/8"], ip6: [] },
  detectLocal: { kind: "bridge", interface: "br0" },
  nodePortAddresses: {
    primary: false,
    localhost: { ip: false, ip6: false },
    cidrs: { ip: ["10.0.0.0/8"], ip6: ["::/0"] },
  },
  serviceExternalIPs: false,
  masqueradeAll: true,
  masqueradeBit: 15,
  syncPeriodMs: 1,
  minSyncPeriodMs: 2,
  fullResyncPeriodMs: 3,
  conntrack: { ...OLD.conntrack, min: 0 },
  oomScoreAdj: 1,
  logFormat: "json",
  logVerbosity: 4,
  reserveNodePorts: true,
  features: ALL_FEATURES,
  settings: {
    answerPing: true,
    fastPath: true,
    fastPathAfter: 1,
    fastPathInterfaces: ["eth0"],
    resetVanished: true,
    maxLimitedClients: 1,
    passiveHealthCheck: DEFAULT_PASSIVE_HEALTH_CHECK,
    portRanges: "all",
    maxPortRanges: 1,
    refusalLogSize: 1,
    serviceCounters: "services",
    observe: "connections",
    scheduler: "source-hash",
  },
  affinityMapSize: 1,
  maxAffinityTimeoutMs: 1000,
  maxServiceElements: 1,
  maxElements: 1,
  maxNamespaceElements: 1,
  daemonSocket: "",
  nftPath: "/nft",
};

describe("planReload", () => {
  it("plans nothing when no option changed", () => {
    expect(planReload(OLD, structuredClone(OLD))).toEqual({ options: OLD, taken: [], needRestart: [] });
  });

  it.each(NAMED_OPTIONS)(
    "takes %s over at once, or asks for a restart, as its row says, and names the file's fields",
    (name, { reload, fields }) => {
      const next = withValueAt(OLD, name, valueAt(NEW, name)) as ProxyOptions;
      const { options, taken, needRestart } = planReload(OLD, next);
      expect(options).toEqual(reload === "now" ? next : OLD);
      expect(reload === "now" ? needRestart : taken).toEqual([]);
      expect(fields.map(({ path }) => path)).toEqual(expect.arrayContaining([...taken, ...needRestart]));
    },
  );

  it("takes exactly these options over without a restart", () => {
    const { options, taken, needRestart } = planReload(OLD, NEW);
    expect(taken).toEqual([
      "clusterCIDR",
      "detectLocalMode",
      "detectLocal.bridgeInterface",
      "nodePortAddresses",
      "nftables.masqueradeAll",
      "nftables.syncPeriod",
      "nftables.minSyncPeriod",
      "nftProxy.fullResyncPeriod",
      "logging.verbosity",
      "nftProxy.reserveNodePorts",
      "nftProxy.maxAffinityTimeout",
      "nftProxy.portRanges",
      "nftProxy.maxPortRanges",
      "nftProxy.scheduler",
      "nftProxy.maxServiceElements",
      "nftProxy.maxElements",
      "nftProxy.maxNamespaceElements",
    ]);
    const changed = new Set([...taken, ...needRestart]);
    const covered = NAMED_OPTIONS.filter(([, { fields }]) => fields.some(({ path }) => changed.has(path)));
    expect(new Set(covered.map(([name]) => name.split(".", 1)[0]))).toEqual(new Set(Object.keys(OLD)));
    expect(planReload(options, NEW)).toEqual({ options, taken: [], needRestart });
  });
});

describe("logLevel", () => {
  it.each([
    ["info", 0],
    ["info", 3],
    ["debug", 4],
    ["debug", 10],
  ])("is %s for -v %d", (level, verbosity) => {
    expect(logLevel(verbosity)).toBe(level);
  });
});
