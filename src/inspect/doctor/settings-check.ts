import { type ByFamily, FAMILIES, FAMILY_NAMES, type Family } from "../../base/family.ts";
import { listText } from "../../base/text.ts";
import type { ProxyOptions } from "../../config/options.ts";
import { type Finding, fault, type HostFinding, named, ok, warning } from "./finding.ts";
import type { HostFacts } from "./host-facts.ts";

/** Families of the cluster; undefined if unknown. */
export type UsedFamilies = readonly Family[] | undefined;

/** Facts for the settings of the host. */
export interface SettingsFacts extends Pick<HostFacts, "families" | "settings" | "interfaces"> {
  readonly used: UsedFamilies;
  /** Conntrack table size that the options set; 0 if they do not change it. */
  readonly wantedConnections: number;
}

const NET = "/proc/sys/net";
const CONNTRACK_MAX = `${NET}/netfilter/nf_conntrack_max`;
const CONNTRACK_COUNT = `${NET}/netfilter/nf_conntrack_count`;

/** With this setting kube-proxy's iptables mode serves NodePorts on 127.0.0.1. */
export const ROUTE_LOCALNET = `${NET}/ipv4/conf/all/route_localnet`;

/** Settings that kube-proxy's `strictARP` changes. */
export const ARP_SETTINGS: readonly string[] = ["arp_ignore", "arp_announce"].map(
  (name) => `${NET}/ipv4/conf/all/${name}`,
);

/** Settings that pass bridged packets to the IP hooks, by family; absent without the module br_netfilter. */
const BRIDGE_SETTINGS: ByFamily<string> = {
  ip: `${NET}/bridge/bridge-nf-call-iptables`,
  ip6: `${NET}/bridge/bridge-nf-call-ip6tables`,
};

/** Bridges of CNI plugins with pods: the bridge plugin's and Flannel's, kubenet's, kube-router's. */
const POD_BRIDGES: readonly string[] = ["cni0", "cbr0", "kube-bridge"];

/** A setting that is judged by its value alone, and the result for a bad value. */
interface SettingRow extends Omit<HostFinding, "found"> {
  readonly path: string;
  readonly family: Family;
  readonly isBad: (value: number) => boolean;
  /** A bad value is a fault if the cluster has the family, and harmless otherwise. */
  readonly isOfCluster?: true;
}

const SETTING_ROWS: readonly SettingRow[] = [
  {
    check: "ip-forward",
    path: `${NET}/ipv4/ip_forward`,
    family: "ip",
    isBad: (value) => value === 0,
    isOfCluster: true,
    level: "fault",
    means: "packets to pods of this and other nodes are dropped",
    action: "set net.ipv4.ip_forward=1 (sysctl.d)",
  },
  {
    check: "ipv6-forward",
    path: `${NET}/ipv6/conf/all/forwarding`,
    family: "ip6",
    isBad: (value) => value === 0,
    isOfCluster: true,
    level: "warning",
    means: "in a cluster with IPv6, packets to pods are dropped",
    action: "set net.ipv6.conf.all.forwarding=1 (sysctl.d) if the cluster has IPv6",
  },
  {
    check: "route-localnet",
    path: ROUTE_LOCALNET,
    family: "ip",
    isBad: (value) => value !== 0,
    level: "warning",
    means:
      "other hosts on the link may reach programs that listen on loopback (CVE-2020-8558); kube-proxy's iptables mode sets it, nft-proxy does not need it",
    action: "set net.ipv4.conf.all.route_localnet=0 once kube-proxy is gone",
  },
  {
    check: "rp-filter",
    path: `${NET}/ipv4/conf/all/rp_filter`,
    family: "ip",
    isBad: (value) => value === 1,
    level: "ok",
    means:
      "strict: drops packets that arrive on another interface than their answers would use; a node with several uplinks may need 2 (loose)",
  },
];

/** Paths of all settings that are read. */
export const SETTING_PATHS: readonly string[] = [
  ...SETTING_ROWS.map(({ path }) => path),
  ...Object.values(BRIDGE_SETTINGS),
  CONNTRACK_MAX,
  CONNTRACK_COUNT,
  ...ARP_SETTINGS,
];

/**
 * Checks that the host forwards packets, has no needlessly open settings, and has room for tracked
 * connections.
 */
