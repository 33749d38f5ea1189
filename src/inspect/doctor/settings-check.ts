import { type ByFamily, FAMILIES, FAMILY_NAMES, type Family } from "../../base/family.ts";
import { listText } from "../../base/text.ts";
import type { ProxyOptions } from "../../config/options.ts";
import { type CheckName, type HostFinding, judge, type Row } from "./finding.ts";
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

/** A setting that is judged by its value alone. */
interface SettingRow {
  readonly check: CheckName;
  readonly path: string;
  readonly family: Family;
  readonly bad: (value: number) => boolean;
  /** A bad value is a fault if the cluster has the family, and harmless otherwise. */
  readonly isOfCluster?: true;
  readonly judgement: Pick<HostFinding, "level" | "means" | "action">;
}

const SETTING_ROWS: readonly SettingRow[] = [
  {
    check: "ip-forward",
    path: `${NET}/ipv4/ip_forward`,
    family: "ip",
    bad: (value) => value === 0,
    isOfCluster: true,
    judgement: {
      level: "fault",
      means: "packets to pods of this and other nodes are dropped",
      action: "set net.ipv4.ip_forward=1 (sysctl.d)",
    },
  },
  {
    check: "ipv6-forward",
    path: `${NET}/ipv6/conf/all/forwarding`,
    family: "ip6",
    bad: (value) => value === 0,
    isOfCluster: true,
    judgement: {
      level: "warning",
      means: "in a cluster with IPv6, packets to pods are dropped",
      action: "set net.ipv6.conf.all.forwarding=1 (sysctl.d) if the cluster has IPv6",
    },
  },
  {
    check: "route-localnet",
    path: ROUTE_LOCALNET,
    family: "ip",
    bad: (value) => value !== 0,
    judgement: {
      level: "warning",
      means:
        "other hosts on the link may reach programs that listen on loopback (CVE-2020-8558); kube-proxy's iptables mode sets it, nft-proxy does not need it",
      action: "set net.ipv4.conf.all.route_localnet=0 once kube-proxy is gone",
    },
  },
  {
    check: "rp-filter",
    path: `${NET}/ipv4/conf/all/rp_filter`,
    family: "ip",
    bad: (value) => value === 1,
    judgement: {
      level: "ok",
      means:
        "strict: drops packets that arrive on another interface than their answers would use; a node with several uplinks may need 2 (loose)",
    },
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
    ...SETTING_ROWS.flatMap((row) => judgeSetting(row, facts)),
    ...judge(BRIDGE_ROWS, facts).filter(() => podBridges(facts).length > 0),
    ...judge(CONNTRACK_ROWS, facts),
  ];
}

function judgeSetting(row: SettingRow, { settings, families, used }: SettingsFacts): HostFinding[] {
  const { check, path, family, bad } = row;
  const value = settings.get(path);
  if (value === undefined || !families.includes(family)) return [];
  const found = `${settingName(path)} is ${value}`;
  return [bad(value) ? { check, found, ...badSetting(row, used) } : { check, level: "ok", found }];
}

function badSetting(
  { family, isOfCluster, judgement }: SettingRow,
  used: UsedFamilies,
): SettingRow["judgement"] {
  if (isOfCluster === undefined || used === undefined) return judgement;
  if (used.includes(family)) return { ...judgement, level: "fault" };
  return { level: "ok", means: `the cluster has no ${FAMILY_NAMES[family]}, by its clusterCIDR` };
}

/** Returns sysctl's name of a path: `net.ipv4.ip_forward`. */
export function settingName(path: string): string {
  return path.replace("/proc/sys/", "").replaceAll("/", ".");
}

/**
 * Checks whether pods on one bridge reach each other through Services. The answer of an endpoint returns
 * through the bridge. Unless it passes the IP hooks, it keeps the endpoint's address, which the client does
 * not expect. kube-proxy also needs this.
 */
