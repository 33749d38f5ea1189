import { counted, listText } from "../../base/text.ts";
import type { ChainCheck } from "../seam/feature.ts";

/** Hooks that packets of an offloaded connection do not pass. The ingress hook runs before ours. */
const PASSED_HOOKS: ReadonlySet<string> = new Set(["prerouting", "forward", "postrouting"]);

/**
 * Tables that are not affected: those of service proxies, and of families that do not see forwarded IP
 * packets.
 */
const UNAFFECTED = /^ip6? (?:nft-proxy|kube-proxy)$|^(?:arp|bridge|netdev) /;

const NO_CHAINS = "nft and this kernel have flow tables, and no base chain of other software misses packets";

/** Finds the chains of other software that miss packets. */
export const chainCheck: ChainCheck = {
  unlisted: "chains of other software that miss packets on the fast path are not reported",
  judge: (chains) => {
    const names = chains.flatMap(({ table, name, base }) => {
      const isPassed = base !== undefined && PASSED_HOOKS.has(base.hook) && !UNAFFECTED.test(table);
      return isPassed ? [`${table} ${name} (${base.hook})`] : [];
    });
    if (names.length === 0) return { level: "ok", found: NO_CHAINS };
    const subject = `${counted(names.length, "base chain")} of other software ${names.length === 1 ? "misses" : "miss"}`;
    return {
      level: "warning",
      found: `${subject} packets on the fast path: ${listText(names)}`,
      means:
        "they only see the first packets of a connection to a Service: rules for each packet (rates, quotas, marks, counters, policies for established connections) do not apply to later ones",
      action:
        "if that matters, leave --fast-path off, or select other interfaces with --fast-path-interfaces",
    };
  },
};
