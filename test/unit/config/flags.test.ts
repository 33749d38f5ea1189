import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { FLAGS } from "../../../src/cli/flags.ts";
import { type ParsedArguments, parseArguments } from "../../../src/cli/parse-arguments.ts";
import { defaultText, type GivenFlag, readFlags } from "../../../src/config/flags.ts";
import type { ProxyOptions } from "../../../src/config/options.ts";
import { resolveOptions } from "../../../src/config/resolve.ts";
import { DEFAULT_PASSIVE_HEALTH_CHECK } from "../../../src/features/passive-health-checks/check.ts";
import { errorOf, subjectOf } from "./support.ts";

const parse = (...args: string[]): ParsedArguments => parseArguments(args, () => false);

const flagsOf = (...args: string[]): GivenFlag[] => readFlags(parse(...args).values);

function optionsOf(...args: string[]): ProxyOptions {
  const { options, warnings } = resolveOptions({ flags: flagsOf(...args) });
  expect(warnings).toEqual([]);
  return options;
}

const DEFAULTS = resolveOptions().options;
const { conntrack: CONNTRACK, settings: SETTINGS } = DEFAULTS;

/** A flag, values for it, and the options that these change. Every flag that sets a field has a row. */
const SETTING_FLAGS: readonly [string, string, Partial<ProxyOptions>][] = [
  ["affinity-map-size", "7", { affinityMapSize: 7 }],
  ["answer-ping", "", { settings: { ...SETTINGS, answerPing: true } }],
  ["bind-address", "192.0.2.1", { bindAddress: "192.0.2.1" }],
  ["bind-address-hard-fail", "", { bindAddressHardFail: true }],
  ["cluster-cidr", "10.1.0.0/16,fd01::/32", { clusterCIDRs: { ip: ["10.1.0.0/16"], ip6: ["fd01::/32"] } }],
  ["conntrack-max-per-core", "0", { conntrack: { ...CONNTRACK, maxPerCore: 0 } }],
  ["conntrack-min", "0", { conntrack: { ...CONNTRACK, min: 0 } }],
  ["conntrack-tcp-be-liberal", "", { conntrack: { ...CONNTRACK, tcpBeLiberal: true } }],
  ["conntrack-tcp-timeout-close-wait", "0", { conntrack: { ...CONNTRACK, tcpCloseWaitTimeoutMs: 0 } }],
  [
    "conntrack-tcp-timeout-established",
    "5m",
    { conntrack: { ...CONNTRACK, tcpEstablishedTimeoutMs: 300_000 } },
  ],
  ["conntrack-udp-timeout", "6s", { conntrack: { ...CONNTRACK, udpTimeoutMs: 6_000 } }],
  ["conntrack-udp-timeout-stream", "7s", { conntrack: { ...CONNTRACK, udpStreamTimeoutMs: 7_000 } }],
  ["daemon-socket", "/run/x.sock", { daemonSocket: "/run/x.sock" }],
  ["detect-local-mode", "NodeCIDR", { detectLocal: { kind: "node-cidr" } }],
  ["fast-path", "", { settings: { ...SETTINGS, fastPath: true } }],
  ["fast-path-after", "7", { settings: { ...SETTINGS, fastPathAfter: 7 } }],
  [
    "fast-path-interfaces",
    "eth0,veth*",
    { settings: { ...SETTINGS, fastPathInterfaces: ["eth0", "veth*"] } },
  ],
  ["feature-gates", "Other=true,AllowServiceExternalIPs=False", { serviceExternalIPs: false }],
  ["features", "schedulers,port-ranges@voip", { features: { schedulers: "all", "port-ranges": ["voip"] } }],
  ["full-resync-period", "10m", { fullResyncPeriodMs: 600_000 }],
  ["healthz-bind-address", "[::1]:99", { healthzBindAddress: { address: "::1", port: 99 } }],
  ["hostname-override", " Node-1 ", { hostnameOverride: "node-1" }],
  ["iptables-masquerade-bit", "20", { masqueradeBit: 20 }],
  ["iptables-min-sync-period", "0s", { minSyncPeriodMs: 0 }],
  ["iptables-sync-period", "1m", { syncPeriodMs: 60_000 }],
  ["ipvs-scheduler", "rr", {}],
  ["kubeconfig", "/etc/k", { client: { ...DEFAULTS.client, kubeconfig: "/etc/k" } }],
  ["logging-format", "json", { logFormat: "json" }],
  ["masquerade-all", "", { masqueradeAll: true }],
  ["master", "http://192.0.2.1:8080", { client: { ...DEFAULTS.client, master: "http://192.0.2.1:8080" } }],
  ["max-affinity-timeout", "1h", { maxAffinityTimeoutMs: 3_600_000 }],
  ["max-elements", "7", { maxElements: 7 }],
  ["max-limited-clients", "7", { settings: { ...SETTINGS, maxLimitedClients: 7 } }],
  ["max-namespace-elements", "7", { maxNamespaceElements: 7 }],
  ["max-port-ranges", "7", { settings: { ...SETTINGS, maxPortRanges: 7 } }],
  ["max-service-elements", "7", { maxServiceElements: 7 }],
  ["metrics-bind-address", "192.0.2.1", { metricsBindAddress: { address: "192.0.2.1", port: 10_249 } }],
  ["nft-path", "/opt/nft", { nftPath: "/opt/nft" }],
  [
    "nodeport-addresses",
    "10.0.0.0/8,11.0.0.0/8",
    {
      nodePortAddresses: {
        primary: false,
        localhost: { ip: false, ip6: false },
        cidrs: { ip: ["10.0.0.0/8", "11.0.0.0/8"], ip6: ["::/0"] },
      },
    },
  ],
  ["observe", "accounting", { settings: { ...SETTINGS, observe: "accounting" } }],
  ["oom-score-adj", "-5", { oomScoreAdj: -5 }],
  [
    "passive-health-check",
    "on",
    { settings: { ...SETTINGS, passiveHealthCheck: DEFAULT_PASSIVE_HEALTH_CHECK } },
  ],
  ["pod-bridge-interface", "", {}],
  ["pod-interface-name-prefix", "", {}],
  ["port-ranges", "all", { settings: { ...SETTINGS, portRanges: "all" } }],
  ["proxy-mode", "nftables", {}],
  ["refusal-log-size", "0", { settings: { ...SETTINGS, refusalLogSize: 0 } }],
  ["reserve-nodeports", "", { reserveNodePorts: true }],
  ["reset-vanished", "", { settings: { ...SETTINGS, resetVanished: true } }],
  ["scheduler", "round-robin", { settings: { ...SETTINGS, scheduler: "round-robin" } }],
  ["second-healthz-bind-address", "[::1]:99", { secondHealthzBindAddress: { address: "::1", port: 99 } }],
  ["service-counters", "endpoints", { settings: { ...SETTINGS, serviceCounters: "endpoints" } }],
  ["v", "4", { logVerbosity: 4 }],
];

