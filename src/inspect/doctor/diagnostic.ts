/** How bad it is: a fault keeps Services from working, a warning may, or will one day. */
export type Level = "ok" | "warning" | "fault";

/** What was looked at; scripts may rely on these names. */
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
  | "ipv6"
  | "conntrack-tool"
  | "other-proxy"
  | "firewall"
  | "daemon";

/** The judgement on one fact. */
export interface HostDiagnostic {
  readonly check: CheckName;
  readonly level: Level;
  /** What is so, one sentence or less, without a full stop. */
  readonly found: string;
  /** What that means for Services; absent when there is nothing to add. */
  readonly means?: string;
  /** What to do about it; absent when there is nothing to do. */
  readonly action?: string;
}

const LEVELS: readonly Level[] = ["ok", "warning", "fault"];

/** The worst level among findings, `ok` of none. */
export function worstLevel(findings: readonly Pick<HostDiagnostic, "level">[]): Level {
  const worst = Math.max(0, ...findings.map(({ level }) => LEVELS.indexOf(level)));
  return LEVELS[worst] ?? "ok";
}
