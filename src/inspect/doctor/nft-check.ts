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

/** The oldest nft that lists maps declared by typeof, as nft-proxy declares them; 0.9.8 crashes (both tried). */
const LISTS_TYPEOF = "1.0.6";

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

/** Whether the host's own nft can list nft-proxy's tables. `hosts` is undefined in a pod, which does not see it. */
export function judgeHostNfts(ours: string | undefined, hosts: readonly HostNftFact[] | undefined): HostDiagnostic[] {
  if (hosts === undefined) {
    return [
      {
        check: "host-nft",
        level: "ok",
        found: "unknown: a pod does not see the host's own nft",
        means: `before ${LISTS_TYPEOF} it may crash when it lists nft-proxy's tables, and all that runs it with it`,
        action: "where the host has one, run `nft --version` on the host",
      },
    ];
  }
  if (hosts.length === 0) return [{ check: "host-nft", level: "ok", found: "the host has no nft of its own" }];
  return hosts.map(({ path, version }) => judgeHostNft(numberOf(ours ?? ""), numberOf(version), path));
}

function judgeHostNft(ours: string | undefined, host: string | undefined, path: string): HostDiagnostic {
  const found = `the nft at ${path} is ${host ?? "of unknown version"}, ours ${ours ?? "is of unknown version"}`;
  if (host === undefined || isAtLeast(host, LISTS_TYPEOF)) return { check: "host-nft", level: "ok", found };
  return {
    check: "host-nft",
    level: "warning",
    found,
    means: `it may crash when it lists nft-proxy's tables, and all that runs it with it: 0.9.8 does, ${LISTS_TYPEOF} does not`,
    action: `upgrade nftables on the host to ${LISTS_TYPEOF} or newer; until then, let no program list all tables with it`,
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
