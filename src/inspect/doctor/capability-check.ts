import type { HostDiagnostic } from "./diagnostic.ts";

/** Bit of CAP_NET_ADMIN. Source: linux/capability.h. */
const NET_ADMIN = 12n;

/** Whether we may program the kernel. `status` is the text of /proc/self/status, undefined when it is not to be had. */
export function judgeCapabilities(status: string | undefined): HostDiagnostic {
  const digits = /^CapEff:\s*([\da-f]+)$/m.exec(status ?? "")?.[1];
  if (digits === undefined) {
    return { check: "capabilities", level: "warning", found: "this process's capabilities are not known" };
  }
  const effective = BigInt(`0x${digits}`);
  if ((effective >> NET_ADMIN) & 1n) return { check: "capabilities", level: "ok", found: "CAP_NET_ADMIN is there" };
  return {
    check: "capabilities",
    level: "fault",
    found: "CAP_NET_ADMIN is missing",
    means: "the kernel lets this process neither program nor list rules",
    action: "run as root, or give the container the capability NET_ADMIN and the host's network",
  };
}
