import { AppError } from "../../base/errors.ts";
import { type HostFiles, hostFamilies, hostFiles } from "../../kernel/host.ts";
import { Nft } from "../../kernel/nft.ts";
import { readKernel } from "../../kernel/read-kernel.ts";
import type { Ruleset } from "../../nft/ast/ruleset.ts";
import { VANISHED } from "../../ruleset/sets.ts";
import { allSlicesOf } from "../../sync/vanished-endpoints.ts";
import type { Desired } from "./desired.ts";

/**
 * Reads nft-proxy's tables from this host's kernel, for the families that the host has.
 * @param nftPath the nft program
 * @throws AppError NFT_MISSING; NFT_TIMEOUT; NFT_OUTPUT when the tables were made by other software or cannot be read
 */
export async function readKernelTables(nftPath: string): Promise<Ruleset> {
  const state = await readKernel(new Nft({ path: nftPath }), await hostFamilies(hostFiles));
  if (state.kind === "read") return state.ruleset;
  throw new AppError("NFT_OUTPUT", `cannot read nft-proxy's tables: ${state.reason}`, {
    hint: state.hint ?? "if other software changed them: nft-proxy run or apply rebuilds them",
  });
}

/** The tables of the families that this host has: the part of a ruleset that its kernel can take. */
export async function tablesOfHost(ruleset: Ruleset, files: HostFiles = hostFiles): Promise<Ruleset> {
  const families = await hostFamilies(files);
  return Object.fromEntries(
    families.flatMap((family) => (ruleset[family] === undefined ? [] : [[family, ruleset[family]]])),
  );
}

/**
 * Takes the vanished endpoints that the kernel has over into a desired state, but for those that an EndpointSlice names
 * again: objects do not tell which endpoints left, only the daemon saw it.
 */
export function keepVanished({ cache, state }: Pick<Desired, "cache" | "state">, kernel: Ruleset): void {
  const found = Object.values(kernel).map(({ family, sets }) => ({
    family,
    targets: [...(sets.get(VANISHED)?.elements.keys() ?? [])],
  }));
  if (found.every(({ targets }) => targets.length === 0)) return;
  const slices = allSlicesOf(cache, () => 0);
  for (const { family, targets } of found) {
    state.families[family]?.setVanished(new Set(targets.filter((target) => !slices.isNamed(family, target))));
  }
}