/** These set an option only beside another flag, and have tests of their own. */
const NEEDS_OTHERS = ["ipvs-scheduler", "pod-bridge-interface", "pod-interface-name-prefix"];
const IGNORED_FLAGS = FLAGS.filter(({ target }) => target.kind === "ignored").map(
  (flag) => [flag.name, flag] as const,
);

describe("the table of flags", () => {
  it("holds every flag of kube-proxy, and our own", () => {
    const lines = readFileSync("test/fixtures/kube-proxy/flags.txt", "utf8").split("\n");
    const theirs = lines.flatMap((line) => /--([\w-]+)/.exec(line)?.[1] ?? []);
    const ours = FLAGS.filter(({ isOwn }) => isOwn).map(({ name }) => name);
    expect(theirs).toHaveLength(57);
    // kube-proxy hides its deprecated flags in its help.
    const deprecated = ["healthz-port", "metrics-port"];
    expect(FLAGS.map(({ name }) => name)).toEqual([...theirs, ...deprecated, ...ours].sort());
  });

  it("describes each flag", () => {
    for (const flag of FLAGS) expect(flag.description.length).toBeGreaterThan(8);
    expect(FLAGS.filter((flag) => flag.name === "conntrack-min").map(defaultText)).toEqual(["131072"]);
    expect(flagsOf("run")).toEqual([]);
  });

  it("has a row in these tests for each flag that sets a field", () => {
    const names = FLAGS.filter(
      ({ target, successor }) => target.kind === "field" && successor === undefined,
    ).map(({ name }) => name);
    expect(SETTING_FLAGS.map(([name]) => name)).toEqual(names);
  });
});

