import { describe, expect, test } from "vitest";
import { readFlags } from "../../../../src/config/flags/flags.ts";
import { resolveOptions } from "../../../../src/config/resolve.ts";
import { judgeCalico } from "../../../../src/inspect/doctor/calico-check.ts";
import { type DaemonFact, judgeDaemon } from "../../../../src/inspect/doctor/daemon-check.ts";
import { judgeFirewalls } from "../../../../src/inspect/doctor/firewall-check.ts";
import { type ForeignChain, foreignChains } from "../../../../src/inspect/doctor/foreign-chain.ts";
import { judgeOtherProxies, type ProxyTraces } from "../../../../src/inspect/doctor/other-proxy-check.ts";
import { judgeClusterCidr } from "../../../../src/inspect/doctor/support-check.ts";

const base = (table: string, hook: string, policy: string, prio = 0): ForeignChain => ({
  table,
  name: `chain-${hook}`,
  base: { hook, prio, policy },
});

test("foreignChains reads the chains of every family from nft's listing", () => {
  const filter = { type: "filter", hook: "input", prio: -10, policy: "drop" };
  const objects = [
    { metainfo: { version: "1.1.3" } },
    { chain: { family: "ip", table: "nat", name: "KUBE-SERVICES", handle: 7 } },
    { chain: { family: "inet", table: "fw", name: "in", handle: 1, ...filter } },
  ];
  expect(foreignChains({ objects })).toEqual([
    { table: "ip nat", name: "KUBE-SERVICES" },
    { table: "inet fw", name: "in", base: { hook: "input", prio: -10, policy: "drop" } },
  ]);
});

describe("judgeOtherProxies", () => {
  const nothing: ProxyTraces = { chains: [], legacyTables: [], ipvsSchedulers: [], ipvsInterface: false };

  test.each<[string, Partial<ProxyTraces>, readonly string[]]>([
    ["nothing", {}, []],
    ["chains that could not be listed", { chains: undefined }, ["unknown: the chains of this host"]],
    ["our own tables", { chains: [base("ip nft-proxy", "input", "accept")] }, []],
    [
      "kube-proxy's nftables mode",
      { chains: [base("ip kube-proxy", "input", "accept"), base("ip6 kube-proxy", "output", "accept")] },
      ["ip kube-proxy, ip6 kube-proxy"],
    ],
    ["a table of like name", { chains: [base("inet kube-proxy-exporter", "input", "accept")] }, []],
    ["kube-proxy's iptables mode", { chains: [{ table: "ip nat", name: "KUBE-SERVICES" }] }, ["KUBE-SERVICES"]],
    ["the kubelet's own chains", { chains: [{ table: "ip mangle", name: "KUBE-KUBELET-CANARY" }] }, []],
    ["legacy iptables", { legacyTables: ["nat", "filter"] }, ["nat, filter"]],
    [
      "ipvs",
      { ipvsSchedulers: ["rr", "rr", "sh"], ipvsInterface: true },
      ["3 IPVS virtual servers and the interface kube-ipvs0"],
    ],
    ["an interface of ipvs alone", { ipvsInterface: true }, ["the interface kube-ipvs0"]],
  ])("warns of other proxies by their own traces alone: %s", (_, traces, found) => {
    const warnings = judgeOtherProxies({ ...nothing, ...traces }).filter(({ level }) => level !== "ok");
    expect(warnings.map((finding) => finding.level)).toEqual(found.map(() => "warning"));
    for (const [index, text] of found.entries()) expect(warnings[index]?.found).toContain(text);
  });
});

describe("Calico", () => {
  const felix = (table: string, name: string) => [{ table, name }];

  test.each([
    ["absent is not reported", felix("ip filter", "INPUT"), []],
    [
      "in its nftables mode is ok, with advice on nftablesMode",
      felix("ip calico", "filter-cali-INPUT"),
      [["ok", "nftables (ip calico)"]],
    ],
    [
      "in iptables mode is a warning, with advice on nftablesMode",
      felix("ip filter", "cali-INPUT"),
      [["warning", "iptables (chains cali-*)"]],
    ],
    [
      "in both modes at once is a warning, with advice on nftablesMode",
      [...felix("ip6 calico", "x"), ...felix("ip nat", "cali-PREROUTING")],
      [["warning", "nftables (ip6 calico) and iptables"]],
    ],
  ] as const)("%s", (_what, chains, expected) => {
    const found = judgeCalico(chains);
    expect(found.map(({ level }) => level)).toEqual(expected.map(([level]) => level));
    for (const [index, [, text]] of expected.entries()) expect(found[index]?.found).toContain(text);
    for (const { action } of found) expect(action).toContain("nftablesMode to Enabled");
  });
});

