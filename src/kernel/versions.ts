import { messageOf } from "../base/errors.ts";
import { hostFiles } from "./host.ts";
import type { Nft } from "./nft.ts";
import { nftVersion } from "./nft-listings.ts";
import { type RunProcess, runProcess } from "./process.ts";

/** The versions of the kernel and the programs that nft-proxy uses. */
export interface HostVersions {
  /** As nft prints it: `nftables v1.1.3 (Commodore Bullmoose #4)`. */
  readonly nft: string;
  /** The kernel's release: `6.12.48+deb13-amd64`. */
  readonly kernel: string;
  /** `1.8.0.3` */
  readonly socat: string;
  /** `v20.19.2` */
  readonly nodejs: string;
}

/**
 * Reads the versions of this host. A version that cannot be read has the reason instead: `unavailable: cannot
 * start nft ...`.
 */
export async function hostVersions(nft: Nft): Promise<HostVersions> {
  return {
    nft: await nftVersion(nft).catch(unavailable),
    kernel: await hostFiles.read("/proc/sys/kernel/osrelease").then((text) => text.trim(), unavailable),
    socat: (await socatVersion(runProcess)) ?? "unavailable: socat cannot be started",
    nodejs: process.version,
  };
}

const LIMITS = { timeoutMs: 10_000, maxOutputBytes: 100_000 };

/** Reads the version of socat, such as `1.8.0.3`; undefined if it does not run. */
export async function socatVersion(run: RunProcess): Promise<string | undefined> {
  const { exitCode, stdout } = await run("socat", ["-V"], "", LIMITS);
  if (exitCode !== 0) return undefined;
  return /^socat version (\S+)/m.exec(stdout)?.[1] ?? "of unknown version";
}

function unavailable(error: unknown): string {
  return `unavailable: ${messageOf(error)}`;
}
