import { createHash } from "node:crypto";
import { type Draw, drawText } from "./draws.ts";

/** The chains whose names do not depend on Services. Hooked chains have kube-proxy's names. */
export const STATIC_CHAINS = [
  "filter-prerouting-pre-dnat",
  "filter-output-pre-dnat",
  "filter-input",
  "filter-forward",
  "filter-output",
  "nat-prerouting",
  "nat-output",
  "nat-postrouting",
  "services",
  "balancing",
  "external",
  "external-local",
  "source-ranges-check",
  "source-ranges-allowed",
  "reject-chain",
  "drop-chain",
  "service-endpoints-check",
  "nodeport-endpoints-check",
  "cluster-ips-check",
  "masquerading",
] as const;

/** The name of a chain that does not depend on Services. */
export type StaticChainName = (typeof STATIC_CHAINS)[number];

/** Chains that verdicts of map elements lead to. */
export const REJECT_CHAIN = "reject-chain" satisfies StaticChainName;
export const DROP_CHAIN = "drop-chain" satisfies StaticChainName;

/** The verdict for each cause to refuse all connections of a frontend: see `REFUSAL_CAUSES`. */
export const REFUSALS = {
  "no-endpoints": `goto ${REJECT_CHAIN}`,
  "no-local-endpoints": `goto ${DROP_CHAIN}`,
} as const;

/** No endpoint anywhere, or some, but not for the traffic policy. */
export type Refusal = keyof typeof REFUSALS;

/** The refusal of a verdict; undefined for other verdicts. */
export function refusalOf(verdict: string | undefined): Refusal | undefined {
  const refusals = Object.keys(REFUSALS) as Refusal[];
  return refusals.find((refusal) => REFUSALS[refusal] === verdict);
}

/** The chains through which a packet reaches an endpoint, and the chain that masquerades marked packets. */
export const BALANCING = "balancing" satisfies StaticChainName;
export const EXTERNAL = "external" satisfies StaticChainName;
export const EXTERNAL_LOCAL = "external-local" satisfies StaticChainName;
export const SOURCE_RANGES_CHECK = "source-ranges-check" satisfies StaticChainName;
export const MASQUERADING = "masquerading" satisfies StaticChainName;

/** The chain that refuses packets to cluster IPs that no rule has handled. */
export const CLUSTER_IPS_CHECK = "cluster-ips-check" satisfies StaticChainName;

/** How to choose an endpoint. */
export interface Balancer extends Draw {
  /** Time that a client keeps its endpoint, in seconds, one of `AFFINITY_SECONDS`; 0 for no affinity. */
  readonly affinitySeconds: number;
  /** With affinity: chooses among the node's own endpoints, and clients may stay only with those. */
  readonly local: boolean;
  /** With affinity: both lists of the Service port are used, and a client has an entry for each. */
  readonly bothLists?: true;
}

/**
 * The name of the chain that verdicts of lists lead to: `balance-2`. With session affinity, it depends on
 * neither the number of endpoints nor the timeout: `affinity`, `affinity-both-local`. Those for frontends of
 * another kind than ports have its prefix.
 */
export function balancerName(balancer: Balancer, { prefix }: { readonly prefix: string }): string {
  const { affinitySeconds, local, bothLists } = balancer;
  if (affinitySeconds === 0) return `${prefix}${drawText(balancer)}`;
  return `${prefix}affinity${bothLists ? "-both" : ""}${local ? "-local" : ""}`;
}

/** The name of the chain that draws an endpoint for session affinity: `choose-balance-2`. */
export function chooserName(draw: Draw): string {
  return `choose-${drawText(draw)}`;
}

/**
 * The name of the chain that remembers a client's endpoint: `remember-600`, `remember-local-600`.
 * @param isLocal whether the client has another entry for the list of the whole cluster
 */
export function rememberName(seconds: number, isLocal: boolean): string {
  return `remember-${isLocal ? "local-" : ""}${seconds}`;
}

/** Names a text by 80 bits of its SHA-256, in hexadecimal, so that no other text has the name. */
export function digest(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 20);
}
