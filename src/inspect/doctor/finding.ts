import type { Branded } from "../../base/text.ts";
import type { Finding as FeatureFinding } from "../../features/seam/feature.ts";
import type { ProblemKind } from "../../socket/daemon-protocol.ts";

/** Severity of a result. */
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

/** What a check found out. */
export interface Finding extends Omit<FeatureFinding, "level"> {
  readonly level: Level;
}

/** The result of a check. */
export interface HostFinding extends Finding {
  readonly check: CheckName | FeatureCheck;
}

/** The results of a check. */
export function named(check: HostFinding["check"], findings: Iterable<Finding>): HostFinding[] {
  return Array.from(findings, (finding) => ({ check, ...finding }));
}

/** Returns the results of a level: the fact, its effect on Services, and the action to take. */
function ofLevel(level: Level) {
  return (found: string, means?: string, action?: string): Finding => ({ level, found, means, action });
}

/** A result without an effect on Services, or with a harmless one. */
export const ok = ofLevel("ok");
/** A result that may keep Services from working, now or later. */
export const warning = ofLevel("warning");
/** A result that keeps Services from working. */
export const fault = ofLevel("fault");

/** The result of a check that needs the chains of a host, if these cannot be listed. */
export function unlistedChains(means: string): Finding {
  return warning(
    "unknown: cannot list the chains of this host",
    means,
    "see nft above; it needs root or CAP_NET_ADMIN in the node's network namespace",
  );
}

const LEVELS: readonly Level[] = ["ok", "warning", "fault"];

/** Returns the worst level; `ok` for no findings. */
export function worstLevel(findings: readonly Pick<HostFinding, "level">[]): Level {
  const worst = Math.max(0, ...findings.map(({ level }) => LEVELS.indexOf(level)));
  return LEVELS[worst] ?? "ok";
}