describe("a flag that sets a field", () => {
  it.each(SETTING_FLAGS.filter(([name]) => !NEEDS_OTHERS.includes(name)))(
    "--%s %s sets its option, and no other",
    (name, value, changes) => {
      const spellings = value === "" ? [[`--${name}`]] : [[`--${name}=${value}`], [`--${name}`, value]];
      const expected = { ...DEFAULTS, ...changes };
      for (const args of spellings) expect(optionsOf("run", ...args)).toEqual(expected);
    },
  );

  it.each([
    ["--port-ranges=off", "must be virtual or all", "port-ranges"],
    ["--passive-health-check=never", "must be off, on, or a list", "passive-health-checks"],
    ["--max-limited-clients=0", "must be", "client-limits"],
  ])("refuses %s, which forbade a feature before --features, and names this", (flag, rule, feature) => {
    const { evidence } = errorOf(() => resolveOptions({ flags: flagsOf(flag) }));
    const [reason = ""] = Object.values(evidence);
    expect(reason).toMatch(new RegExp(`^${rule}`));
    expect(reason).toContain(`${feature} is off unless --features (nftProxy.features) names it`);
  });

  it("takes the bit for masquerading, but not with --proxy-mode=nftables, as in kube-proxy", () => {
    const { options, warnings } = resolveOptions({
      flags: flagsOf("--proxy-mode=nftables", "--iptables-masquerade-bit=20"),
    });
    expect(options).toEqual(DEFAULTS);
    expect(warnings).toEqual([
      "--iptables-masquerade-bit is ignored: it has an effect in modes other than nftables only",
    ]);
  });

  it.each(["32", "-1", "1.5", "", "x"])("refuses %j as the bit for masquerading, once", (bit) => {
    const { evidence } = errorOf(() =>
      resolveOptions({ flags: flagsOf(`--iptables-masquerade-bit=${bit}`) }),
    );
    expect(Object.keys(evidence)).toEqual(["--iptables-masquerade-bit"]);
  });

  it("sets the bridge or the interfaces of pods, together with --detect-local-mode", () => {
    expect(
      optionsOf("--detect-local-mode=BridgeInterface", "--pod-bridge-interface=br0").detectLocal,
    ).toEqual({
      kind: "bridge",
      interface: "br0",
    });
    expect(
      optionsOf("--detect-local-mode=InterfaceNamePrefix", "--pod-interface-name-prefix=veth").detectLocal,
    ).toEqual({ kind: "interface-prefix", prefix: "veth" });
  });
});

describe("a flag without effect", () => {
  it.each(IGNORED_FLAGS)("--%s is warned about once", (_name, flag) => {
    const args = flag.type === "boolean" ? [`--${flag.name}`] : [`--${flag.name}`, "x", `--${flag.name}=y`];
    const { options, warnings } = resolveOptions({ flags: flagsOf(...args) });
    expect(options).toEqual(DEFAULTS);
    const reason = flag.target.kind === "ignored" ? flag.target.reason : "";
    expect(warnings).toEqual([`--${flag.name} is ignored: ${reason}`]);
  });
});

