import { createHash } from "node:crypto";
import type { Branded } from "../base/text.ts";
import type { ClientLimits, RateUnit } from "../model/client-limits.ts";
import { SCHEDULERS, type Scheduler } from "../model/scheduler.ts";
import type { Chain } from "../nft/ast/ruleset.ts";

/** The chains whose names do not depend on Services. Hooked chains have kube-proxy's names. */
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
  "answer-ping",
  "answer-ping-inside",
  "reject-chain",
  "drop-chain",
  "service-endpoints-check",
  "nodeport-endpoints-check",
  "vanished-endpoints-check",
  "cluster-ips-check",
  "count-attempts",
  "count-answers",
  "client-limit-refusal",
  "fast-path",
  "masquerading",
] as const;

/** The name of a chain that does not depend on Services. */
export type StaticChainName = (typeof STATIC_CHAINS)[number];

/** A chain with such a name. */
export interface StaticChain extends Chain {
  readonly name: StaticChainName;
}

/** Chains that verdicts of map elements lead to. */
export const REJECT_CHAIN = "reject-chain" satisfies StaticChainName;
export const DROP_CHAIN = "drop-chain" satisfies StaticChainName;

/** The verdict of each way to refuse connections for which there is no endpoint. */
export const REFUSALS = { refused: `goto ${REJECT_CHAIN}`, dropped: `goto ${DROP_CHAIN}` } as const;

/** No endpoint anywhere: `refused`. Some, but not for the traffic policy: `dropped`. */
export type Refusal = keyof typeof REFUSALS;

/** The refusal of a verdict; undefined for other verdicts. */
export function refusalOf(verdict: string | undefined): Refusal | undefined {
  if (verdict === REFUSALS.dropped) return "dropped";
  return verdict === REFUSALS.refused ? "refused" : undefined;
}

/** The chains through which a packet reaches an endpoint, and the chain that masquerades marked packets. */
export const BALANCING = "balancing" satisfies StaticChainName;
export const EXTERNAL = "external" satisfies StaticChainName;
export const EXTERNAL_LOCAL = "external-local" satisfies StaticChainName;
export const MASQUERADING = "masquerading" satisfies StaticChainName;

/** The chain that refuses packets to cluster IPs that no rule has handled. */
export const CLUSTER_IPS_CHECK = "cluster-ips-check" satisfies StaticChainName;

/** The name of a chain that chooses an endpoint: see {@link balancerName}. */
export type BalancerName = Branded<"BalancerName">;

/** The name of a chain that drops packets from outside some source ranges: `firewall-` and their hash. */
export type FirewallName = Branded<"FirewallName">;

/** The name of a chain that answers echo requests of some clients: `ping-` and a hash of its rules. */
export type PingName = Branded<"PingName">;

/** The name of a chain that limits clients: see {@link clientLimitName}. */
export type ClientLimitName = Branded<"ClientLimitName">;

/** The name of a chain that assigns timeouts, and of their object: `timeouts-` and their hash. */
export type TimeoutsName = Branded<"TimeoutsName">;

export type ChainName =
  | StaticChainName
  | BalancerName
  | FirewallName
  | PingName
  | ClientLimitName
  | TimeoutsName;

/** How to choose an endpoint. Lists of equal length that choose in the same way share one. */
export interface Balancer {
  readonly scheduler: Scheduler;
  /** Chooses a slot instead of an endpoint. Slots implement weights and hashes: see slot-table.ts. */
  readonly slots: boolean;
  /** Number of endpoints or slots, at least 1. */
  readonly count: number;
  /** Time that a client keeps its endpoint, in seconds; 0 for no affinity. */
  readonly affinitySeconds: number;
  /** With affinity: chooses among the node's own endpoints, and clients may stay only with those. */
  readonly local: boolean;
  /** With affinity: both lists of the Service port are used, and a client has an entry for each. */
  readonly both?: true;
  /** Serves a port range: connections keep their port. */
  readonly keepsPort?: true;
}

