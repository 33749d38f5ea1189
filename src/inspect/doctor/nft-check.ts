import type { HostDiagnostic } from "./diagnostic.ts";

/** The result of probing nft for the features that our transactions need. */
export interface NftFact {
  /** As it is configured: a path or a name. */
  readonly path: string;
  /** The line of `nft --version`; undefined when it did not print one. */
  readonly version: string | undefined;
  /** Why it cannot be used; undefined when it can. */
  readonly problem?: { readonly message: string; readonly hint: string | undefined };
}

/** An nft of the host that may be another than ours. */
export interface HostNftFact {
  readonly path: string;
  /** The line of `nft --version`. */
  readonly version: string;
}

/** The first nft whose maps carry a description that older ones cannot read (Kubernetes issue 136786). */
const DESCRIBED_MAPS = "1.1.2";

/** Whether nft and the kernel can do what our transactions need. */
export function judgeNft({ path, version, problem }: NftFact): HostDiagnostic {
  if (problem === undefined) {
    return { check: "nft", level: "ok", found: `${path} is ${version ?? "of no known version"} and has every feature` };
  }
  return {
    check: "nft",
    level: "fault",
    found: problem.message,
    means: "no rule can be programmed",
    ...(problem.hint === undefined ? {} : { action: problem.hint }),
  };
}

/** Whether our nft and the host's can read what the other made. */
export function judgeHostNfts(ours: string | undefined, hosts: readonly HostNftFact[]): HostDiagnostic[] {
  if (hosts.length === 0) return [{ check: "host-nft", level: "ok", found: "no nft of the host's own is in sight" }];
  return hosts.map(({ path, version }) => judgeHostNft(numberOf(ours ?? ""), numberOf(version), path));
}

function judgeHostNft(ours: string | undefined, host: string | undefined, path: string): HostDiagnostic {
  const found = `the nft at ${path} is ${host ?? "of no known version"}, ours ${ours ?? "of none"}`;
  if (ours === undefined || host === undefined) return { check: "host-nft", level: "ok", found };
  const [oursDescribes, hostDescribes] = [isAtLeast(ours, DESCRIBED_MAPS), isAtLeast(host, DESCRIBED_MAPS)];
  if (oursDescribes === hostDescribes) return { check: "host-nft", level: "ok", found };
  const crashing = oursDescribes ? "the host's" : "our";
  return {
    check: "host-nft",
    level: "warning",
    found,
    means: `${crashing} nft may crash when it lists maps that the other made (nft ${DESCRIBED_MAPS} changed their description; Kubernetes issue 136786)`,
    action: oursDescribes
      ? "upgrade nftables on the host, or run the host's own through --nft-path, or do without `nft list` there"
      : `use nft ${DESCRIBED_MAPS} or newer for ours, too`,
  };
}

function numberOf(version: string): string | undefined {
  return /\bv?(\d+\.\d+(?:\.\d+)*)/.exec(version)?.[1];
}

/** Whether a version of numbers and dots is `least` or newer. */
export function isAtLeast(version: string, least: string): boolean {
  const [has, needs] = [version, least].map((text) => text.split(".").map(Number));
  for (const [index, number] of (needs ?? []).entries()) {
    const other = has?.[index] ?? 0;
    if (other !== number) return other > number;
  }
  return true;
}
