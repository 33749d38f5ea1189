import type { EnabledFeatures } from "../model/features.ts";
import type { Settings } from "../ruleset/node-context.ts";
import { FEATURES } from "./registry.ts";
import type { Feature } from "./seam/feature.ts";
import type { StatePart, StatePartHost } from "./seam/state-part.ts";

/** The names of the features that `--features` enables, sorted. */
export const FEATURE_NAMES: readonly string[] = FEATURES.flatMap(({ name, annotations }) =>
  annotations === undefined ? [] : [name],
).sort();

/** Each of them in every namespace. */
export const ALL_FEATURES: EnabledFeatures = Object.fromEntries(FEATURE_NAMES.map((name) => [name, "all"]));

/** A namespace is a DNS label (RFC 1123). */
const SELECTION = /^([a-z-]+)(?:@([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?))?$/;

/**
 * Parses one item of `--features`: `all`, `none` or the name of a feature, in every namespace or in the one
 * after `@`. Undefined for another text.
 */
export function parseFeature(text: string): EnabledFeatures | undefined {
  const [, word, namespace] = SELECTION.exec(text) ?? [];
  if (word === "none") return namespace === undefined ? {} : undefined;
  const names = word === "all" ? FEATURE_NAMES : FEATURE_NAMES.filter((name) => name === word);
  if (names.length === 0) return undefined;
  return Object.fromEntries(names.map((name) => [name, namespace === undefined ? "all" : [namespace]]));
}

/** Parses the items of `--features`, which add up. Undefined if one is invalid. */
export function parseFeatures(items: readonly string[]): EnabledFeatures | undefined {
  const parsed = items.map(parseFeature);
  const enabled = FEATURE_NAMES.flatMap((name) => {
    const scopes = parsed.flatMap((one) => one?.[name] ?? []);
    if (scopes.length === 0) return [];
    return [[name, scopes.includes("all") ? "all" : [...new Set(scopes)].sort()]];
  });
  return parsed.includes(undefined) ? undefined : Object.fromEntries(enabled);
}

/** Returns the shortest items that {@link parseFeatures} reads as these features; `none` for none. */
export function featureItems(features: EnabledFeatures): readonly string[] {
  if (FEATURE_NAMES.every((name) => features[name] === "all")) return ["all"];
  const items = FEATURE_NAMES.flatMap((name) => {
    const scope = features[name] ?? [];
    return scope === "all" ? [name] : scope.map((namespace) => `${name}@${namespace}`);
  });
  return items.length === 0 ? ["none"] : items;
}

/** The options that decide which features are enabled. */
export interface FeatureOptions {
  readonly features: EnabledFeatures;
  readonly settings: Settings;
  /** The names of enabled features that nft or the kernel lacks. */
  readonly lacking?: readonly string[];
}

/** Whether a feature is enabled, perhaps in some namespaces only. */
export function isEnabled(feature: Feature, { features, settings }: FeatureOptions): boolean {
  return features[feature.name] !== undefined || (feature.isEnabled?.(settings) ?? false);
}

/** Returns the enabled features that work on this node. */
export function workingFeatures(options: FeatureOptions): readonly Feature[] {
  return FEATURES.filter(
    (feature) => isEnabled(feature, options) && !options.lacking?.includes(feature.name),
  );
}

/** Makes the {@link StatePart}s of the enabled features. */
export function stateParts(
  options: FeatureOptions,
  host: Omit<StatePartHost, "settings">,
): readonly StatePart[] {
  const { settings } = options;
  return FEATURES.filter((feature) => isEnabled(feature, options)).flatMap(
    ({ createState }) => createState?.({ ...host, settings }) ?? [],
  );
}
