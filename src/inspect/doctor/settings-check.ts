import { FAMILY_NAMES, type Family } from "../../base/family.ts";
import type { CheckName, HostDiagnostic } from "./diagnostic.ts";

/** Numbers of /proc/sys by their path; one that this kernel lacks is absent. */
export type Settings = ReadonlyMap<string, number>;

const NET = "/proc/sys/net";
const CONNTRACK_MAX = `${NET}/netfilter/nf_conntrack_max`;
const CONNTRACK_COUNT = `${NET}/netfilter/nf_conntrack_count`;

/** The setting by which kube-proxy's iptables mode serves NodePorts on 127.0.0.1. */
export const ROUTE_LOCALNET = `${NET}/ipv4/conf/all/route_localnet`;

/** The settings that kube-proxy's `strictARP` changes. */
export const ARP_SETTINGS: readonly string[] = ["arp_ignore", "arp_announce"].map(
  (name) => `${NET}/ipv4/conf/all/${name}`,
);

/** The families that the cluster has; undefined when that is not known. */
export type UsedFamilies = readonly Family[] | undefined;

/** A setting whose value tells good from bad by itself. */
interface Rule {
  readonly check: CheckName;
  readonly path: string;
  readonly family: Family;
  readonly bad: (value: number) => boolean;
  /** A bad value is a fault where the cluster has the family, and nothing where it has not. */
  readonly isOfCluster?: true;
  readonly judgement: Pick<HostDiagnostic, "level" | "means" | "action">;
}

const RULES: readonly Rule[] = [
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
        "other hosts on the link may reach what listens on loopback (CVE-2020-8558); kube-proxy's iptables mode sets it, nft-proxy needs it not",
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
      means: "strict: packets that come in where the answer would not go out are dropped; mind it with several uplinks",
    },
  },
];

/** The paths of all settings that are judged. */
export const SETTING_PATHS: readonly string[] = [
  ...RULES.map(({ path }) => path),
  CONNTRACK_MAX,
  CONNTRACK_COUNT,
  ...ARP_SETTINGS,
];

/** Whether the host forwards packets, and has no needlessly open settings. */
export function judgeSettings(settings: Settings, families: readonly Family[], used: UsedFamilies): HostDiagnostic[] {
  return RULES.filter(({ family }) => families.includes(family)).flatMap((rule): HostDiagnostic[] => {
    const { check, path, bad } = rule;
    const value = settings.get(path);
    if (value === undefined) return [];
    const found = `${path.replace("/proc/sys/", "").replaceAll("/", ".")} is ${value}`;
    return [bad(value) ? { check, found, ...judgementOf(rule, used) } : { check, level: "ok", found }];
  });
}

function judgementOf({ family, isOfCluster, judgement }: Rule, used: UsedFamilies): Rule["judgement"] {
  if (isOfCluster === undefined || used === undefined) return judgement;
  if (used.includes(family)) return { ...judgement, level: "fault" };
  return { level: "ok", means: `the cluster has no ${FAMILY_NAMES[family]}, by its clusterCIDR` };
}

/** Whether the table of tracked connections has room. `wanted` is the size that the options make, 0 for any. */
export function judgeConntrackTable(settings: Settings, wanted: number): HostDiagnostic {
  const max = settings.get(CONNTRACK_MAX);
  const count = settings.get(CONNTRACK_COUNT) ?? 0;
  if (max === undefined) {
    return { check: "conntrack-table", level: "ok", found: "connection tracking is not in use yet" };
  }
  if (max === 0) {
    return { check: "conntrack-table", level: "ok", found: `${count} connections are tracked, without a limit` };
  }
  const base = { check: "conntrack-table", found: `${count} of ${max} connections are tracked` } as const;
  const grow = "raise net.netfilter.nf_conntrack_max (sysctl.d), or let `nft-proxy run --init-only` do it as root";
  if (count >= max * 0.95) {
    return { ...base, level: "fault", means: "new connections are dropped when the table is full", action: grow };
  }
  if (count >= max * 0.8) {
    return { ...base, level: "warning", means: "new connections are dropped once the table is full", action: grow };
  }
  if (max >= wanted) return { ...base, level: "ok" };
  return { ...base, level: "warning", means: `the configuration asks for room for ${wanted}`, action: grow };
}
