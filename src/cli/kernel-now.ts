import { AppError } from "../base/errors.ts";
import type { ProxyOptions } from "../config/options.ts";
import { type HostFiles, hostFamilies, hostFiles } from "../kernel/host.ts";
import { Nft } from "../kernel/nft.ts";
import { readKernel } from "../kernel/read-kernel.ts";
import type { Ruleset } from "../nft/ast/ruleset.ts";

/**
 * Our tables as this host's kernel has them, of the families that it has.
 * @throws AppError NFT_MISSING, NFT_TIMEOUT, NFT_OUTPUT when they are not of our making, or we may not look
 */
export async function kernelNow({ nftPath }: ProxyOptions): Promise<Ruleset> {
  const state = await readKernel(new Nft({ path: nftPath }), await hostFamilies(hostFiles));
  if (state.kind === "read") return state.ruleset;
  throw new AppError("NFT_OUTPUT", `cannot read our tables: ${state.reason}`, {
    hint: "run as root or with CAP_NET_ADMIN in the node's network namespace; tables that others changed can be rebuilt with apply",
  });
}

/** What of a ruleset a kernel can be given: the tables of the families that its host has, as the daemon does it. */
export async function ofThisHost(ruleset: Ruleset, files: HostFiles = hostFiles): Promise<Ruleset> {
  const families = await hostFamilies(files);
  return Object.fromEntries(
    families.flatMap((family) => (ruleset[family] === undefined ? [] : [[family, ruleset[family]]])),
  );
}
