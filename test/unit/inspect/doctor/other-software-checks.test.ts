import { describe, expect, test } from "vitest";
import { readFlags } from "../../../../src/config/flags.ts";
import { resolveOptions } from "../../../../src/config/resolve.ts";
import type { HostChain } from "../../../../src/features/seam/feature.ts";
import { type DaemonFact, judgeDaemon } from "../../../../src/inspect/doctor/daemon-check.ts";
import { judgeFirewalls } from "../../../../src/inspect/doctor/firewall-check.ts";
import { foreignChains } from "../../../../src/inspect/doctor/host-facts.ts";
import {
  judgeCalico,
  judgeOtherProxies,
  type ProxyTraces,
} from "../../../../src/inspect/doctor/other-proxy-check.ts";
import { judgeClusterCidr } from "../../../../src/inspect/doctor/settings-check.ts";
import { listingOf } from "../../../support/listing.ts";

const base = (table: string, hook: string, policy: string, prio = 0): HostChain => ({
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
  expect(foreignChains(listingOf(objects))).toEqual([
    { table: "ip nat", name: "KUBE-SERVICES" },
    { table: "inet fw", name: "in", base: { hook: "input", prio: -10, policy: "drop" } },
  ]);
});

describe("judgeOtherProxies", () => {
  const nothing: ProxyTraces = { chains: [], legacyTables: [], ipvsSchedulers: [], interfaces: new Set() };

  test.each<[string, Partial<ProxyTraces>, readonly string[]]>([
    ["nothing", {}, []],
    [
      "chains that could not be listed",
      { chains: undefined },
      ["unknown: cannot list the chains of this host"],
    ],
    ["our own tables", { chains: [base("ip nft-proxy", "input", "accept")] }, []],
    [
      "kube-proxy's nftables mode",
      { chains: [base("ip kube-proxy", "input", "accept"), base("ip6 kube-proxy", "output", "accept")] },
      ["ip kube-proxy, ip6 kube-proxy"],
    ],
    ["a table with a similar name", { chains: [base("inet kube-proxy-exporter", "input", "accept")] }, []],
    [
      "kube-proxy's iptables mode",
      { chains: [{ table: "ip nat", name: "KUBE-SERVICES" }] },
      ["KUBE-SERVICES"],
    ],
    ["the kubelet's own chains", { chains: [{ table: "ip mangle", name: "KUBE-KUBELET-CANARY" }] }, []],
    ["legacy iptables", { legacyTables: ["nat", "filter"] }, ["nat, filter"]],
    ["legacy iptables without a nat table", { legacyTables: ["filter", "mangle"] }, []],
    [
      "ipvs",
      { ipvsSchedulers: ["rr", "rr", "sh"], interfaces: new Set(["kube-ipvs0"]) },
      ["3 IPVS virtual servers and the interface kube-ipvs0"],
    ],
    ["only an interface of ipvs", { interfaces: new Set(["kube-ipvs0"]) }, ["left the interface kube-ipvs0"]],
    [
      "ipvs mode, whose KUBE-SERVICES differs from that of iptables mode",
      {
        chains: ["KUBE-SERVICES", "KUBE-NODE-PORT"].map((name) => ({ table: "ip nat", name })),
        interfaces: new Set(["kube-ipvs0"]),
      },
      ["left the interface kube-ipvs0 and chains in ip nat"],
    ],
    [
      "both modes, one after the other",
      {
        chains: ["KUBE-SERVICES", "KUBE-NODE-PORT", "KUBE-NODEPORTS"].map((name) => ({
          table: "ip nat",
          name,
        })),
      },
      ["iptables mode is in ip nat", "left chains in ip nat"],
    ],
    ["IPVS of other software", { ipvsSchedulers: ["wlc"] }, []],
    [
      "kube-router",
      { ipvsSchedulers: ["rr"], interfaces: new Set(["kube-dummy-if"]) },
      ["of kube-router's service proxy"],
    ],
    ["Calico's eBPF data plane", { interfaces: new Set(["bpfout.cali"]) }, ["of Calico's eBPF data plane"]],
    ["Cilium, which may run beside it", { interfaces: new Set(["cilium_host"]) }, []],
  ])("warns of other proxies only by their own traces: %s", (_, traces, found) => {
    const warnings = judgeOtherProxies({ ...nothing, ...traces }).filter(({ level }) => level !== "ok");
    expect(warnings.map((finding) => finding.level)).toEqual(found.map(() => "warning"));
    for (const [index, text] of found.entries()) expect(warnings[index]?.found).toContain(text);
  });
});

