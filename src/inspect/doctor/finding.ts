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
  | "socat"
  | "other-proxy"
  | "other-sets"
  | "calico"
  | "cluster-cidr"
  | "firewall"
  | "fast-path"
  | "daemon"
  | "migration"
  | "migration-forward"
  | "migration-nodeport-addresses"
  | "migration-nodeport-loopback"
  | "migration-scheduler"
  | "migration-cluster-ips"
  | "migration-strict-arp"
  | "migration-affinity"
  | "migration-port-ranges"
  | "migration-conflict";

/** The judgement on one fact. */
export interface HostFinding {
  readonly check: CheckName;
  readonly level: Level;
  /** The fact that was found, one sentence or less, without a full stop. */
  readonly found: string;
  /** Its meaning for Services; absent when there is nothing to add. */
  readonly means?: string;
  /** The action to take; absent when there is none. */
  readonly action?: string;
}

/** A text of a judgement, which may depend on the facts. */
type RowText<Facts> = string | ((facts: Facts) => string | undefined);

/** A judgement that applies where `when` holds, and everywhere without it. */
export interface Row<Facts> {
  readonly check: CheckName;
  readonly level: Level;
  readonly when?: (facts: Facts) => boolean;
  readonly found: RowText<Facts>;
  readonly means?: RowText<Facts>;
  readonly action?: RowText<Facts>;
}

/** The findings of all rows that apply. */
export function judgeAll<Facts>(rows: readonly Row<Facts>[], facts: Facts): HostFinding[] {
  return rows.filter(({ when }) => when?.(facts) ?? true).map((row) => findingOf(row, facts));
}

/** The findings of those rows that are the first of their check to apply. */
export function judge<Facts>(rows: readonly Row<Facts>[], facts: Facts): HostFinding[] {
  const judged = new Set<CheckName>();
  return rows.flatMap((row) => {
    if (judged.has(row.check) || row.when?.(facts) === false) return [];
    judged.add(row.check);
    return [findingOf(row, facts)];
  });
}

function findingOf<Facts>({ check, level, ...row }: Row<Facts>, facts: Facts): HostFinding {
  const textOf = (text: RowText<Facts> | undefined) => (typeof text === "function" ? text(facts) : text);
  const [means, action] = [textOf(row.means), textOf(row.action)];
  return {
    check,
    level,
    found: textOf(row.found) ?? "",
    ...(means === undefined ? {} : { means }),
    ...(action === undefined ? {} : { action }),
  };
}

const LEVELS: readonly Level[] = ["ok", "warning", "fault"];

/** The worst level among findings, `ok` of none. */
export function worstLevel(findings: readonly Pick<HostFinding, "level">[]): Level {
  const worst = Math.max(0, ...findings.map(({ level }) => LEVELS.indexOf(level)));
  return LEVELS[worst] ?? "ok";
}
