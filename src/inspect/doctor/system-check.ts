import type { Family } from "../../base/family.ts";
import type { Feature } from "../../features/seam/feature.ts";
import { type FeatureCheck, type HostFinding, judge, type Row, UNLISTED_CHAINS } from "./finding.ts";
import type { HostFacts, HostNft } from "./host-facts.ts";
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
  const ours = versionNumber(facts.nft.version ?? "");
  const hosts = facts.hostNfts ?? [];
  return [
    ...judge(NFT_ROWS, facts),
    ...hosts.flatMap((host) => judge(HOST_NFT_ROWS, { ...host, ours, number: versionNumber(host.version) })),
    ...judge(SOCAT_ROWS, facts),
    ...judge(KERNEL_ROWS, facts),
  ];
}

/** Oldest nft that can list maps declared by typeof, as ours are; 0.9.8 crashes (both tested). */
const LISTS_TYPEOF = "1.0.6";

const NFT_ROWS: readonly Row<SystemFacts>[] = [
  {
    check: "nft",
    level: "ok",
    when: ({ nft }) => nft.problem === undefined,
    found: ({ nft }) => `${nft.path} is ${nft.version ?? "of unknown version"} and has every feature`,
  },
  {
    check: "nft",
    level: "fault",
    found: ({ nft }) => nft.problem?.message,
    means: "no rule can be programmed",
    action: ({ nft }) => nft.problem?.hint,
  },
  {
    check: "host-nft",
    level: "ok",
    when: ({ hostNfts }) => hostNfts === undefined,
    found: "unknown: a pod cannot run the host's own nft",
    means: `before ${LISTS_TYPEOF} it may crash when it lists nft-proxy's tables, as may programs that use it`,
    action: "run `nft --version` on the host if it has one",
  },
  {
    check: "host-nft",
    level: "ok",
    when: ({ hostNfts }) => hostNfts?.length === 0,
    found: "the host has no nft of its own",
  },
];

interface ComparedNft extends HostNft {
  /** Numbers and dots; undefined if unknown. */
  readonly ours: string | undefined;
  readonly number: string | undefined;
}

const nftText = ({ path, number, ours }: ComparedNft) =>
  `the nft at ${path} is ${number ?? "of unknown version"}, ours ${ours ?? "is of unknown version"}`;

const HOST_NFT_ROWS: readonly Row<ComparedNft>[] = [
  {
    check: "host-nft",
    level: "ok",
    when: ({ number }) => number === undefined || isAtLeast(number, LISTS_TYPEOF),
    found: nftText,
  },
  {
    check: "host-nft",
    level: "warning",
    found: nftText,
    means: `it may crash when it lists nft-proxy's tables, as may programs that use it: 0.9.8 does, ${LISTS_TYPEOF} does not`,
    action: `upgrade nftables on the host to ${LISTS_TYPEOF} or newer; until then, do not list all tables with it`,
  },
];

const SOCAT_ROWS: readonly Row<SystemFacts>[] = [
  {
    check: "socat",
    level: "ok",
    when: ({ socatVersion }) => socatVersion !== undefined,
    found: ({ socatVersion }) => `socat ${socatVersion}`,
  },
  {
    check: "socat",
    level: "fault",
    found: "the program socat is not installed",
    means: "nft-proxy reads the kernel's tables through socat, and does not start without it",
    action: "install socat",
  },
];

/** Oldest tested kernel: see docs/dev/kernels.md. kube-proxy's nftables mode asks for 5.13 (KEP-3866). */
const OLDEST_TRIED = "5.10";

/** First kernel that can delete a chain right after the last element that pointed to it. */
const DELETES_IMMEDIATELY = "6.2";

