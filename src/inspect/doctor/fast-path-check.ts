import { counted, listText } from "../../base/text.ts";
import { type HostFinding, judge, type Row } from "./finding.ts";
import type { ForeignChain, HostFacts } from "./host-facts.ts";

/** What is known where the fast path is asked for. */
export interface FastPathFacts extends Pick<HostFacts, "chains"> {
  /** What nft or the kernel lack for it; undefined for nothing. */
  readonly missing: { readonly message: string; readonly hint?: string | undefined } | undefined;
}

/** The hooks that packets of an offloaded connection do not come to. Those of the ingress hook come before ours. */
const PASSED_HOOKS: ReadonlySet<string> = new Set(["prerouting", "forward", "postrouting"]);

/** Service proxies; bridges, and ARP, have nothing to do with what the node forwards. */
const UNCONCERNED = /^ip6? (?:nft-proxy|kube-proxy)$|^(?:arp|bridge|netdev) /;

const ROWS: readonly Row<FastPathFacts>[] = [
  {
    check: "fast-path",
    level: "warning",
    when: ({ missing }) => missing !== undefined,
    found: ({ missing }) => missing?.message,
    means: "the daemon works as without --fast-path",
    action: ({ missing }) => missing?.hint,
  },
  {
    check: "fast-path",
    level: "warning",
    when: ({ chains }) => chains === undefined,
    found: "unknown: the chains of this host could not be listed",
    means: "those of other software that miss packets on the fast path would not be seen",
    action: "see nft above; it needs root or CAP_NET_ADMIN in the node's network namespace",
  },
  {
    check: "fast-path",
    level: "warning",
    when: ({ chains = [] }) => chains.some(isPassed),
    found: ({ chains = [] }) => {
      const names = chains
        .filter(isPassed)
        .map(({ table, name, base }) => `${table} ${name} (${base?.hook})`);
      return `${counted(names.length, "base chain")} of other software ${names.length === 1 ? "misses" : "miss"} packets on the fast path: ${listText(names)}`;
    },
    means:
      "they see the first packets of a connection to a Service alone: what they decide by each packet (rates, quotas, marks, counters, policies for established connections) does not hold for the others",
    action:
      "leave --fast-path off if that matters, or name interfaces with --fast-path-interfaces for which it does not",
  },
  {
    check: "fast-path",
    level: "ok",
    found: "nft and this kernel have flow tables, and no base chain of others misses packets",
  },
];

/** Whether the fast path can be used, and what it keeps from other software. */
export function judgeFastPath(facts: FastPathFacts): HostFinding[] {
  return judge(ROWS, facts);
}

function isPassed({ table, base }: ForeignChain): boolean {
  return base !== undefined && PASSED_HOOKS.has(base.hook) && !UNCONCERNED.test(table);
}
