import type { Family } from "../../base/family.ts";
import type { Feature } from "../../features/seam/feature.ts";
import {
  type FeatureCheck,
  type Finding,
  fault,
  type HostFinding,
  named,
  ok,
  unlistedChains,
  warning,
} from "./finding.ts";
import type { HostFacts } from "./host-facts.ts";
import type { UsedFamilies } from "./settings-check.ts";

/** Facts about the programs, the kernel and the rights of this process. */
export interface SystemFacts
  extends Pick<HostFacts, "families" | "nft" | "hostNfts" | "kernel" | "processStatus" | "socatVersion"> {
  readonly used: UsedFamilies;
}

/**
 * Checks that the programs, the kernel and the rights of this process are sufficient for our transactions.
 */
export function judgeSystem(facts: SystemFacts): HostFinding[] {
  return [
    ...named("nft", [judgeNft(facts.nft)]),
    ...named("host-nft", judgeHostNft(facts)),
    ...named("socat", [judgeSocat(facts)]),
    ...named("kernel", [judgeKernel(facts.kernel)]),
    ...named("kernel-modules", [judgeModules(facts)]),
    ...named("capabilities", [judgeCapabilities(facts)]),
    ...named("ipv6", [judgeFamilies(facts)]),
  ];
}

function judgeNft({ path, version, problem }: HostFacts["nft"]): Finding {
  if (problem !== undefined) return fault(problem.message, "no rule can be programmed", problem.hint);
  return ok(`${path} is ${version ?? "of unknown version"} and has every feature`);
}

/** Oldest nft that can list maps declared by typeof, as ours are; 0.9.8 crashes (both tested). */
const LISTS_TYPEOF = "1.0.6";

function judgeHostNft({ nft, hostNfts }: SystemFacts): Finding[] {
  if (hostNfts === undefined) {
    const found = "unknown: a pod cannot run the host's own nft";
    const means = `before ${LISTS_TYPEOF} it may crash when it lists nft-proxy's tables, as may programs that use it`;
    return [ok(found, means, "run `nft --version` on the host if it has one")];
  }
  if (hostNfts.length === 0) return [ok("the host has no nft of its own")];
  const ours = versionNumber(nft.version ?? "") ?? "is of unknown version";
  return hostNfts.map(({ path, version }) => {
    const number = versionNumber(version);
    const found = `the nft at ${path} is ${number ?? "of unknown version"}, ours ${ours}`;
    if (number === undefined || isAtLeast(number, LISTS_TYPEOF)) return ok(found);
    return warning(
      found,
      `it may crash when it lists nft-proxy's tables, as may programs that use it: 0.9.8 does, ${LISTS_TYPEOF} does not`,
      `upgrade nftables on the host to ${LISTS_TYPEOF} or newer; until then, do not list all tables with it`,
    );
  });
}

function judgeSocat({ socatVersion }: SystemFacts): Finding {
  if (socatVersion !== undefined) return ok(`socat ${socatVersion}`);
  return fault(
    "the program socat is not installed",
    "nft-proxy reads the kernel's tables through socat, and does not start without it",
    "install socat",
  );
}

/** Oldest tested kernel: see docs/dev/kernels.md. kube-proxy's nftables mode asks for 5.13 (KEP-3866). */
const OLDEST_TRIED = "5.10";

/** First kernel that can delete a chain right after the last element that pointed to it. */
const DELETES_IMMEDIATELY = "6.2";

function judgeKernel(kernel: HostFacts["kernel"]): Finding {
  const version = kernelVersion(kernel);
  if (version === undefined) return warning("the kernel's release is unknown");
  const found = `Linux ${kernel.release}`;
  if (!isAtLeast(version, OLDEST_TRIED)) {
    const means = `kernels before ${OLDEST_TRIED} are untested`;
    return warning(found, means, "upgrade the kernel, or watch this node closely");
  }
  if (kernel.isBigEndian)
    return warning(
      `${found} on a big-endian machine`,
      "big-endian machines are untested; explain may name another endpoint for source-hash and flow-hash",
      "watch this node closely",
    );
  if (isAtLeast(version, DELETES_IMMEDIATELY)) return ok(found);
  const means = `before ${DELETES_IMMEDIATELY}, stale chains are deleted a moment later, without any effect`;
  return ok(found, means);
}