describe("parseArguments, as Go does,", () => {
  it.each([
    ["--masquerade-all=true", true],
    ["--masquerade-all=T", true],
    ["--masquerade-all=1", true],
    ["--masquerade_all", true],
    ["--masquerade-all=0", false],
    ["--masquerade-all=False", false],
  ])("reads %s as %s", (argument, masqueradeAll) => {
    expect(optionsOf(argument).masqueradeAll).toBe(masqueradeAll);
  });

  it("takes a boolean's value only after an equals sign", () => {
    expect(parse("--masquerade-all", "town")).toEqual({
      words: ["town"],
      values: { "masquerade-all": true },
      unknown: [],
    });
  });

  it.each(["--masquerade-all=yes", "--masquerade-all=", "--from=", "-f="])("refuses %s", (argument) => {
    expect(errorOf(() => parse(argument))).toMatchObject({ code: "BAD_ARGUMENT" });
  });

  it.each(["-v4", "-v=4", "-v 4", "--v=4", "--v 4"])("reads %s as verbosity 4", (args) => {
    expect(optionsOf(...args.split(" ")).logVerbosity).toBe(4);
  });

  it.each([
    [["-f-"], { from: ["-"] }],
    [["-f=-"], { from: ["-"] }],
    [["-n-5"], { namespace: ["-5"] }],
    [["-h=false"], { help: false }],
    [["-h=1"], { help: true }],
    [["-l="], { selector: [""] }],
  ])("reads the value that is joined to a letter: %j", (args, values) => {
    expect(parse(...args)).toEqual({ words: [], values, unknown: [] });
  });

  it("takes the last value of a flag given twice, and all values of a list", () => {
    expect(optionsOf("--oom-score-adj=1", "--oom-score-adj=-2").oomScoreAdj).toBe(-2);
    expect(
      optionsOf("--nodeport-addresses=10.0.0.0/8", "--nodeport-addresses", "fd00::/8,11.0.0.0/8")
        .nodePortAddresses.cidrs,
    ).toEqual({ ip: ["10.0.0.0/8", "11.0.0.0/8"], ip6: ["fd00::/8"] });
    expect(optionsOf("--masquerade-all", "--masquerade-all=false").masqueradeAll).toBe(false);
  });

  it.each(["--healthz-bind-address", "--metrics-bind-address"])(
    "takes an empty %s for its default, as kube-proxy does, and tells how to switch the server off",
    (name) => {
      const { options, warnings } = resolveOptions({ flags: flagsOf(`${name}=`) });
      expect(options).toEqual(DEFAULTS);
      const message = `${name} is empty, which means its default, as in kube-proxy; port 0 switches the server off`;
      expect(warnings).toEqual([message]);
    },
  );

  it("takes an empty --daemon-socket for none", () => {
    expect(optionsOf("--daemon-socket=").daemonSocket).toBe("");
  });

  it.each(["--bind-address=", "--cluster-cidr=", "--nodeport-addresses=", "--proxy-mode="])(
    "takes %s for not given",
    (argument) => {
      expect(optionsOf(argument)).toEqual(DEFAULTS);
    },
  );

  it.each(["AllowServiceExternalIPs", "AllowServiceExternalIPs=no", "x"])(
    "refuses the feature gates %j",
    (text) => {
      expect(errorOf(() => resolveOptions({ flags: flagsOf(`--feature-gates=${text}`) })).evidence).toEqual({
        "--feature-gates": `must be a list of gates with true or false, such as "AllowServiceExternalIPs=false", not "${text}"`,
      });
    },
  );

  it.each(["010", "0x10", "1e3", "1.5", " 1", "1_000", ""])("refuses %j as a whole number", (text) => {
    expect(
      errorOf(() => resolveOptions({ flags: flagsOf(`--conntrack-min=${text}`) })).evidence,
    ).toHaveProperty(["--conntrack-min"]);
  });

  it("takes nothing after -- for a flag", () => {
    expect(parse("run", "--from", "a_b", "--", "--masquerade_all=yes", "-v4")).toEqual({
      words: ["run", "--masquerade_all=yes", "-v4"],
      values: { from: ["a_b"] },
      unknown: [],
    });
  });

  it.each([
    "--no-masquerade-all",
    "--masqueradeAll",
    "--no_such_flag=yes",
    "-x",
    "-hx",
    "-from",
    "-output=json",
  ])("reports %s as unknown", (argument) => {
    expect(parse("run", argument)).toMatchObject({ values: {}, unknown: [argument.replace(/=.*/, "")] });
  });

  it.each([
    [["--cluster-cidr"], "--cluster-cidr needs a value: "],
    [["explain", "--from", "--live"], "--from needs a value: "],
    [["-o"], "-o needs a value: "],
  ])("refuses %j, which lacks a value", (args, message) => {
    expect(errorOf(() => parse(...args)).message).toContain(message);
  });

  it("takes a negative number and a lone dash for values", () => {
    expect(parse("--oom-score-adj", "-5", "-f", "-").values).toEqual({
      "oom-score-adj": ["-5"],
      from: ["-"],
    });
  });

  it("takes several paths after --from, and one where the command takes an argument of its own", () => {
    const args = ["--from", "a", "b", "--from=c", "d", "--dry-run"];
    expect(parse("run", ...args)).toEqual({
      words: ["run"],
      values: { from: ["a", "b", "c", "d"], "dry-run": true },
      unknown: [],
    });
    const { words, values } = parseArguments(["explain", ...args], (name) => name === "explain");
    expect({ words, from: values.from }).toEqual({ words: ["explain", "b", "d"], from: ["a", "c"] });
  });
});

