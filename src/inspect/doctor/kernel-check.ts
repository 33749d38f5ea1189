import type { Family } from "../../base/family.ts";
import type { HostDiagnostic } from "./diagnostic.ts";
import { isAtLeast } from "./nft-check.ts";

/** The kernel's release and build configuration. */
export interface KernelFact {
  /** /proc/sys/kernel/osrelease, such as `6.12.48+deb13-amd64`; undefined when it is not to be had. */
  readonly release: string | undefined;
  /** The text of its build configuration; undefined when it is not to be had. */
  readonly config: string | undefined;
}

/** See docs/kernels.md. kube-proxy's nftables mode asks for 5.13 (KEP-3866). */
const OLDEST_TRIED = "5.10";

/** The first kernel that deletes a chain right after the last element that pointed to it. */
const DELETES_AT_ONCE = "6.2";

/** The build options that must be set, and the family that needs them if it is only one. */
const NEEDED: readonly { readonly symbol: string; readonly family?: Family }[] = [
  { symbol: "NF_TABLES" },
  { symbol: "NF_CONNTRACK" },
  { symbol: "NF_CT_NETLINK" },
  { symbol: "NFT_CT" },
  { symbol: "NFT_NAT" },
  { symbol: "NFT_MASQ" },
  { symbol: "NFT_NUMGEN" },
  { symbol: "NFT_REJECT" },
  { symbol: "NFT_FIB_IPV4", family: "ip" },
  { symbol: "NFT_FIB_IPV6", family: "ip6" },
];

/** Whether the kernel is new enough. */
export function judgeKernel({ release }: KernelFact): HostDiagnostic {
  const version = /^\d+\.\d+/.exec(release ?? "")?.[0];
  if (version === undefined) return { check: "kernel", level: "warning", found: "the kernel's release is not known" };
  const found = `Linux ${release}`;
  if (!isAtLeast(version, OLDEST_TRIED)) {
    return {
      check: "kernel",
      level: "warning",
      found,
      means: `nothing before ${OLDEST_TRIED} was ever tried`,
      action: "upgrade the kernel, or watch this node closely",
    };
  }
  if (isAtLeast(version, DELETES_AT_ONCE)) return { check: "kernel", level: "ok", found };
  const means = `before ${DELETES_AT_ONCE}, chains that fell out of use are removed a moment later; nothing waits for it`;
  return { check: "kernel", level: "ok", found, means };
}

/**
 * Whether the kernel was built with what our rules need, as far as it tells. Options are renamed and merged from one kernel
 * to the next: a probe that finds every feature is to be believed.
 * @param isProbed nft's probe found every feature
 */
export function judgeModules({ config }: KernelFact, families: readonly Family[], isProbed: boolean): HostDiagnostic {
  if (config === undefined) {
    return {
      check: "kernel-modules",
      level: "ok",
      found: "the kernel's build configuration is unreadable",
      means: "relying on nft's probe",
    };
  }
  const needed = NEEDED.filter(({ family }) => family === undefined || families.includes(family));
  const missing = needed.filter(({ symbol }) => !new RegExp(`^CONFIG_${symbol}=[ym]$`, "m").test(config));
  if (missing.length === 0) {
    return { check: "kernel-modules", level: "ok", found: `all ${needed.length} needed are built in or modules` };
  }
  const found = `built without ${missing.map(({ symbol }) => `CONFIG_${symbol}`).join(", ")}`;
  const action = "use a kernel that has it, built in or as a module";
  if (isProbed) {
    const means = "nft found every feature all the same; what it does not try, such as to list connections, may fail";
    return { check: "kernel-modules", level: "warning", found, means, action };
  }
  return { check: "kernel-modules", level: "fault", found, means: "rules that need it are refused", action };
}
