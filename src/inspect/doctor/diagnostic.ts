/** Severity: a fault keeps Services from working; a warning may do so, now or later. */
export type Level = "ok" | "warning" | "fault";

/** The names of the checks, which are stable for scripts. */
export type CheckName =
  | "nft"
  | "host-nft"
  | "kernel"
  | "kernel-modules"
  | "capabilities"
  | "ip-forward"
  | "ipv6-forward"
  | "conntrack-table"
  | "route-localnet"
  | "rp-filter"
  | "bridge-netfilter"
  | "ipv6"
  | "conntrack-tool"
  | "other-proxy"
  | "calico"
  | "cluster-cidr"
  | "firewall"
  | "daemon"
  | "migration"
  | "migration-forward"
  | "migration-nodeport-addresses"
  | "migration-nodeport-loopback"
  | "migration-scheduler"
  | "migration-cluster-ips"
  | "migration-strict-arp"
  | "migration-affinity"
  | "migration-conflict";

/** The judgement on one fact. */
export interface HostDiagnostic {
  readonly check: CheckName;
  readonly level: Level;
  /** The fact that was found, one sentence or less, without a full stop. */
  readonly found: string;
  /** Its meaning for Services; absent when there is nothing to add. */
  readonly means?: string;
  /** The action to take; absent when there is none. */
  readonly action?: string;
}

/** Makes a {@link HostDiagnostic}. */
export function diagnostic(
  check: CheckName,
  level: Level,
  found: string,
  means?: string,
  action?: string,
): HostDiagnostic {
  return {
    check,
    level,
    found,
    ...(means === undefined ? {} : { means }),
    ...(action === undefined ? {} : { action }),
  };
}

const LEVELS: readonly Level[] = ["ok", "warning", "fault"];

/** The worst level among findings, `ok` of none. */
export function worstLevel(findings: readonly Pick<HostDiagnostic, "level">[]): Level {
  const worst = Math.max(0, ...findings.map(({ level }) => LEVELS.indexOf(level)));
  return LEVELS[worst] ?? "ok";
}