describe("the cluster CIDR", () => {
  const withFlags = (...flags: string[]) =>
    judgeClusterCidr(
      resolveOptions({ flags: readFlags(Object.fromEntries(flags.map((flag) => flag.split("=")))) }).options,
    );

  test("that the mode ClusterCIDR lacks is a warning", () => {
    expect(withFlags()).toMatchObject([{ level: "warning", found: expect.stringContaining("no cluster CIDR") }]);
  });

  test("that is set is ok, and one that the mode does not need is not reported", () => {
    expect(withFlags("cluster-cidr=10.0.0.0/8")).toMatchObject([{ level: "ok" }]);
    expect(withFlags("detect-local-mode=NodeCIDR")).toEqual([]);
  });
});

describe("a firewall", () => {
  test.each([
    [base("inet filter", "input", "drop"), "input"],
    [base("ip filter", "forward", "drop"), "forward"],
    [base("inet raw", "prerouting", "drop", -300), "prerouting"],
    [base("ip filter", "output", "drop"), "output"],
    [base("netdev guard", "ingress", "drop", -500), "ingress"],
  ])("with the chain %o is a warning that names the hook", (chain, hook) => {
    expect(judgeFirewalls([chain])).toMatchObject([{ level: "warning", found: expect.stringContaining(hook) }]);
  });

  test.each([
    [base("inet filter", "input", "accept")],
    [base("ip nat", "postrouting", "drop", 100)],
    [base("ip nft-proxy", "input", "drop")],
    [{ table: "inet filter", name: "not-a-base-chain" }],
  ])("is not assumed from the chain %o", (chain) => {
    expect(judgeFirewalls([chain])).toMatchObject([{ level: "ok" }]);
  });

  test("of firewalld is a warning by its table, for it rejects with rules", () => {
    expect(judgeFirewalls([base("inet firewalld", "input", "accept")])).toMatchObject([
      { level: "warning", found: "firewalld is active" },
    ]);
  });

  test("is a warning that points to root when chains cannot be listed", () => {
    expect(judgeFirewalls(undefined)).toMatchObject([{ level: "warning", action: expect.stringContaining("root") }]);
  });
});

describe("the daemon", () => {
  const url = "http://127.0.0.1:10256";
  const body = (lastUpdated: string, reasons?: readonly string[]) =>
    JSON.stringify({ currentTime: "2026-01-01T00:01:00Z", status: { IPv4: { lastUpdated } }, reasons });
  const answers = (healthz: number, livez: number, text: string): DaemonFact & { kind: "answers" } => ({
    kind: "answers",
    url,
    healthz: { status: healthz, body: text },
    livez: { status: livez, body: text },
  });
  const recent = "2026-01-01T00:00:48Z";

  test.each<[string, DaemonFact, boolean | undefined, string, string]>([
    ["silent without tables is ok", { kind: "silent", url, reason: "ECONNREFUSED" }, false, "ok", "ECONNREFUSED"],
    [
      "without health checks is ok",
      { kind: "unchecked", socket: "/run/x" },
      true,
      "ok",
      "/run/x; its health checks are",
    ],
    [
      "without health checks whose last sync failed is a warning",
      { kind: "unchecked", socket: "/run/x", problem: "nft is busy" },
      true,
      "warning",
      "the kernel lacks changes: nft is busy",
    ],
    [
      "silent where tables are not known is ok",
      { kind: "silent", url, reason: "ECONNREFUSED" },
      undefined,
      "ok",
      "ECONNREFUSED",
    ],
    [
      "silent while there are tables is a warning",
      { kind: "silent", url, reason: "ECONNREFUSED" },
      true,
      "warning",
      "no daemon keeps them",
    ],
    [
      "healthy is ok, with the time since its last sync",
      answers(200, 200, body(recent)),
      true,
      "ok",
      "last synced 12 s ago",
    ],
    [
      "healthy whose last sync failed is a warning",
      { ...answers(200, 200, body(recent)), problem: "nft is busy" },
      true,
      "warning",
      "the kernel lacks changes: nft is busy",
    ],
    ["before its first sync is ok", answers(200, 200, body("0001-01-01T00:00:00Z")), true, "ok", "has not synced yet"],
    [
      "stuck is a fault, with its reason",
      answers(503, 503, body(recent, ["nft refuses"])),
      true,
      "fault",
      "nft refuses",
    ],
    [
      "unhealthy because its node goes is a warning",
      answers(503, 200, body(recent, ["the node is being deleted"])),
      true,
      "warning",
      "being deleted",
    ],
    [
      "healthy without our tables is taken for kube-proxy",
      answers(200, 200, body(recent)),
      false,
      "warning",
      "probably kube-proxy",
    ],
    ["answering HTML is taken for another program", answers(200, 200, "<html>"), true, "warning", "another program"],
    [
      "answering other JSON is taken for another program",
      answers(200, 200, "null"),
      true,
      "warning",
      "another program",
    ],
  ])("%s", (_, fact, hasTables, level, text) => {
    const finding = judgeDaemon(fact, hasTables);
    expect(finding.level).toBe(level);
    expect(`${finding.found} ${finding.means}`).toContain(text);
  });
});