describe("a deprecated port flag", () => {
  const resolve = (...args: string[]) => resolveOptions({ flags: flagsOf(...args) });

  it("sets the server's port, with a warning that names its successor", () => {
    const { options, warnings } = resolve("--healthz-port=8080", "--metrics-port", "8081");
    expect(options.healthzBindAddress).toEqual({ address: "0.0.0.0", port: 8080 });
    expect(options.metricsBindAddress).toEqual({ address: "127.0.0.1", port: 8081 });
    expect(warnings).toEqual([
      "--healthz-port is deprecated: use --healthz-bind-address",
      "--metrics-port is deprecated: use --metrics-bind-address",
    ]);
  });

  it("completes an address without a port, and has no effect beside an address with one", () => {
    const { options } = resolve("--healthz-bind-address=192.0.2.1", "--healthz-port=8080");
    expect(options.healthzBindAddress).toEqual({ address: "192.0.2.1", port: 8080 });
    const { healthzBindAddress } = resolve(
      "--healthz-bind-address=192.0.2.1:99",
      "--healthz-port=8080",
    ).options;
    expect(healthzBindAddress?.port).toBe(99);
  });

  it("switches the server off with 0, whatever its address is", () => {
    expect(resolve("--healthz-port=0", "--healthz-bind-address=192.0.2.1:99").options).toEqual({
      ...DEFAULTS,
      healthzBindAddress: undefined,
    });
    expect(resolve("--metrics-port=0").options).toEqual({ ...DEFAULTS, metricsBindAddress: undefined });
  });

  it.each(["-1", "65536", "http", ""])("refuses %j", (port) => {
    expect(errorOf(() => resolve(`--healthz-port=${port}`)).evidence).toHaveProperty(["--healthz-port"]);
  });

  it("is ignored beside a configuration file", () => {
    const configText = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";
    const { warnings } = resolveOptions({ flags: flagsOf("--metrics-port=1"), configText });
    expect(warnings.map(subjectOf)).toEqual(["--metrics-port"]);
  });
});
