import type { AppError } from "../base/errors.ts";
import type { ProxyOptions } from "../config/options.ts";
import { FEATURES } from "../features/registry.ts";
import { isEnabled } from "../features/selection.ts";
import type { Nft } from "../kernel/nft.ts";
import { accepts, missingFeatures, probeNft } from "../kernel/probe.ts";
import { partFeatures, requiredFeatures } from "../ruleset/required-features.ts";

/** An enabled feature that has no effect, because nft or the kernel lacks what it needs. */
export interface UnsupportedFeature {
  readonly name: string;
  /** Names the part of nft or the kernel that is missing. */
  readonly missing: AppError;
  /** `the feature client-limits has no effect: clients of Services have no limits`. */
  readonly consequence: string;
}

/**
 * Checks the features that all rules need, and then as {@link unsupportedFeatures}. There are two checks
 * because nft has 10 s for each, and a machine that has just booted loads every kernel module from the disk.
 * @throws as {@link probeNft}
 */
export async function checkFeatures(nft: Nft, options: ProxyOptions): Promise<UnsupportedFeature[]> {
  await probeNft(nft, requiredFeatures());
  return await unsupportedFeatures(nft, options);
}

/**
 * Finds the enabled features that nft and the kernel do not support: everything else works without them. One
 * check is enough if nothing is missing. It changes nothing, but loads the kernel modules that they need.
 * @throws as {@link missingFeatures}
 */
export async function unsupportedFeatures(nft: Nft, options: ProxyOptions): Promise<UnsupportedFeature[]> {
  const wanted = FEATURES.filter((feature) => isEnabled(feature, options)).flatMap(({ name, ruleset }) => {
    if (ruleset?.needs === undefined) return [];
    const { needs } = ruleset;
    return [{ name, consequence: needs.consequence, features: partFeatures(ruleset, needs) }];
  });
  const nftables = wanted.flatMap(({ features }) => features.whole.nftables);
  if (nftables.length === 0 || (await accepts(nft, { nftables }))) return [];
  const unsupported: UnsupportedFeature[] = [];
  for (const { features, ...feature } of wanted) {
    const missing = await missingFeatures(nft, features);
    if (missing !== undefined) unsupported.push({ ...feature, missing });
  }
  return unsupported;
}

/** Options, and the enabled features that do not work on this node. */
export interface SupportedOptions extends ProxyOptions {
  /** These stay enabled, so that `explain` says that the kernel lacks them, and not that they are off. */
  readonly lacking?: readonly string[];
}

/** Returns the options with the features that this node does not support. */
export function supportedOptions(
  options: ProxyOptions,
  unsupported: readonly UnsupportedFeature[],
): SupportedOptions {
  return { ...options, lacking: unsupported.map(({ name }) => name) };
}
