import type { Branded } from "../base/text.ts";
import { SCHEDULERS, type Scheduler } from "../model/scheduler.ts";

/** The chains whose names do not depend on Services; hooked ones have kube-proxy's names. */
const STATIC_CHAINS = [
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
  "range-balancing",
  "range-external",
  "range-external-local",
  "reject-chain",
  "drop-chain",
  "service-endpoints-check",
  "nodeport-endpoints-check",
  "vanished-endpoints-check",
  "cluster-ips-check",
  "fast-path",
  "masquerading",
] as const;

/** The name of a chain that does not depend on Services. */
export type StaticChainName = (typeof STATIC_CHAINS)[number];

/** Chains that verdicts of map elements lead to. */
export const REJECT_CHAIN = "reject-chain" satisfies StaticChainName;
export const DROP_CHAIN = "drop-chain" satisfies StaticChainName;

/** The verdict of each way to refuse connections for which there is no endpoint. */
export const REFUSALS = { refused: `goto ${REJECT_CHAIN}`, dropped: `goto ${DROP_CHAIN}` } as const;

/** No endpoint anywhere: `refused`. Some, but not for the traffic policy: `dropped`. */
export type Refusal = keyof typeof REFUSALS;

/** The refusal that a verdict stands for; undefined for every other verdict. */
export function refusalOf(verdict: string | undefined): Refusal | undefined {
  if (verdict === REFUSALS.dropped) return "dropped";
  return verdict === REFUSALS.refused ? "refused" : undefined;
}

/** The chains in which a packet to a Service is on its way to an endpoint, and the one that masquerades what they marked. */
export const BALANCING = "balancing" satisfies StaticChainName;
export const EXTERNAL = "external" satisfies StaticChainName;
export const EXTERNAL_LOCAL = "external-local" satisfies StaticChainName;
export const MASQUERADING = "masquerading" satisfies StaticChainName;

/** The chain that refuses what is left for cluster IPs. */
export const CLUSTER_IPS_CHECK = "cluster-ips-check" satisfies StaticChainName;

/** The name of a chain that chooses an endpoint: see {@link balancerName}. */
export type BalancerName = Branded<"BalancerName">;

/** The name of a chain that drops what does not come from some source ranges: `firewall-`, and their hash. */
export type FirewallName = Branded<"FirewallName">;

/** The name of a chain of ours. */
export type ChainName = StaticChainName | BalancerName | FirewallName;

/** A way of choosing among endpoints, shared by all lists in which the choice is made alike among as many. */
export interface Balancer {
  readonly scheduler: Scheduler;
  /** The choice is among slots, which endpoints share by weight and hash: see slot-table.ts. */
  readonly slots: boolean;
  /** How many endpoints or slots, 1 or more. */
  readonly count: number;
  /** Seconds for which a client keeps its endpoint, 0 for no affinity. */
  readonly affinitySeconds: number;
  /** With affinity: the choice is among the node's own endpoints, and only there may a client stay. */
  readonly local: boolean;
  /** With affinity: connections come to both lists of the Service port, and a client has an entry for each. */
  readonly both?: true;
  /** Connections are to a range of ports, and keep theirs. */
  readonly keepsPort?: true;
}

/** The purpose of a chain of ours, read from its name. */
export type ChainRole =
  | { readonly kind: "static"; readonly name: StaticChainName }
  | { readonly kind: "balancer"; readonly balancer: Balancer }
  | { readonly kind: "firewall" };

/** The word in a chain's name for each way of choosing; `[endpoints, slots]`. Hashes are always over slots. */
const CHOICES: Readonly<Record<Scheduler, readonly [string, string]>> = {
  random: ["balance", "slots"],
  "round-robin": ["round-robin", "round-robin-slots"],
  "source-hash": ["source-hash", "source-hash"],
  "flow-hash": ["flow-hash", "flow-hash"],
};

/** The name of a balancer's chain: `balance-2`, `slots-251`, `affinity-both-local-round-robin-3-600`, `range-balance-2`. */
export function balancerName({
  scheduler,
  slots,
  count,
  affinitySeconds,
  local,
  both,
  keepsPort,
}: Balancer): BalancerName {
  const choice = CHOICES[scheduler][slots ? 1 : 0];
  const range = keepsPort ? "range-" : "";
  if (affinitySeconds === 0) return `${range}${choice}-${count}` as BalancerName;
  const words = [
    "affinity",
    ...(both ? ["both"] : []),
    ...(local ? ["local"] : []),
    ...(choice === "balance" ? [] : [choice]),
  ];
  return `${range}${[...words, count, affinitySeconds].join("-")}` as BalancerName;
}

/** The name of the chain that guards by source ranges, and of the set with these. @param hash of the ranges */
export function firewallNames(hash: string): {
  readonly chain: FirewallName;
  readonly set: `source-ranges-${string}`;
} {
  return { chain: `firewall-${hash}` as FirewallName, set: `source-ranges-${hash}` };
}

const STATIC: ReadonlySet<string> = new Set(STATIC_CHAINS);
const CHOICE = "(slots|round-robin-slots|round-robin|source-hash|flow-hash)";
/** No chain of ours has a million endpoints. */
const NUMBER = "([1-9]\\d{0,5})";
const BALANCER = new RegExp(
  `^(range-)?(?:balance|(affinity)(-both)?(-local)?(?:-${CHOICE})?|${CHOICE})-${NUMBER}(?:-${NUMBER})?$`,
);
const FIREWALL = /^firewall-[\da-f]{20}$/;

/** Reads a chain's name; undefined for one that we never give. */
export function parseChainName(name: string): ChainRole | undefined {
  if (STATIC.has(name)) return { kind: "static", name: name as StaticChainName };
  if (FIREWALL.test(name)) return { kind: "firewall" };
  const [match, range, affinity, both, local, sticky, plain, count, seconds] = BALANCER.exec(name) ?? [];
  if (match === undefined || (affinity === undefined) !== (seconds === undefined)) return undefined;
  return {
    kind: "balancer",
    balancer: {
      ...choiceOf(sticky ?? plain),
      count: Number(count),
      affinitySeconds: Number(seconds ?? 0),
      local: local !== undefined,
      ...(both !== undefined && { both: true }),
      ...(range !== undefined && { keepsPort: true }),
    },
  };
}

function choiceOf(word: string | undefined): Pick<Balancer, "scheduler" | "slots"> {
  if (word === undefined) return { scheduler: "random", slots: false };
  const scheduler = SCHEDULERS.find((candidate) => CHOICES[candidate].includes(word)) ?? "random";
  return { scheduler, slots: CHOICES[scheduler][1] === word };
}