/** Build options that must be set, by the families that need them. */
const BUILD_OPTIONS: Readonly<Record<Family | "all", readonly string[]>> = {
  all: [
    "NF_TABLES",
    "NF_CONNTRACK",
    "NF_CT_NETLINK",
    "NFT_CT",
    "NFT_NAT",
    "NFT_MASQ",
    "NFT_NUMGEN",
    "NFT_REJECT",
  ],
  ip: ["NFT_FIB_IPV4"],
  ip6: ["NFT_FIB_IPV6"],
};

function judgeModules({ kernel: { config }, families, nft }: SystemFacts): Finding {
  if (config === undefined)
    return ok("cannot read the kernel's build configuration", "relying on nft's probe");
  const needed = (["all", ...families] as const).flatMap((family) => BUILD_OPTIONS[family]);
  const missing = needed.filter((symbol) => !new RegExp(`^CONFIG_${symbol}=[ym]$`, "m").test(config));
  if (missing.length === 0) return ok(`all ${needed.length} needed are built in or modules`);
  const found = `built without ${missing.map((symbol) => `CONFIG_${symbol}`).join(", ")}`;
  const action = "use a kernel that has it, built in or as a module";
  if (nft.problem !== undefined) return fault(found, "rules that need it are refused", action);
  // Options are renamed and merged between kernels, so a successful probe is trusted more.
  const means =
    "nft's probe found every feature anyway; features that it does not probe, such as listing connections, may fail";
  return warning(found, means, action);
}

/** Bit of CAP_NET_ADMIN. Source: linux/capability.h. */
const NET_ADMIN = 12n;

function judgeCapabilities({ processStatus = "" }: SystemFacts): Finding {
  const effective = /^CapEff:\s*([\da-f]+)$/m.exec(processStatus)?.[1];
  if (effective === undefined) return warning("this process's capabilities are unknown");
  if ((BigInt(`0x${effective}`) >> NET_ADMIN) & 1n) return ok("this process has CAP_NET_ADMIN");
  return fault(
    "this process lacks CAP_NET_ADMIN",
    "it can neither program nor list rules",
    "run as root, or in a container with the capability NET_ADMIN and the host's network",
  );
}

function judgeFamilies({ families, used }: SystemFacts): Finding {
  if (families.includes("ip6")) return ok("this kernel has IPv4 and IPv6");
  if (used?.includes("ip6"))
    return fault(
      "this kernel has no IPv6, but the cluster has it, by its clusterCIDR",
      "IPv6 addresses of Services are not served on this node",
      "enable IPv6 (module ipv6, no ipv6.disable=1 on the kernel's command line), then restart nft-proxy",
    );
  const means = "IPv6 addresses of Services are not served; a cluster without IPv6 needs nothing else";
  return ok("this kernel has no IPv6", means);
}

/** Warns of faults of this kernel that matter to features, and judges the host's chains for them. */
export function judgeFeatures(
  { kernel, chains }: Pick<HostFacts, "kernel" | "chains">,
  features: readonly Pick<Feature, "name" | "kernelFault" | "chainCheck">[],
): HostFinding[] {
  const version = kernelVersion(kernel) ?? "";
  return features.flatMap(({ name, kernelFault, chainCheck }) => {
    const findings: Finding[] = [];
    if (kernelFault !== undefined && !isAtLeast(version, kernelFault.before)) {
      const { before, means, action } = kernelFault;
      const found = `Linux ${kernel.release}, and the feature ${name}`;
      findings.push(warning(found, `kernels before ${before} ${means}`, action));
    }
    if (chainCheck !== undefined)
      findings.push(chains === undefined ? unlistedChains(chainCheck.unlisted) : chainCheck.judge(chains));
    return named(name as FeatureCheck, findings);
  });
}

function kernelVersion({ release }: HostFacts["kernel"]): string | undefined {
  return /^\d+\.\d+/.exec(release ?? "")?.[0];
}

function versionNumber(version: string): string | undefined {
  return /\bv?(\d+\.\d+(?:\.\d+)*)/.exec(version)?.[1];
}

/** Whether a version of numbers and dots is at least `least`. Numbers that it lacks count as 0. */
export function isAtLeast(version: string, least: string): boolean {
  return `${version}.0.0`.localeCompare(least, "en", { numeric: true }) >= 0;
}