test.each<[string, Partial<ProxyTraces>, string]>([
  ["IPVS of other software", { ipvsSchedulers: ["wlc", "wlc"] }, "2 IPVS virtual servers of other software"],
  ["Cilium", { interfaces: new Set(["cilium_host"]) }, "Cilium is on this node"],
])("judgeOtherProxies reports %s as ok", (_, traces, found) => {
  const base: ProxyTraces = { chains: [], legacyTables: [], ipvsSchedulers: [], interfaces: new Set() };
  expect(judgeOtherProxies({ ...base, ...traces })).toMatchObject([
    { level: "ok", found: expect.stringContaining(found), means: expect.any(String) },
  ]);
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

  test("that is missing in mode ClusterCIDR is a warning", () => {
    expect(withFlags()).toMatchObject([
      { level: "warning", found: expect.stringContaining("no cluster CIDR") },
    ]);
  });

  test("that is set is ok, and is not reported in a mode that does not need it", () => {
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
    [base("netdev guard", "egress", "drop", -500), "egress"],
    [base("ip nat", "postrouting", "drop", 100), "postrouting"],
    [base("bridge filter", "forward", "drop"), "forward"],
  ])("with the chain %o is a warning that names the hook", (chain, hook) => {
    expect(judgeFirewalls([chain])).toMatchObject([
      { level: "warning", found: expect.stringContaining(hook) },
    ]);
  });

  test.each([
    [base("inet filter", "input", "accept")],
    [base("arp filter", "input", "drop")],
    [base("ip nft-proxy", "input", "drop")],
    [{ table: "inet filter", name: "not-a-base-chain" }],
  ])("is not assumed from the chain %o", (chain) => {
    expect(judgeFirewalls([chain])).toMatchObject([{ level: "ok" }]);
  });

  test.each([
    ["its table", base("inet firewalld", "input", "accept")],
    ["a chain of its backend iptables", { table: "ip filter", name: "INPUT_ZONES" }],
  ])("of firewalld is a warning by %s, because it rejects with rules", (_, chain) => {
    expect(judgeFirewalls([chain])).toMatchObject([{ level: "warning", found: "firewalld is active" }]);
  });

  test("is a warning that asks for root if chains cannot be listed", () => {
    expect(judgeFirewalls(undefined)).toMatchObject([
      { level: "warning", action: expect.stringContaining("root") },
    ]);
  });
});

