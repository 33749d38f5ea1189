import { messageOf } from "../base/errors.ts";
import { hostFiles } from "./host.ts";
import type { Nft } from "./nft.ts";
import { nftVersion } from "./nft-listings.ts";
import { type RunProcess, runProcess } from "./process.ts";

/** The versions of the kernel and the programs that nft-proxy uses. */
export type HostVersions = Readonly<Awaited<ReturnType<typeof hostVersions>>>;

/**
 * Reads the versions of this host. A version that cannot be read has the reason instead: `unavailable: cannot
 * start nft ...`.
 */
export async function hostVersions(nft: Nft) {
  return {
    /** As nft prints it: `nftables v1.1.3 (Commodore Bullmoose #4)`. */
    nft: await nftVersion(nft).catch(unavailable),
    /** The kernel's release: `6.12.48+deb13-amd64`. */
    kernel: await hostFiles.read("/proc/sys/kernel/osrelease").then((text) => text.trim(), unavailable),
    /** `1.8.0.3` */
    socat: (await socatVersion(runProcess)) ?? "unavailable: socat cannot be started",
    /** `v20.19.2` */
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
