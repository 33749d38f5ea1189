import { join } from "node:path";
import { debianProgram } from "./debian-program.ts";
import type { Outcome, Probe } from "./lab/outcome.ts";
import type { Scenario } from "./lab/scenario.ts";

/** The two implementations of iptables. kube-proxy uses the one that the host's other rules use. */
export const IPTABLES_VARIANTS = ["nft", "legacy"] as const;

/**
 * Returns the command line of a program of Debian's iptables, such as `iptables-restore`, with its
 * extensions.
 */
export function iptables(
  variant: (typeof IPTABLES_VARIANTS)[number],
  command: string,
): [string, ...string[]] {
  const program = debianProgram("trixie", "iptables", `xtables-${variant}-multi`);
  const extensions = join(program, "../../root/usr/lib/x86_64-linux-gnu/xtables");
  return ["env", `XTABLES_LIBDIR=${extensions}`, program, command];
}

/** Service ports of the recorded town, with policy Cluster and without session affinity. */
const SERVICE_PORTS = [
  "dns/kube-dns:53/udp",
  "shop/frontend:80/tcp",
  "shop/multi:53/udp",
  "shop/multi:80/tcp",
];

/** The probes whose connections {@link iptablesModeRules} translate. */
export function iptablesModeProbes({ probes }: Scenario): readonly Probe[] {
  return probes.filter(({ id, to }) => {
    const isServed = /cluster 10\.|nodeport 192\.0\.2\.2 /.test(id) && !to.includes(":");
    return isServed && SERVICE_PORTS.some((name) => id.startsWith(`${name} `));
  });
}

/**
 * Returns input for `iptables-restore`: the rules of kube-proxy's iptables mode for these service ports. The
 * order and the names of chains are those of
 * https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/proxy/iptables/proxier.go.
 */
export function iptablesModeRules(town: Scenario): string {
  const frontends = new Map(
    iptablesModeProbes(town).map((probe) => [`${probe.to} ${probe.proto} ${probe.port}`, probe] as const),
  );
  const chains = new Set<string>();
  const rules = [...frontends.values()].flatMap((probe, number) =>
    frontendRules(probe, town.expect[probe.id], String(number), chains),
  );
  return [
    "*nat",
    ...BASE_CHAINS.map((name) => `:${name} - [0:0]`),
    ...[...chains].map((name) => `:${name} - [0:0]`),
    ...BASE_RULES,
    ...rules,
    "-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS",
    "COMMIT",
    "",
  ].join("\n");
}

/** Returns input for `iptables-restore` that removes these rules, as `kube-proxy --cleanup` does. */
export const NO_RULES = "*nat\nCOMMIT\n";

const BASE_CHAINS = ["KUBE-SERVICES", "KUBE-NODEPORTS", "KUBE-MARK-MASQ", "KUBE-POSTROUTING"];
const BASE_RULES = [
  '-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
  '-A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
  '-A POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING',
  "-A KUBE-MARK-MASQ -j MARK --or-mark 0x4000",
  "-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN",
  "-A KUBE-POSTROUTING -j MARK --xor-mark 0x4000",
  "-A KUBE-POSTROUTING -j MASQUERADE --random-fully",
];

/** Returns the rules of an address and port: a chain for it, and one for each endpoint. */
function frontendRules(
  { id, to, port, proto }: Probe,
  expected: Outcome | undefined,
  number: string,
  chains: Set<string>,
): readonly string[] {
  const service = `KUBE-SVC-${number}`;
  const endpoints = (expected?.endpoints ?? []).map((text, index) => {
    const [address = "", targetPort = ""] = text.split(" ");
    return { address, to: `${address}:${targetPort}`, chain: `KUBE-SEP-${number}-${index}` };
  });
  for (const name of [service, ...endpoints.map(({ chain }) => chain)]) chains.add(name);
  const match = `-p ${proto} -m ${proto} --dport ${port}`;
  const isNodePort = id.includes(" nodeport ");
  return [
    isNodePort
      ? `-A KUBE-NODEPORTS ${match} -j ${service}`
      : `-A KUBE-SERVICES -d ${to}/32 ${match} -j ${service}`,
    `-A ${service} ${isNodePort ? "" : `! -s 10.244.0.0/16 -d ${to}/32 ${match}`} -j KUBE-MARK-MASQ`,
    ...endpoints.flatMap(({ address, chain, ...endpoint }, index) => {
      const rest = endpoints.length - index;
      const share = rest > 1 ? `-m statistic --mode random --probability ${(1 / rest).toFixed(10)}` : "";
      return [
        `-A ${service} ${share} -j ${chain}`,
        `-A ${chain} -s ${address}/32 -j KUBE-MARK-MASQ`,
        `-A ${chain} -p ${proto} -m ${proto} -j DNAT --to-destination ${endpoint.to}`,
      ];
    }),
  ];
}