export function judgeSettings(facts: SettingsFacts): HostFinding[] {
  return [
    ...SETTING_ROWS.flatMap((row) => named(row.check, judgeSetting(row, facts))),
    ...named("bridge-netfilter", judgeBridges(facts)),
    ...named("conntrack-table", [judgeConntrack(facts)]),
  ];
}

function judgeSetting(
  { path, family, isBad, isOfCluster, level, means, action }: SettingRow,
  { settings, families, used }: SettingsFacts,
): Finding[] {
  const value = settings.get(path);
  if (value === undefined || !families.includes(family)) return [];
  const found = `${settingName(path)} is ${value}`;
  if (!isBad(value)) return [ok(found)];
  if (isOfCluster === undefined || used === undefined) return [{ level, found, means, action }];
  if (used.includes(family)) return [fault(found, means, action)];
  return [ok(found, `the cluster has no ${FAMILY_NAMES[family]}, by its clusterCIDR`)];
}

/** Returns sysctl's name of a path: `net.ipv4.ip_forward`. */
export function settingName(path: string): string {
  return path.replace("/proc/sys/", "").replaceAll("/", ".");
}

/**
 * Checks whether pods on one bridge reach each other through Services. The answer of an endpoint returns
 * through the bridge. Unless it passes the IP hooks, it keeps the endpoint's address, which the client does
 * not expect. kube-proxy also needs this. IPv6 only matters if the cluster is known to have it.
 */
function judgeBridges({ interfaces, settings, used = ["ip"] }: SettingsFacts): Finding[] {
  const bridges = POD_BRIDGES.filter((name) => interfaces.has(name));
  if (bridges.length === 0) return [];
  const found = `pods are on the bridge ${listText(bridges)}`;
  const paths = FAMILIES.filter((family) => used.includes(family)).map((family) => BRIDGE_SETTINGS[family]);
  const bypassing = paths.filter((path) => settings.get(path) !== 1);
  if (bypassing.length === 0) return [ok(`${found}, whose packets pass the rules`)];
  const why = bypassing.every((path) => settings.has(path))
    ? `${listText(bypassing.map(settingName))} is not 1`
    : "the module br_netfilter is not loaded";
  return [
    warning(
      `${found}, and ${why}`,
      "a pod gets no answer from an endpoint on the same bridge through a Service: the answer bypasses the rules",
      `load br_netfilter (modules-load.d), and set ${listText(bypassing.map((path) => `${settingName(path)}=1`))} (sysctl.d)`,
    ),
  ];
}

const GROW = "raise net.netfilter.nf_conntrack_max (sysctl.d), or run `nft-proxy run --init-only` as root";

function judgeConntrack({ settings, wantedConnections }: SettingsFacts): Finding {
  const max = settings.get(CONNTRACK_MAX);
  if (max === undefined) return ok("connection tracking is not in use yet");
  const count = settings.get(CONNTRACK_COUNT) ?? 0;
  if (max === 0) return ok(`${count} connections are tracked, without a limit`);
  const found = `${count} of ${max} connections are tracked`;
  if (count / max >= 0.95) return fault(found, "new connections are dropped when the table is full", GROW);
  if (count / max >= 0.8) return warning(found, "new connections are dropped once the table is full", GROW);
  if (max >= wantedConnections) return ok(found);
  return warning(found, `the configuration asks for ${wantedConnections}`, GROW);
}

/** Checks whether the mode of the options can distinguish traffic of pods. */
export function judgeClusterCidr({
  detectLocal,
  clusterCIDRs,
}: Pick<ProxyOptions, "detectLocal" | "clusterCIDRs">): HostFinding[] {
  if (detectLocal.kind !== "cluster-cidr") return [];
  const cidrs = Object.values(clusterCIDRs).flat();
  if (cidrs.length > 0) return named("cluster-cidr", [ok(`pods are detected by ${cidrs.join(", ")}`)]);
  return named("cluster-cidr", [
    warning(
      "detect-local-mode is ClusterCIDR, but there is no cluster CIDR",
      "traffic of pods cannot be distinguished: no traffic to cluster IPs is masqueraded, and pods do not use the short cut for external addresses",
      "set clusterCIDR (--cluster-cidr) to the pods' CIDRs, or choose another detect-local-mode",
    ),
  ]);
}
