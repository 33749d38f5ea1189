import type { Branded } from "../../base/text.ts";
import type { ProblemKind } from "../../socket/daemon-protocol.ts";

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
  | "socat"
  | "other-proxy"
  | "other-sets"
  | "calico"
  | "cluster-cidr"
  | "firewall"
  | "daemon"
  | ProblemKind
  | "migration"
  | "migration-forward"
  | "migration-nodeport-addresses"
  | "migration-nodeport-loopback"
  | "migration-cluster-ips"
  | "migration-strict-arp"
  | "migration-affinity"
  | "migration-port-ranges"
  | "migration-conflict";

/** The name of a feature, or of a check of its own. */
export type FeatureCheck = Branded<"FeatureCheck">;

/** The result of a check. */
export interface HostFinding {
  readonly check: CheckName | FeatureCheck;
  readonly level: Level;
  /** The fact, at most one sentence, without a full stop. */
  readonly found: string;
  /** Its effect on Services; absent if there is nothing to add. */
  readonly means?: string | undefined;
  /** The action to take; absent when there is none. */
  readonly action?: string | undefined;
}

/** A text of a result, which may depend on the facts. */
type RowText<Facts> = string | ((facts: Facts) => string | undefined);

/** A result that applies if `when` returns true, or always without it. */
export interface Row<Facts> {
  readonly check: HostFinding["check"];
  readonly level: Level;
  readonly when?: (facts: Facts) => boolean;
  readonly found: RowText<Facts>;
  readonly means?: RowText<Facts>;
  readonly action?: RowText<Facts>;
}

/** The row of checks that need the chains of a host, if these cannot be listed. */
export const UNLISTED_CHAINS = {
  level: "warning",
  when: ({ chains }: { readonly chains: unknown }) => chains === undefined,
  found: "unknown: cannot list the chains of this host",
  action: "see nft above; it needs root or CAP_NET_ADMIN in the node's network namespace",
} as const;

/** Returns the results of all rows that apply. */
export function judgeAll<Facts>(rows: readonly Row<Facts>[], facts: Facts): HostFinding[] {
  return rows.filter(({ when }) => when?.(facts) ?? true).map((row) => findingOf(row, facts));
}

/** Returns the result of the first row that applies of each check. */
export function judge<Facts>(rows: readonly Row<Facts>[], facts: Facts): HostFinding[] {
  const judged = new Set<HostFinding["check"]>();
  return rows.flatMap((row) => {
    if (judged.has(row.check) || row.when?.(facts) === false) return [];
    judged.add(row.check);
    return [findingOf(row, facts)];
  });
}

function findingOf<Facts>({ check, level, ...row }: Row<Facts>, facts: Facts): HostFinding {
  const textOf = (text: RowText<Facts> | undefined) => (typeof text === "function" ? text(facts) : text);
  return {
    check,
    level,
    found: textOf(row.found) ?? "",
    means: textOf(row.means),
    action: textOf(row.action),
  };
}

const LEVELS: readonly Level[] = ["ok", "warning", "fault"];

/** Returns the worst level; `ok` for no findings. */
export function worstLevel(findings: readonly Pick<HostFinding, "level">[]): Level {
  const worst = Math.max(0, ...findings.map(({ level }) => LEVELS.indexOf(level)));
  return LEVELS[worst] ?? "ok";
}
