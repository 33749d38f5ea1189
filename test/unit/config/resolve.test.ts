import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { type GivenFlag, readFlags } from "../../../src/config/flags.ts";
import { resolveOptions } from "../../../src/config/resolve.ts";
import { errorOf, fileWith, subjectOf } from "./support.ts";

const fixture = (name: string): string => readFileSync(`test/fixtures/kube-proxy/${name}`, "utf8");

describe("options from flags alone", () => {
  it("are kube-proxy's defaults for nftables mode where no flag is given", () => {
    expect(resolveOptions()).toEqual({
      options: {
        hostnameOverride: "",
        bindAddress: "0.0.0.0",
        healthzBindAddress: { address: "0.0.0.0", port: 10_256 },
        metricsBindAddress: { address: "127.0.0.1", port: 10_249 },
        bindAddressHardFail: false,
        client: { kubeconfig: "", master: "" },
        clusterCIDRs: { ip: [], ip6: [] },
        detectLocal: { kind: "cluster-cidr" },
        nodePortAddresses: {
          primary: true,
          localhost: { ip: false, ip6: false },
          cidrs: { ip: [], ip6: [] },
        },
        serviceExternalIPs: true,
        masqueradeAll: false,
        masqueradeBit: 14,
        syncPeriodMs: 30_000,
        minSyncPeriodMs: 0,
        fullResyncPeriodMs: 3_600_000,
        conntrack: {
          maxPerCore: 32_768,
          min: 131_072,
          tcpEstablishedTimeoutMs: 86_400_000,
          tcpCloseWaitTimeoutMs: 3_600_000,
          udpTimeoutMs: 0,
          udpStreamTimeoutMs: 0,
          tcpBeLiberal: false,
        },
        oomScoreAdj: -999,
        logFormat: "text",
        logVerbosity: 0,
        reserveNodePorts: false,
        features: {},
        settings: {
          answerPing: false,
          fastPath: false,
          fastPathAfter: 20,
          fastPathInterfaces: [],
          resetVanished: false,
          maxLimitedClients: 65_536,
          passiveHealthCheck: "off",
          portRanges: "virtual",
          maxPortRanges: 10_000,
          refusalLogSize: 65_536,
          serviceCounters: "off",
          observe: "off",
          scheduler: "random",
        },
        affinityMapSize: 1_048_576,
        maxAffinityTimeoutMs: 86_400_000,
        maxServiceElements: 150_000,
        maxElements: 1_000_000,
        maxNamespaceElements: 500_000,
        daemonSocket: "/run/nft-proxy/daemon.sock",
        nftPath: "nft",
      },
      warnings: [],
    });
  });

  it("are refused, and all wrong flags named, when flags have wrong values", () => {
    const flags = readFlags({
      "conntrack-min": "x",
      "nodeport-addresses": "10.0.0.0/8,nowhere",
      "oom-score-adj": "",
      "pod-bridge-interface": "",
      "proxy-mode": "userspace",
      "hostname-override": "  ",
    });
    const error = errorOf(() => resolveOptions({ flags }));
    expect(error.code).toBe("BAD_ARGUMENT");
    expect(Object.keys(error.evidence).sort()).toEqual([
      "--conntrack-min",
      "--hostname-override",
      "--nodeport-addresses",
      "--oom-score-adj",
      "--proxy-mode",
    ]);
    expect(error.evidence["--proxy-mode"]).toContain("must be nftables, iptables or ipvs");
  });

  it("are refused when flags contradict each other", () => {
    const flags = readFlags({
      "detect-local-mode": "BridgeInterface",
      "iptables-sync-period": "1s",
      "iptables-min-sync-period": "2s",
    });
    expect(errorOf(() => resolveOptions({ flags })).evidence).toEqual({
      "--pod-bridge-interface": "must be given with the mode BridgeInterface",
      "--iptables-sync-period": 'must not be less than minSyncPeriod 2s, not "1s"',
    });
  });
});

