import { counted, listText } from "../../base/text.ts";
import { type HostFinding, judge, type Row, UNLISTED_CHAINS } from "./finding.ts";
import type { ForeignChain, HostFacts } from "./host-facts.ts";

/** Hooks that packets of an offloaded connection do not pass. The ingress hook runs before ours. */
const PASSED_HOOKS: ReadonlySet<string> = new Set(["prerouting", "forward", "postrouting"]);

/**
 * Tables that are not affected: those of service proxies, and of families that do not see forwarded IP
 * packets.
 */
const UNAFFECTED = /^ip6? (?:nft-proxy|kube-proxy)$|^(?:arp|bridge|netdev) /;

const ROWS: readonly Row<Pick<HostFacts, "chains">>[] = [
  {
    ...UNLISTED_CHAINS,
    check: "fast-path",
    means: "chains of other software that miss packets on the fast path are not reported",
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
      "they only see the first packets of a connection to a Service: rules for each packet (rates, quotas, marks, counters, policies for established connections) do not apply to later ones",
    action: "if that matters, leave --fast-path off, or select other interfaces with --fast-path-interfaces",
  },
  {
    check: "fast-path",
    level: "ok",
    found: "nft and this kernel have flow tables, and no base chain of other software misses packets",
  },
];

/** Finds the chains of other software that miss packets. For a host that has flow tables. */
export function judgeFastPath(chains: HostFacts["chains"]): HostFinding[] {
  return judge(ROWS, { chains });
}

function isPassed({ table, base }: ForeignChain): boolean {
  return base !== undefined && PASSED_HOOKS.has(base.hook) && !UNAFFECTED.test(table);
}