/** Build options that must be set, with the family if only one needs it. */
const BUILD_OPTIONS: readonly { readonly symbol: string; readonly family?: Family }[] = [
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

/** Bit of CAP_NET_ADMIN. Source: linux/capability.h. */
const NET_ADMIN = 12n;

const BUILD_ACTION = "use a kernel that has it, built in or as a module";

const KERNEL_ROWS: readonly Row<SystemFacts>[] = [
  {
    check: "kernel",
    level: "warning",
    when: ({ kernel }) => kernelVersion(kernel) === undefined,
    found: "the kernel's release is unknown",
  },
  {
    check: "kernel",
    level: "warning",
    when: ({ kernel }) => !isAtLeast(kernelVersion(kernel) ?? "", OLDEST_TRIED),
    found: ({ kernel }) => `Linux ${kernel.release}`,
    means: `kernels before ${OLDEST_TRIED} are untested`,
    action: "upgrade the kernel, or watch this node closely",
  },
  {
    check: "kernel",
    level: "warning",
    when: ({ kernel }) => kernel.isBigEndian,
    found: ({ kernel }) => `Linux ${kernel.release} on a big-endian machine`,
    means:
      "big-endian machines are untested; explain may name another endpoint for source-hash and flow-hash",
    action: "watch this node closely",
  },
  {
    check: "kernel",
    level: "ok",
    found: ({ kernel }) => `Linux ${kernel.release}`,
    means: ({ kernel }) =>
      isAtLeast(kernelVersion(kernel) ?? "", DELETES_IMMEDIATELY)
        ? undefined
        : `before ${DELETES_IMMEDIATELY}, stale chains are deleted a moment later, without any effect`,
  },
  {
    check: "kernel-modules",
    level: "ok",
    when: ({ kernel }) => kernel.config === undefined,
    found: "cannot read the kernel's build configuration",
    means: "relying on nft's probe",
  },
  {
    check: "kernel-modules",
    level: "ok",
    when: (facts) => missingOptions(facts).length === 0,
    found: ({ families }) => `all ${neededOptions(families).length} needed are built in or modules`,
  },
  {
    // Options are renamed and merged between kernels, so a successful probe is trusted more.
    check: "kernel-modules",
    level: "warning",
    when: ({ nft }) => nft.problem === undefined,
    found: (facts) => `built without ${missingOptions(facts).join(", ")}`,
    means:
      "nft's probe found every feature anyway; features that it does not probe, such as listing connections, may fail",
    action: BUILD_ACTION,
  },
  {
    check: "kernel-modules",
    level: "fault",
    found: (facts) => `built without ${missingOptions(facts).join(", ")}`,
    means: "rules that need it are refused",
    action: BUILD_ACTION,
  },
  {
    check: "capabilities",
    level: "warning",
    when: ({ processStatus }) => effectiveCapabilities(processStatus) === undefined,
    found: "this process's capabilities are unknown",
  },
  {
    check: "capabilities",
    level: "ok",
    when: ({ processStatus }) => (((effectiveCapabilities(processStatus) ?? 0n) >> NET_ADMIN) & 1n) === 1n,
    found: "this process has CAP_NET_ADMIN",
  },
  {
    check: "capabilities",
    level: "fault",
    found: "this process lacks CAP_NET_ADMIN",
    means: "it can neither program nor list rules",
    action: "run as root, or in a container with the capability NET_ADMIN and the host's network",
  },
  {
    check: "ipv6",
    level: "ok",
    when: ({ families }) => families.includes("ip6"),
    found: "this kernel has IPv4 and IPv6",
  },
  {
    check: "ipv6",
    level: "fault",
    when: ({ used }) => used?.includes("ip6") === true,
    found: "this kernel has no IPv6, but the cluster has it, by its clusterCIDR",
    means: "IPv6 addresses of Services are not served on this node",
    action:
      "enable IPv6 (module ipv6, no ipv6.disable=1 on the kernel's command line), then restart nft-proxy",
  },
  {
    check: "ipv6",
    level: "ok",
    found: "this kernel has no IPv6",
    means: "IPv6 addresses of Services are not served; a cluster without IPv6 needs nothing else",
  },
];

/** Warns of faults of this kernel that matter to features, and judges the host's chains for them. */
export function judgeFeatures(
  { kernel, chains }: Pick<HostFacts, "kernel" | "chains">,
  features: readonly Pick<Feature, "name" | "kernelFault" | "chainCheck">[],
): HostFinding[] {
  const version = kernelVersion(kernel) ?? "";
  return features.flatMap(({ name, kernelFault, chainCheck }) => {
    const check = name as FeatureCheck;
    const findings: HostFinding[] = [];
    if (kernelFault !== undefined && !isAtLeast(version, kernelFault.before)) {
      const { before, means, action } = kernelFault;
      const found = `Linux ${kernel.release}, and the feature ${name}`;
      findings.push({ check, level: "warning", found, means: `kernels before ${before} ${means}`, action });
    }
    if (chainCheck !== undefined && chains !== undefined)
      findings.push({ check, ...chainCheck.judge(chains) });
    else if (chainCheck !== undefined)
      findings.push(...judge([{ ...UNLISTED_CHAINS, check, means: chainCheck.unlisted }], { chains }));
    return findings;
  });
}

function kernelVersion({ release }: HostFacts["kernel"]): string | undefined {
  return /^\d+\.\d+/.exec(release ?? "")?.[0];
}

function neededOptions(families: readonly Family[]) {
  return BUILD_OPTIONS.filter(({ family }) => family === undefined || families.includes(family));
}

/**
 * Returns build options that the kernel lacks, such as `CONFIG_NFT_NAT`; none if its configuration is
 * unknown.
 */
function missingOptions({ kernel, families }: Pick<HostFacts, "kernel" | "families">): string[] {
  return neededOptions(families)
    .map(({ symbol }) => `CONFIG_${symbol}`)
    .filter((option) => !new RegExp(`^${option}=[ym]$`, "m").test(kernel.config ?? ""));
}

/** Parses the effective capabilities in the text of /proc/self/status. */
function effectiveCapabilities(status: string | undefined): bigint | undefined {
  const digits = /^CapEff:\s*([\da-f]+)$/m.exec(status ?? "")?.[1];
  return digits === undefined ? undefined : BigInt(`0x${digits}`);
}

function versionNumber(version: string): string | undefined {
  return /\bv?(\d+\.\d+(?:\.\d+)*)/.exec(version)?.[1];
}

/** Whether a version of numbers and dots is at least `least`. */
export function isAtLeast(version: string, least: string): boolean {
  const [has, needs] = [version, least].map((text) => text.split(".").map(Number));
  for (const [index, number] of (needs ?? []).entries()) {
    const other = has?.[index] ?? 0;
    if (other !== number) return other > number;
  }
  return true;
}
