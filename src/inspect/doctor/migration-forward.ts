import { diagnostic, type HostDiagnostic } from "./diagnostic.ts";
import type { ForeignChain } from "./foreign-chain.ts";

/** The tables of iptables and ip6tables that have FORWARD, with the program that changes each. */
const PROGRAMS: Readonly<Record<string, string>> = { "ip filter": "iptables", "ip6 filter": "ip6tables" };

/**
 * What nobody accepts any more when kube-proxy's rules are gone: its iptables and ipvs modes accept what they masquerade,
 * and established connections, in a chain of FORWARD. Docker and ufw make that drop by default.
 */
export function forwardChanges(chains: readonly ForeignChain[] | undefined = []): HostDiagnostic[] {
  return Object.entries(PROGRAMS).flatMap(([table, program]) => {
    const ofTable = chains.filter((chain) => chain.table === table);
    const drops = ofTable.some(({ base }) => base?.hook === "forward" && base.policy === "drop");
    if (!drops || !ofTable.some(({ name }) => name === "KUBE-FORWARD")) return [];
    return [
      diagnostic(
        "migration-forward",
        "warning",
        `the hook forward of table ${table} drops by default, and kube-proxy's chain KUBE-FORWARD accepts Services' connections there`,
        "once kube-proxy's rules are gone, these are dropped unless other rules, such as the CNI plugin's, accept them",
        `let it accept them: ${program} -A FORWARD -m conntrack --ctstate DNAT,RELATED,ESTABLISHED -j ACCEPT`,
      ),
    ];
  });
}
