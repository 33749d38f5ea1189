import type { AppError } from "../base/errors.ts";
import type { ProxyOptions } from "../config/options.ts";
import type { Nft } from "../kernel/nft.ts";
import { accepts, missingFeatures, probeFeatures } from "../kernel/probe.ts";
import {
  clientLimitFeatures,
  fastPathFeatures,
  type RequiredFeatures,
  requiredFeatures,
  timeoutFeatures,
} from "../ruleset/required-features.ts";

/** An option that has no effect, because nft or the kernel lacks a feature. */
export interface UnsupportedOption {
  /** The name of the feature that it enables. */
  readonly name: "fast-path" | "connection-timeouts" | "client-limits";
  /** The error that names the missing feature. */
  readonly missing: AppError;
  /** `--fast-path has no effect: no connection takes the fast path`. */
  readonly consequence: string;
  /** The options that disable the feature. */
  readonly without: Partial<ProxyOptions>;
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
    without: { fastPath: false },
  },
  {
    name: "connection-timeouts",
    isWanted: ({ connectionTimeouts }) => connectionTimeouts === "on",
    features: timeoutFeatures,
    consequence: "--connection-timeouts has no effect: Services use the node's timeouts",
    without: { connectionTimeouts: "off" },
  },
  {
    name: "client-limits",
    isWanted: ({ maxLimitedClients }) => maxLimitedClients > 0,
    features: clientLimitFeatures,
    consequence: "--max-limited-clients has no effect: clients of Services have no limits",
    without: { maxLimitedClients: 0 },
  },
];

/**
 * Checks the features that all rules need, and then as {@link unsupportedOptions}. There are two checks
 * because nft has 10 s for each, and a machine that has just booted loads every kernel module from the disk.
 * @throws as {@link probeFeatures}
 */
export async function checkFeatures(nft: Nft, options: ProxyOptions): Promise<UnsupportedOption[]> {
  await probeFeatures(nft, requiredFeatures());
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

/** Returns the options without unsupported ones. */
export function supportedOptions(
  options: ProxyOptions,
  unsupported: readonly UnsupportedOption[],
): ProxyOptions {
  return Object.assign({ ...options }, ...unsupported.map(({ without }) => without)) as ProxyOptions;
}
