import { messageOf } from "../base/errors.ts";
import { hostFiles } from "./host.ts";
import type { Nft } from "./nft.ts";
import { nftVersion } from "./nft-listings.ts";

/** The versions of what nft-proxy runs on. */
export interface HostVersions {
  /** As nft prints it: `nftables v1.1.3 (Commodore Bullmoose #4)`. */
  readonly nft: string;
  /** The kernel's release: `6.12.48+deb13-amd64`. */
  readonly kernel: string;
  /** `v20.19.2` */
  readonly nodejs: string;
}

/**
 * Reads the versions of this host. Each that cannot be read says why: `unavailable: cannot start nft ...`.
 */
export async function hostVersions(nft: Nft): Promise<HostVersions> {
  return {
    nft: await nftVersion(nft).catch(unavailable),
    kernel: await hostFiles.read("/proc/sys/kernel/osrelease").then((text) => text.trim(), unavailable),
    nodejs: process.version,
  };
}

function unavailable(error: unknown): string {
  return `unavailable: ${messageOf(error)}`;
}
