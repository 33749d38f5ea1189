import type { Family } from "../../base/family.ts";
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