describe("the daemon", () => {
  const url = "http://127.0.0.1:10256";
  const recent = "2026-01-01T00:00:48Z";
  const never = "0001-01-01T00:00:00Z";
  const kubeProxy = { currentTime: "2026-01-01T00:01:00Z", status: { IPv4: { lastUpdated: recent } } };
  const ours = { ...kubeProxy, lastVerified: recent };
  const socket = { path: "/run/x", dryRun: false, problems: [] };
  const off = { kind: "off" } as const;
  const silent = { kind: "silent", url, reason: "ECONNREFUSED" } as const;

  /** Returns health checks that answer with these statuses and this body, as JSON unless it is text. */
  const answers = (healthz: number, livez: number, content: unknown) => {
    const body = typeof content === "string" ? content : JSON.stringify(content);
    return {
      kind: "answers",
      url,
      healthz: { status: healthz, body },
      livez: { status: livez, body },
    } as const;
  };

  const UNPROGRAMMED = {
    kind: "programming",
    level: "fault",
    found: "nothing has been programmed in the 2 min since the start: waiting for services",
  } as const;
  test.each<[string, Omit<DaemonFact, "hasTables">, boolean | undefined, string, string]>([
    ["silent without tables is ok", { health: silent }, false, "ok", "ECONNREFUSED"],
    ["silent without known tables is ok", { health: silent }, undefined, "ok", "ECONNREFUSED"],
    [
      "silent while there are tables is a warning",
      { health: silent },
      true,
      "warning",
      "no daemon updates them",
    ],
    [
      "that only answers on its socket is a warning about its health checks only",
      { health: silent, socket },
      true,
      "warning",
      "the daemon answers at /run/x, but its health checks do not at http://127.0.0.1:10256 (ECONNREFUSED)",
    ],
    [
      "that hangs is a fault",
      { health: silent, socketProblem: "the daemon at /run/x gives no usable answer: no answer within 10 s" },
      true,
      "fault",
      "no answer within 10 s, and its health checks do not answer at http://127.0.0.1:10256 rules are not updated",
    ],
    [
      "healthy, whose socket speaks another version, is ok",
      { health: answers(200, 200, ours), socketProblem: "HTTP status 404; is it another version?" },
      true,
      "ok",
      "last synced 12 s ago",
    ],
    ["without health checks is ok", { health: off, socket }, true, "ok", "/run/x; its health checks are"],
    [
      "without health checks and socket is a warning while there are tables",
      { health: off },
      true,
      "warning",
      "start",
    ],
    [
      "healthy is ok, with its last sync",
      { health: answers(200, 200, ours) },
      true,
      "ok",
      "last synced 12 s ago",
    ],
    [
      "before its first sync is ok",
      { health: answers(200, 200, { ...ours, status: { IPv4: { lastUpdated: never } } }) },
      true,
      "ok",
      "has not synced yet",
    ],
    [
      "that serves one family of two is a warning, with the last sync of that family",
      {
        health: answers(200, 200, {
          ...ours,
          status: { ...ours.status, IPv6: { lastUpdated: never } },
          reasons: ["IPv6 is not served: not supported"],
        }),
      },
      true,
      "warning",
      "last synced 12 s ago IPv6 is not served: not supported",
    ],
    [
      "stuck is a fault, with its reason",
      { health: answers(503, 503, { ...ours, reasons: ["nft refuses"] }), socket },
      true,
      "fault",
      "nft refuses",
    ],
    [
      "unhealthy because its node is being deleted is a warning",
      { health: answers(503, 200, { ...ours, reasons: ["the node is being deleted"] }) },
      true,
      "warning",
      "being deleted",
    ],
    [
      "without our tables is a warning",
      { health: answers(200, 200, ours) },
      false,
      "warning",
      "there are no tables",
    ],
    [
      "without our tables that knows why does not guess",
      {
        health: answers(200, 200, { ...ours, reasons: [UNPROGRAMMED.found] }),
        socket: { ...socket, problems: [UNPROGRAMMED] },
      },
      false,
      "ok",
      "last synced 12 s ago undefined",
    ],
    [
      "in a dry run needs no tables",
      { health: answers(200, 200, ours), socket: { ...socket, dryRun: true } },
      false,
      "ok",
      "it runs with --dry-run and applies nothing",
    ],
    [
      "that is kube-proxy is named",
      { health: answers(200, 200, kubeProxy) },
      false,
      "warning",
      "such as kube-proxy",
    ],
    [
      "that is an old kube-proxy, without families, is named",
      { health: answers(200, 200, { currentTime: recent, lastUpdated: recent }) },
      undefined,
      "warning",
      "such as kube-proxy",
    ],
    [
      "that is kube-proxy beside our stale tables is never mistaken for ours",
      { health: answers(200, 200, kubeProxy) },
      true,
      "warning",
      "without its daemon they are out of date",
    ],
    [
      "that has lost its port to kube-proxy is named with it",
      { health: answers(200, 200, kubeProxy), socket },
      true,
      "warning",
      "alongside the daemon at /run/x",
    ],
    [
      "answering HTML is another program",
      { health: answers(200, 200, "<html>") },
      true,
      "warning",
      "another program",
    ],
    [
      "answering null is another program",
      { health: answers(200, 200, null) },
      true,
      "warning",
      "another program",
    ],
  ])("%s", (_, fact, hasTables, level, text) => {
    const [finding] = judgeDaemon({ ...fact, hasTables });
    expect(finding?.level).toBe(level);
    expect(`${finding?.found} ${finding?.means} ${finding?.action}`).toContain(text);
  });
});

test("each problem that the daemon knows is a finding, beside the daemon's own", () => {
  const health = { kind: "off" } as const;
  const problem = { kind: "node", level: "warning", found: "Node node-1 lacks addresses" } as const;
  expect(
    judgeDaemon({
      health,
      socket: { path: "/run/x", dryRun: false, problems: [problem] },
      hasTables: true,
    }),
  ).toEqual([
    {
      check: "daemon",
      level: "ok",
      found: "the daemon answers at /run/x; its health checks are switched off",
    },
    { check: "node", level: "warning", found: "Node node-1 lacks addresses" },
  ]);
});