describe("the flags of kube-proxy's ipvs mode", () => {
  const resolve = (flags: Readonly<Record<string, string>>) => {
    const { options, warnings } = resolveOptions({ flags: readFlags(flags) });
    return { scheduler: options.settings.scheduler, warnings };
  };
  const MODE = expect.stringMatching(/^--proxy-mode is ipvs: nft-proxy always programs nftables/);

  it.each([
    ["rr", "round-robin"],
    ["wrr", "round-robin"],
    ["sh", "source-hash"],
    ["mh", "flow-hash"],
    ["", "round-robin"],
  ])("--ipvs-scheduler=%s is %s, with one warning about the mode", (ipvs, scheduler) => {
    expect(resolve({ "proxy-mode": "ipvs", "ipvs-scheduler": ipvs })).toEqual({
      scheduler,
      warnings: [MODE],
    });
  });

  it("--ipvs-scheduler without a counterpart is replaced by random with one warning", () => {
    expect(resolve({ "proxy-mode": "ipvs", "ipvs-scheduler": "lc" })).toEqual({
      scheduler: "random",
      warnings: [
        MODE,
        "--ipvs-scheduler: lc is replaced by random; there are random, round-robin, source-hash or flow-hash",
      ],
    });
  });

  it.each<[Readonly<Record<string, string>>, string, string[]]>([
    [{}, "random", ["it has an effect with --proxy-mode=ipvs only; --scheduler has one in every mode"]],
    [
      { "proxy-mode": "nftables" },
      "random",
      ["it has an effect with --proxy-mode=ipvs only; --scheduler has one in every mode"],
    ],
    [{ "proxy-mode": "ipvs", scheduler: "flow-hash" }, "flow-hash", ["--scheduler decides"]],
  ])(
    "--ipvs-scheduler is ignored beside %o, with one warning that gives the reason",
    (flags, scheduler, reasons) => {
      const resolved = resolve({ ...flags, "ipvs-scheduler": "rr" });
      expect(resolved.scheduler).toBe(scheduler);
      expect(resolved.warnings.filter((text) => text.startsWith("--ipvs-scheduler"))).toEqual(
        reasons.map((reason) => `--ipvs-scheduler is ignored: ${reason}`),
      );
    },
  );

  it("--proxy-mode=iptables is accepted with one warning", () => {
    const { scheduler, warnings } = resolve({ "proxy-mode": "iptables" });
    expect(scheduler).toBe("random");
    expect(warnings).toEqual([
      expect.stringContaining("--proxy-mode is iptables: nft-proxy always programs nftables"),
    ]);
  });
});

describe("options from a configuration file", () => {
  it("are the defaults for the file that kube-proxy writes, with one warning about its mode", () => {
    const { options, warnings } = resolveOptions({ configText: fixture("defaults.yaml") });
    expect(options).toEqual(resolveOptions().options);
    expect(warnings.map(subjectOf)).toEqual(["mode"]);
  });

  it("are those of kubeadm's ConfigMap, without a warning", () => {
    const { options, warnings } = resolveOptions({ configText: fixture("kubeadm-config.yaml") });
    const defaults = resolveOptions().options;
    expect(options).toEqual({
      ...defaults,
      client: { ...defaults.client, kubeconfig: "/var/lib/kube-proxy/kubeconfig.conf" },
      clusterCIDRs: { ip: ["10.244.0.0/16"], ip6: ["fd00:244::/32"] },
    });
    expect(warnings).toEqual([]);
  });

  it("are overridden by the flags that override them in kube-proxy and by nft-proxy's own flags, and other flags cause a warning", () => {
    const configText = fileWith(
      "hostnameOverride: file\nbindAddressHardFail: false\nlogging: {verbosity: 1}\nnftProxy: {nftPath: /file}\n",
    );
    const flags = readFlags({
      "hostname-override": " Flag ",
      "bind-address-hard-fail": true,
      "conntrack-min": "5",
      "ipvs-scheduler": "rr",
      "nft-path": "/flag",
      "proxy-mode": "iptables",
      master: "https://192.0.2.1",
      v: "4",
    });
    const { options, warnings } = resolveOptions({ flags, configText });
    expect(options).toMatchObject({
      hostnameOverride: "flag",
      bindAddressHardFail: false,
      conntrack: { min: 131_072 },
      client: { master: "https://192.0.2.1" },
      logVerbosity: 4,
      nftPath: "/flag",
    });
    expect(warnings).toEqual([
      "--bind-address-hard-fail is ignored: the configuration file overrides it",
      "--conntrack-min is ignored: the configuration file overrides it",
      "--ipvs-scheduler is ignored: the configuration file overrides it",
      "--proxy-mode is ignored: the configuration file overrides it",
    ]);
  });

  it("are refused for errors in the file before the flags are read", () => {
    const flags: GivenFlag[] = readFlags({ v: "high" });
    const wrong = { flags, configText: fileWith("oomScoreAdj: 1001\n"), configName: "/etc/proxy.yaml" };
    const error = errorOf(() => resolveOptions(wrong));
    expect(error).toMatchObject({ code: "BAD_CONFIG", message: "/etc/proxy.yaml: a value is invalid" });
    expect(error.evidence).toEqual({ oomScoreAdj: "must be <= 1000, not 1001" });
    expect(errorOf(() => resolveOptions({ ...wrong, configText: fileWith("") })).code).toBe("BAD_ARGUMENT");
  });
});
