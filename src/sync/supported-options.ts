import type { AppError } from "../base/errors.ts";
import type { ProxyOptions } from "../config/options.ts";
import { FEATURES } from "../features/registry.ts";
import { isEnabled } from "../features/selection.ts";
import type { Nft } from "../kernel/nft.ts";
import { accepts, missingFeatures, probeNft } from "../kernel/probe.ts";
import {
  fastPathFeatures,
  partFeatures,
  type RequiredFeatures,
  requiredFeatures,
} from "../ruleset/required-features.ts";

/** An option that has no effect, because nft or the kernel lacks what it needs. */
export interface UnsupportedOption {
  /** `fast-path`, or the name of a feature. */
  readonly name: string;
  /** Names the part of nft or the kernel that is missing. */
  readonly missing: AppError;
  /** `--fast-path has no effect: no connection takes the fast path`. */
  readonly consequence: string;
}

interface OptionalFeature extends Omit<UnsupportedOption, "missing"> {
  readonly isWanted: (options: ProxyOptions) => boolean;
  readonly features: () => RequiredFeatures;
}

const OPTIONAL: readonly OptionalFeature[] = [
  {
    name: "fast-path",
    isWanted: ({ fastPath }) => fastPath,
    features: fastPathFeatures,
    consequence: "--fast-path has no effect: no connection takes the fast path",
  },
  ...FEATURES.flatMap((feature): readonly OptionalFeature[] => {
    const { name, ruleset } = feature;
    if (ruleset?.needs === undefined) return [];
    const { needs } = ruleset;
    return [
      {
        name,
        isWanted: (options) => isEnabled(feature, options),
        features: () => partFeatures(ruleset, needs),
        consequence: `the feature ${name} has no effect: ${needs.consequence}`,
      },
    ];
  }),
];

/**
 * Checks the features that all rules need, and then as {@link unsupportedOptions}. There are two checks
 * because nft has 10 s for each, and a machine that has just booted loads every kernel module from the disk.
 * @throws as {@link probeNft}
 */
export async function checkFeatures(nft: Nft, options: ProxyOptions): Promise<UnsupportedOption[]> {
  await probeNft(nft, requiredFeatures());
  return await unsupportedOptions(nft, options);
}

/**
 * Finds the options that nft and the kernel do not support: everything else works without them. One check is
 * enough if nothing is missing. It changes nothing, but loads the kernel modules that these options need.
 * @throws as {@link missingFeatures}
 */
export async function unsupportedOptions(nft: Nft, options: ProxyOptions): Promise<UnsupportedOption[]> {
  const wanted = OPTIONAL.filter(({ isWanted }) => isWanted(options));
  const nftables = wanted.flatMap(({ features }) => features().whole.nftables);
  if (nftables.length === 0 || (await accepts(nft, { nftables }))) return [];
  const unsupported: UnsupportedOption[] = [];
  for (const { features, isWanted: _, ...option } of wanted) {
    const missing = await missingFeatures(nft, features());
    if (missing !== undefined) unsupported.push({ ...option, missing });
  }
  return unsupported;
}

/** Options, and the enabled features that do not work on this node. */
export interface SupportedOptions extends ProxyOptions {
  /** These stay enabled, so that `explain` says that the kernel lacks them, and not that they are off. */
  readonly lacking?: readonly string[];
}

/** Returns the options with everything disabled that this node does not support. */
export function supportedOptions(
  options: ProxyOptions,
  unsupported: readonly UnsupportedOption[],
): SupportedOptions {
  const names = unsupported.map(({ name }) => name);
  return {
    ...options,
    fastPath: options.fastPath && !names.includes("fast-path"),
    lacking: names.filter((name) => name !== "fast-path"),
  };
}
