import type { Family } from "../../base/family.ts";
import type { ProxyOptions } from "../../config/options.ts";
import type { HostDiagnostic } from "./diagnostic.ts";

/** Which families can be served. */
export function judgeFamilies(families: readonly Family[]): HostDiagnostic {
  if (families.includes("ip6")) return { check: "ipv6", level: "ok", found: "this kernel has IPv4 and IPv6" };
  return {
    check: "ipv6",
    level: "ok",
    found: "this kernel has no IPv6",
    means: "IPv6 addresses of Services are not served; nothing else is missing in a cluster without IPv6",
  };
}

/** Whether flows can be cleared. `version` is what `conntrack --version` printed, undefined when it does not run. */
export function judgeConntrackTool(version: string | undefined): HostDiagnostic {
  if (version !== undefined) return { check: "conntrack-tool", level: "ok", found: version };
  return {
    check: "conntrack-tool",
    level: "warning",
    found: "there is no program conntrack",
    means: "UDP clients that keep sending stay on an endpoint that is gone until their flow times out",
    action: "install conntrack (conntrack-tools)",
  };
}

/** Whether traffic of pods can be told from other traffic, by the mode that the options choose. */
export function judgeClusterCidr({
  detectLocal,
  clusterCIDRs,
}: Pick<ProxyOptions, "detectLocal" | "clusterCIDRs">): HostDiagnostic[] {
  if (detectLocal.kind !== "cluster-cidr") return [];
  const cidrs = Object.values(clusterCIDRs).flat();
  if (cidrs.length > 0)
    return [{ check: "cluster-cidr", level: "ok", found: `pods are detected by ${cidrs.join(", ")}` }];
  return [
    {
      check: "cluster-cidr",
      level: "warning",
      found: "detect-local-mode is ClusterCIDR, and there is no cluster CIDR",
      means:
        "traffic of pods cannot be told from other traffic: none to cluster IPs is masqueraded, and pods get no short cut to external addresses",
      action: "set clusterCIDR (--cluster-cidr) to the pods' CIDRs, or choose another detect-local-mode",
    },
  ];
}
