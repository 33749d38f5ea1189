import type { Branded } from "../base/text.ts";
import type { Protocol } from "../model/ids.ts";
import { SCHEDULERS, type Scheduler } from "../model/scheduler.ts";
import type { ServicePort } from "../model/service-port.ts";
import type { FrontendKind } from "./sets.ts";

/** The chains that are there whatever the Services are; hooked ones have kube-proxy's names. */
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
  "mark-for-masquerade",
  "external-local",
  "nodeport-external-local",
  "nodeports",
  "reject-chain",
  "drop-chain",
  "service-endpoints-check",
  "nodeport-endpoints-check",
  "firewall-check",
  "vanished-endpoints-check",
  "cluster-ips-check",
  "masquerading",
] as const;

/** The name of a chain that does not depend on Services. */
export type StaticChainName = (typeof STATIC_CHAINS)[number];

/** Chains that verdicts of map elements lead to, and the one that masquerades what they marked. */
export const REJECT_CHAIN = "reject-chain" satisfies StaticChainName;
export const DROP_CHAIN = "drop-chain" satisfies StaticChainName;
export const MARK_FOR_MASQUERADE = "mark-for-masquerade" satisfies StaticChainName;
export const MASQUERADING = "masquerading" satisfies StaticChainName;
export const EXTERNAL_LOCAL = {
  service: "external-local",
  nodeport: "nodeport-external-local",
} as const satisfies Record<FrontendKind, StaticChainName>;

/** The chain that refuses what is left for cluster IPs. */
export const CLUSTER_IPS_CHECK = "cluster-ips-check" satisfies StaticChainName;

/** The name of a chain that chooses an endpoint: see {@link balancerName}. */
export type BalancerName = Branded<"BalancerName">;

/** The name of a chain that drops what does not come from the source ranges: see {@link firewallName}. */
export type FirewallName = Branded<"FirewallName">;

/** The name of a chain of ours. */
export type ChainName = StaticChainName | BalancerName | FirewallName;

/** A way of choosing among endpoints, shared by all frontends that choose alike among as many. */
export interface Balancer {
  readonly kind: FrontendKind;
  readonly scheduler: Scheduler;
  /** The choice is among slots, which endpoints share by weight and hash: see slot-table.ts. */
  readonly slots: boolean;
  /** The list for short-cut traffic of a Local frontend, beside its local one. */
  readonly shortcut: boolean;
  /** How many endpoints or slots, 1 or more. */
  readonly count: number;
  /** Seconds for which a client keeps its endpoint, 0 for no affinity. */
  readonly affinitySeconds: number;
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

/** The name of a balancer's chain: `balance-2`, `slots-251`, `nodeport-affinity-round-robin-cluster-3-600`. */
export function balancerName({ kind, scheduler, slots, shortcut, count, affinitySeconds }: Balancer): BalancerName {
  const prefix = kind === "nodeport" ? "nodeport-" : "";
  const list = shortcut ? "cluster-" : "";
  const choice = CHOICES[scheduler][slots ? 1 : 0];
  if (affinitySeconds === 0) return `${prefix}${choice}-${list}${count}` as BalancerName;
  const sticky = choice === "balance" ? "affinity" : `affinity-${choice}`;
  return `${prefix}${sticky}-${list}${count}-${affinitySeconds}` as BalancerName;
}

/** The name of the chain that guards a service port: `firewall-shop/cart/tcp/http`. */
export function firewallName({ service, spec }: Pick<ServicePort, "service" | "spec">): FirewallName {
  return `firewall-${service.name}/${spec.protocol}/${spec.name}` as FirewallName;
}

const STATIC: ReadonlySet<string> = new Set(STATIC_CHAINS);
const CHOICE = "(slots|round-robin-slots|round-robin|source-hash|flow-hash)";
const BALANCER = new RegExp(
  `^(nodeport-)?(?:balance|(affinity)(?:-${CHOICE})?|${CHOICE})-(cluster-)?([1-9]\\d*)(?:-([1-9]\\d*))?$`,
);
const PROTOCOLS: readonly Protocol[] = ["tcp", "udp", "sctp"];
const FIREWALL = new RegExp(`^firewall-[^/]+/[^/]+/(?:${PROTOCOLS.join("|")})/[^/]*$`);

/** Reads a chain's name; undefined for one that we never give. */
export function parseChainName(name: string): ChainRole | undefined {
  if (STATIC.has(name)) return { kind: "static", name: name as StaticChainName };
  if (FIREWALL.test(name)) return { kind: "firewall" };
  const [match, nodePort, affinity, sticky, plain, cluster, count, seconds] = BALANCER.exec(name) ?? [];
  if (match === undefined || (affinity === undefined) !== (seconds === undefined)) return undefined;
  return {
    kind: "balancer",
    balancer: {
      kind: nodePort === undefined ? "service" : "nodeport",
      ...choiceOf(sticky ?? plain),
      shortcut: cluster !== undefined,
      count: Number(count),
      affinitySeconds: Number(seconds ?? 0),
    },
  };
}

function choiceOf(word: string | undefined): Pick<Balancer, "scheduler" | "slots"> {
  if (word === undefined) return { scheduler: "random", slots: false };
  const scheduler = SCHEDULERS.find((candidate) => CHOICES[candidate].includes(word)) ?? "random";
  return { scheduler, slots: CHOICES[scheduler][1] === word };
}
