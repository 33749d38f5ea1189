import type { AppError } from "../base/errors.ts";
import type { ProxyOptions } from "../config/options.ts";
import type { Nft } from "../kernel/nft.ts";
import { missingFeatures } from "../kernel/probe.ts";
import {
  clientLimitFeatures,
  fastPathFeatures,
  type RequiredFeatures,
  timeoutFeatures,
} from "../ruleset/required-features.ts";

/** An option that has no effect, because nft or the kernel lacks something. */
export interface UnsupportedOption {
  /** What is missing. */
  readonly missing: AppError;
  /** `--fast-path has no effect: no connection takes the fast path`. */
  readonly consequence: string;
  /** The options without it. */
  readonly without: Partial<ProxyOptions>;
}

interface OptionalFeature extends Omit<UnsupportedOption, "missing"> {
  readonly isWanted: (options: ProxyOptions) => boolean;
  readonly features: () => RequiredFeatures;
}

const OPTIONAL: readonly OptionalFeature[] = [
  {
    isWanted: ({ fastPath }) => fastPath,
    features: fastPathFeatures,
    consequence: "--fast-path has no effect: no connection takes the fast path",
    without: { fastPath: false },
  },
  {
    isWanted: ({ connectionTimeouts }) => connectionTimeouts === "on",
    features: timeoutFeatures,
    consequence: "--connection-timeouts has no effect: Services have the timeouts of the node",
    without: { connectionTimeouts: "off" },
  },
  {
    isWanted: ({ maxLimitedClients }) => maxLimitedClients > 0,
    features: clientLimitFeatures,
    consequence: "--max-limited-clients has no effect: clients of Services have no limits",
    without: { maxLimitedClients: 0 },
  },
];

/**
 * Finds the options that nft and the kernel do not support, by checks that change nothing but load the kernel
 * modules that these need. Everything else works without them.
 * @throws as {@link missingFeatures}
 */
export async function unsupportedOptions(nft: Nft, options: ProxyOptions): Promise<UnsupportedOption[]> {
  const wanted = OPTIONAL.filter(({ isWanted }) => isWanted(options));
  const found = await Promise.all(
    wanted.map(async ({ features, consequence, without }) => {
      const missing = await missingFeatures(nft, features());
      return missing === undefined ? [] : [{ missing, consequence, without }];
    }),
  );
  return found.flat();
}

/** Returns the options without unsupported ones. */
export function supportedOptions(
  options: ProxyOptions,
  unsupported: readonly UnsupportedOption[],
): ProxyOptions {
  return Object.assign({ ...options }, ...unsupported.map(({ without }) => without)) as ProxyOptions;
}