/** The purpose of one of our chains, read from its name. */
export type ChainRole =
  | { readonly kind: "static"; readonly name: StaticChainName }
  | { readonly kind: "balancer"; readonly balancer: Balancer }
  | { readonly kind: "firewall" }
  | { readonly kind: "ping" }
  | { readonly kind: "client-limit"; readonly limits: ClientLimits }
  | { readonly kind: "timeouts" };

/** The word in a chain's name for each scheduler: `[endpoints, slots]`. Hashes always use slots. */
const CHOICES: Readonly<Record<Scheduler, readonly [string, string]>> = {
  random: ["balance", "slots"],
  "round-robin": ["round-robin", "round-robin-slots"],
  "source-hash": ["source-hash", "source-hash"],
  "flow-hash": ["flow-hash", "flow-hash"],
};

/**
 * The name of a balancer's chain: `balance-2`, `slots-251`, `range-affinity-both-local-round-robin-3-600`.
 */
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

/** The names of the chain that enforces source ranges and of their set. @param ranges as text */
export function firewallNames(ranges: string): {
  readonly chain: FirewallName;
  readonly set: `source-ranges-${string}`;
} {
  const hash = digest(ranges);
  return { chain: `firewall-${hash}` as FirewallName, set: `source-ranges-${hash}` };
}

/** The name of the chain that answers echo requests of some clients. @param rules as text */
export function pingName(rules: string): PingName {
  return `ping-${digest(rules)}` as PingName;
}

/**
 * The name of the chain with some client limits: `client-limit-100`, `client-limit-20-second-40`,
 * `client-limit-100-20-second-40`.
 */
export function clientLimitName({ connections, rate }: ClientLimits): ClientLimitName {
  const numbers = [
    ...(connections === undefined ? [] : [connections]),
    ...(rate === undefined ? [] : [rate.amount, rate.per, rate.burst]),
  ];
  return ["client-limit", ...numbers].join("-") as ClientLimitName;
}

/** The name of the chain that assigns timeouts and of their object. @param timeouts as text */
export function timeoutsName(timeouts: string): TimeoutsName {
  return `timeouts-${digest(timeouts)}` as TimeoutsName;
}

/** Names a text by 80 bits of its SHA-256, in hexadecimal, so that no other text has the name. */
function digest(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 20);
}

const STATIC: ReadonlySet<string> = new Set(STATIC_CHAINS);
const CHOICE = "(slots|round-robin-slots|round-robin|source-hash|flow-hash)";
/** At most six digits: no list has a million endpoints. */
const NUMBER = "([1-9]\\d{0,5})";
const BALANCER = new RegExp(
  `^(range-)?(?:balance|(affinity)(-both)?(-local)?(?:-${CHOICE})?|${CHOICE})-${NUMBER}(?:-${NUMBER})?$`,
);
const CLIENT_LIMIT = new RegExp(
  `^client-limit(?=-\\d)(?:-${NUMBER})?(?:-${NUMBER}-(second|minute|hour)-${NUMBER})?$`,
);
const HASHED = /^(firewall|ping|timeouts)-[\da-f]{20}$/;

/** Reads a chain's name; undefined for a name that is not ours. */
export function parseChainName(name: string): ChainRole | undefined {
  if (STATIC.has(name)) return { kind: "static", name: name as StaticChainName };
  const [, hashed] = HASHED.exec(name) ?? [];
  if (hashed !== undefined) return { kind: hashed as "firewall" | "ping" | "timeouts" };
  const limits = parseClientLimit(name);
  if (limits !== undefined) return { kind: "client-limit", limits };
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

function parseClientLimit(name: string): ClientLimits | undefined {
  const [match, connections, amount, per, burst] = CLIENT_LIMIT.exec(name) ?? [];
  if (match === undefined) return undefined;
  return {
    ...(connections !== undefined && { connections: Number(connections) }),
    ...(per !== undefined && {
      rate: { amount: Number(amount), per: per as RateUnit, burst: Number(burst) },
    }),
  };
}

function choiceOf(word: string | undefined): Pick<Balancer, "scheduler" | "slots"> {
  if (word === undefined) return { scheduler: "random", slots: false };
  const scheduler = SCHEDULERS.find((candidate) => CHOICES[candidate].includes(word)) ?? "random";
  return { scheduler, slots: CHOICES[scheduler][1] === word };
}