const BRIDGE_ROWS: readonly Row<SettingsFacts>[] = [
  {
    check: "bridge-netfilter",
    level: "ok",
    when: (facts) => bypassing(facts).length === 0,
    found: (facts) => `pods are on the bridge ${listText(podBridges(facts))}, whose packets pass the rules`,
  },
  {
    check: "bridge-netfilter",
    level: "warning",
    found: (facts) => {
      const off = bypassing(facts);
      const isLoaded = off.every((path) => facts.settings.has(path));
      const why = isLoaded
        ? `${listText(off.map(settingName))} is not 1`
        : "the module br_netfilter is not loaded";
      return `pods are on the bridge ${listText(podBridges(facts))}, and ${why}`;
    },
    means:
      "a pod gets no answer from an endpoint on the same bridge through a Service: the answer bypasses the rules",
    action: (facts) =>
      `load br_netfilter (modules-load.d), and set ${listText(bypassing(facts).map((path) => `${settingName(path)}=1`))} (sysctl.d)`,
  },
];

function podBridges({ interfaces }: SettingsFacts): string[] {
  return POD_BRIDGES.filter((name) => interfaces.has(name));
}

/**
 * Returns settings that make bridged packets bypass the rules; only IPv4's unless the cluster is known to
 * have IPv6.
 */
function bypassing({ settings, used }: SettingsFacts): string[] {
  const families = FAMILIES.filter((family) => (used ?? ["ip"]).includes(family));
  return families.map((family) => BRIDGE_SETTINGS[family]).filter((path) => settings.get(path) !== 1);
}

const ROOM = {
  check: "conntrack-table",
  found: (facts: SettingsFacts) => `${countText(facts)} connections are tracked`,
} as const;
const GROW = "raise net.netfilter.nf_conntrack_max (sysctl.d), or run `nft-proxy run --init-only` as root";

const CONNTRACK_ROWS: readonly Row<SettingsFacts>[] = [
  {
    check: "conntrack-table",
    level: "ok",
    when: ({ settings }) => !settings.has(CONNTRACK_MAX),
    found: "connection tracking is not in use yet",
  },
  {
    check: "conntrack-table",
    level: "ok",
    when: (facts) => trackedOf(facts).max === 0,
    found: (facts) => `${trackedOf(facts).count} connections are tracked, without a limit`,
  },
  {
    ...ROOM,
    level: "fault",
    when: (facts) => shareOf(facts) >= 0.95,
    means: "new connections are dropped when the table is full",
    action: GROW,
  },
  {
    ...ROOM,
    level: "warning",
    when: (facts) => shareOf(facts) >= 0.8,
    means: "new connections are dropped once the table is full",
    action: GROW,
  },
  { ...ROOM, level: "ok", when: (facts) => trackedOf(facts).max >= facts.wantedConnections },
  {
    ...ROOM,
    level: "warning",
    means: ({ wantedConnections }) => `the configuration asks for ${wantedConnections}`,
    action: GROW,
  },
];

function trackedOf({ settings }: SettingsFacts): { readonly count: number; readonly max: number } {
  return { count: settings.get(CONNTRACK_COUNT) ?? 0, max: settings.get(CONNTRACK_MAX) ?? 0 };
}

function shareOf(facts: SettingsFacts): number {
  const { count, max } = trackedOf(facts);
  return count / max;
}

function countText(facts: SettingsFacts): string {
  const { count, max } = trackedOf(facts);
  return `${count} of ${max}`;
}

/** Checks whether the mode of the options can distinguish traffic of pods. */
export function judgeClusterCidr(options: Pick<ProxyOptions, "detectLocal" | "clusterCIDRs">): HostFinding[] {
  return options.detectLocal.kind === "cluster-cidr" ? judge(CLUSTER_CIDR_ROWS, options) : [];
}

const CLUSTER_CIDR_ROWS: readonly Row<Pick<ProxyOptions, "clusterCIDRs">>[] = [
  {
    check: "cluster-cidr",
    level: "ok",
    when: ({ clusterCIDRs }) => Object.values(clusterCIDRs).flat().length > 0,
    found: ({ clusterCIDRs }) => `pods are detected by ${Object.values(clusterCIDRs).flat().join(", ")}`,
  },
  {
    check: "cluster-cidr",
    level: "warning",
    found: "detect-local-mode is ClusterCIDR, but there is no cluster CIDR",
    means:
      "traffic of pods cannot be distinguished: no traffic to cluster IPs is masqueraded, and pods do not use the short cut for external addresses",
    action: "set clusterCIDR (--cluster-cidr) to the pods' CIDRs, or choose another detect-local-mode",
  },
];
