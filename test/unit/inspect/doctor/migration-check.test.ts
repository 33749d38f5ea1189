import { expect, test } from "vitest";
import type { PortRangeAddresses } from "../../../../src/features/port-ranges/rules.ts";
import type { FeatureCheck, HostFinding } from "../../../../src/inspect/doctor/finding.ts";
import {
  judgeMigration,
  type MigratingServices,
  type MigrationFacts,
} from "../../../../src/inspect/doctor/migration-check.ts";
import type { ProxyTraces } from "../../../../src/inspect/doctor/other-proxy-check.ts";
import { ARP_SETTINGS, ROUTE_LOCALNET } from "../../../../src/inspect/doctor/settings-check.ts";
import { familyContext, port, service, testNodeContext } from "../../../support/build.ts";

const NO_TRACES = { chains: [], legacyTables: [], ipvsSchedulers: [], interfaces: new Set<string>() };
const IPTABLES = { ...NO_TRACES, chains: [{ table: "ip nat", name: "KUBE-SERVICES" }] };
const IPVS = {
  ...NO_TRACES,
  chains: ["KUBE-SERVICES", "KUBE-NODE-PORT"].map((name) => ({ table: "ip nat", name })),
  ipvsSchedulers: ["rr", "rr", "lc"],
  interfaces: new Set(["kube-ipvs0"]),
};
const NFTABLES = { ...NO_TRACES, chains: [{ table: "ip kube-proxy", name: "services" }] };

const SERVICES: MigratingServices = {
  services: [
    service({ name: "shop/web", clusterIPs: ["10.96.0.1"], ports: [port(80, { nodePort: 30_080 })] }),
    service({
      name: "dns",
      clusterIPs: ["10.96.0.2"],
      ports: [port(53, { protocol: "udp", nodePort: 30_053 })],
    }),
    service({ name: "shop/cart", clusterIPs: ["10.96.0.3"], affinitySeconds: 600 }),
  ],
  nodeContext: [familyContext("ip")],
  conflicts: [],
};

const HOST = ["127.0.0.1", "169.254.1.1", "192.0.2.2", "198.51.100.1", "10.96.0.1", "::1", "fe80::1"];

function judge({
  traces = NO_TRACES,
  ...facts
}: Partial<MigrationFacts> & { readonly traces?: ProxyTraces }): HostFinding[] {
  const settings = new Map([[ROUTE_LOCALNET, 1]]);
  const base = { answeredMode: undefined, settings, hostAddresses: HOST, objects: SERVICES };
  return judgeMigration({ ...base, ...traces, ...facts });
}

/** Returns the level and text of a check's only diagnostic. */
function only(diagnostics: readonly HostFinding[], check: HostFinding["check"]): string {
  const found = diagnostics.filter((diagnostic) => diagnostic.check === check);
  expect(found).toHaveLength(1);
  return `${found[0]?.level}: ${found[0]?.found}`;
}

const checksOf = (diagnostics: readonly HostFinding[]) => diagnostics.map(({ check }) => check);

test("after iptables mode, NodePorts at secondary addresses and on loopback are named", () => {
  const found = judge({ traces: IPTABLES });
  const names = "NodePorts of 2 Services (shop/web and default/dns)";
  expect(only(found, "migration")).toBe("ok: kube-proxy has rules on this host (mode iptables)");
  expect(only(found, "migration-nodeport-addresses")).toBe(
    `warning: ${names} will not answer on 198.51.100.1`,
  );
  expect(only(found, "migration-nodeport-loopback")).toBe(`warning: ${names} will not answer on 127.0.0.1`);
  expect(checksOf(found)).not.toContain("migration-scheduler");
});

test("after iptables mode, NodePorts of a Service without a family lose no host addresses of that family", () => {
  const nodeContext = [familyContext("ip"), familyContext("ip6")];
  const hostAddresses = [...HOST, "2001:db8::1"];
  const found = judge({ traces: IPTABLES, hostAddresses, objects: { ...SERVICES, nodeContext } });
  expect(only(found, "migration-nodeport-addresses")).toMatch(/will not answer on 198\.51\.100\.1$/);
  const ports = [port(80, { nodePort: 30_080 })];
  const services = [service({ name: "six", clusterIPs: ["fd00:10:96::1"], ports })];
  const six = judge({ traces: IPTABLES, hostAddresses, objects: { ...SERVICES, services, nodeContext } });
  expect(only(six, "migration-nodeport-addresses")).toMatch(/will not answer on 2001:db8::1$/);
  expect(checksOf(six)).not.toContain("migration-nodeport-loopback");
});

test("after iptables mode, NodePorts that answer everywhere lose only UDP and SCTP on loopback", () => {
  const everywhere = familyContext("ip", { nodePorts: { kind: "all" }, loopbackNodePorts: true });
  const found = judge({ traces: IPTABLES, objects: { ...SERVICES, nodeContext: [everywhere] } });
  expect(only(found, "migration-nodeport-addresses")).toMatch(/^ok: /);
  expect(only(found, "migration-nodeport-loopback")).toBe(
    "warning: UDP and SCTP NodePorts of 1 Service (default/dns) will not answer on 127.0.0.1",
  );
});

test("after iptables mode without route_localnet, NodePorts on loopback are not named, because they never answered", () => {
  expect(checksOf(judge({ traces: IPTABLES, settings: new Map() }))).not.toContain(
    "migration-nodeport-loopback",
  );
});

test("after ipvs mode, each scheduler is named with its counterpart, and strictARP is explained", () => {
  const settings = new Map(ARP_SETTINGS.map((path, index) => [path, index + 1]));
  const found = judge({ traces: IPVS, settings });
  expect(only(found, "migration")).toBe("ok: kube-proxy has rules on this host (mode ipvs)");
  expect(found.filter(({ check }) => check === "migration-scheduler")).toMatchObject([
    {
      level: "warning",
      found: "1 IPVS virtual server with scheduler lc",
      action: expect.stringContaining("no equivalent"),
    },
    {
      level: "warning",
      found: "2 IPVS virtual servers with scheduler rr",
      action: expect.stringContaining("round-robin"),
    },
  ]);
  expect(only(found, "migration-strict-arp")).toBe(
    "ok: net.ipv4.conf.all.arp_ignore is 1 and net.ipv4.conf.all.arp_announce is 2",
  );
  expect(only(found, "migration-nodeport-addresses")).toMatch(/will not answer on 198\.51\.100\.1$/);
  expect(only(found, "migration-pings" as FeatureCheck)).toBe(
    "warning: addresses of Services will no longer answer pings",
  );
  const objects = { ...SERVICES, nodeContext: [familyContext("ip", { settings: { answerPing: true } })] };
  expect(checksOf(judge({ traces: IPVS, objects }))).not.toContain("migration-pings");
});

test("after ipvs mode, a scheduler that is configured here as well is ok", () => {
  const objects = {
    ...SERVICES,
    nodeContext: [familyContext("ip", { settings: { scheduler: "round-robin" } })],
  };
  const found = judge({ traces: { ...IPVS, ipvsSchedulers: ["rr"] }, objects });
  expect(only(found, "migration-scheduler" as FeatureCheck)).toBe(
    "ok: 1 IPVS virtual server with scheduler rr: round-robin here",
  );
});

test("without the host's addresses, the addresses at which NodePorts will not answer are unknown", () => {
  expect(only(judge({ traces: IPTABLES, hostAddresses: undefined }), "migration-nodeport-addresses")).toMatch(
    /^warning: unknown: /,
  );
});

test("if FORWARD drops by default, kube-proxy's chain that accepts Services' connections is named", () => {
  const forward = (table: string, policy: string) => [
    { table, name: "FORWARD", base: { hook: "forward", prio: 0, policy } },
    { table, name: "KUBE-FORWARD" },
  ];
  const chains = [...IPTABLES.chains, ...forward("ip filter", "accept"), ...forward("ip6 filter", "drop")];
  const found = judge({ traces: { ...IPTABLES, chains } });
  expect(only(found, "migration-forward")).toMatch(/^warning: the hook forward of table ip6 filter drops/);
  expect(found.find(({ check }) => check === "migration-forward")?.action).toContain("ip6tables -A FORWARD");
  const ufw = chains.filter(({ name }) => name !== "KUBE-FORWARD");
  expect(checksOf(judge({ traces: { ...IPTABLES, chains: ufw } }))).not.toContain("migration-forward");
});

test("IPVS of software other than kube-proxy is not mistaken for kube-proxy's ipvs mode", () => {
  const found = judge({ traces: { ...NO_TRACES, ipvsSchedulers: ["wlc"] } });
  expect(only(found, "migration")).toMatch(/^warning: unknown: there are no rules of kube-proxy/);
});

test("Services with port ranges are named, because kube-proxy does not serve ranges", () => {
  const ports = [port(5060, { protocol: "udp", ranges: [{ first: 10_000, last: 10_999 }] })];
  const services = [...SERVICES.services, service({ name: "voice/sip", clusterIPs: ["10.96.0.4"], ports })];
  const found = judge({ traces: NFTABLES, objects: { ...SERVICES, services } });
  expect(only(found, "migration-port-ranges")).toBe("warning: 1 Service with port ranges (voice/sip)");
  const meansWith = (portRanges: PortRangeAddresses) => {
    const nodeContext = testNodeContext({ settings: { portRanges } });
    return judge({ traces: NFTABLES, objects: { ...SERVICES, services, nodeContext } }).find(
      ({ check }) => check === "migration-port-ranges",
    )?.means;
  };
  expect(meansWith("virtual")).toContain(
    "only nodes with nft-proxy serve them, but not at addresses of their own; kube-proxy does not",
  );
  expect(meansWith("all")).toContain("only nodes with nft-proxy serve them; kube-proxy");
});

test("after nftables mode, only session affinity and contested addresses change", () => {
  const [winner, loser] = ["shop/old", "shop/new"].map((name) => service({ name }));
  const key = (of: typeof winner) => ({ service: of, spec: port(80), family: "ip" }) as never;
  const conflicts = [
    { family: "ip" as const, frontend: "10.96.0.9 . tcp . 80", winner: key(winner), losers: [key(loser)] },
  ];
  const found = judge({ traces: NFTABLES, objects: { ...SERVICES, conflicts } });
  expect(checksOf(found)).toEqual(["migration", "migration-affinity", "migration-conflict"]);
  expect(only(found, "migration-affinity")).toBe("warning: 1 Service with session affinity (shop/cart)");
  expect(only(found, "migration-conflict")).toBe(
    "warning: 10.96.0.9:80/tcp is claimed by shop/old and shop/new",
  );
});

test("the mode that kube-proxy reports is used if its rules cannot be seen", () => {
  expect(only(judge({ answeredMode: "iptables" }), "migration")).toMatch(/\(mode iptables\)$/);
  expect(only(judge({ answeredMode: "ipvs" }), "migration")).toMatch(/\(mode ipvs\)$/);
  expect(only(judge({ answeredMode: undefined }), "migration")).toMatch(
    /^warning: unknown: there are no rules of kube-proxy/,
  );
});

test("without objects, checks that depend on the cluster's Services report unknown", () => {
  const found = judge({ traces: IPTABLES, objects: { problem: "no API server" } });
  expect(found.map(({ found: text }) => text)).toEqual([
    "kube-proxy has rules on this host (mode iptables)",
    "unknown: the cluster's Services (no API server)",
  ]);
});
