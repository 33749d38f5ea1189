import { MAX_CONNECTIONS_ANNOTATION, NEW_CONNECTIONS_ANNOTATION } from "./client-limits.ts";
import { DRAIN_TIMEOUT_ANNOTATION, ON_REMOVED_ANNOTATION } from "./connection-life.ts";
import { CONNECTION_TIMEOUTS_ANNOTATION } from "./connection-timeouts.ts";
import { PASSIVE_HEALTH_ANNOTATION } from "./passive-health.ts";
import { SCHEDULER_ANNOTATION, WEIGHT_ANNOTATION } from "./scheduler.ts";

/** The annotation of a Service that gives its ports ranges: `rtp=10000-10999,sip=5070-5079`. */
export const PORT_RANGES_ANNOTATION = "nft-proxy.io/port-ranges";

/**
 * The features that annotations of Services and EndpointSlices drive, with these annotations. They are off
 * unless `--features` enables them, so that nobody but the node's administrator decides which of them run.
 */
export const FEATURE_ANNOTATIONS = {
  "client-limits": [MAX_CONNECTIONS_ANNOTATION, NEW_CONNECTIONS_ANNOTATION],
  "connection-life": [ON_REMOVED_ANNOTATION, DRAIN_TIMEOUT_ANNOTATION],
  "connection-timeouts": [CONNECTION_TIMEOUTS_ANNOTATION],
  "passive-health-checks": [PASSIVE_HEALTH_ANNOTATION],
  "port-ranges": [PORT_RANGES_ANNOTATION],
  schedulers: [SCHEDULER_ANNOTATION, WEIGHT_ANNOTATION],
} as const;

/** The name of a feature. */
export type FeatureName = keyof typeof FEATURE_ANNOTATIONS;

/** An annotation of a feature. */
export type FeatureAnnotation = (typeof FEATURE_ANNOTATIONS)[FeatureName][number];

/** An annotation of a Service. */
export type ServiceAnnotation = Exclude<FeatureAnnotation, typeof WEIGHT_ANNOTATION>;

/** All annotations of Services. */
export const SERVICE_ANNOTATIONS: readonly ServiceAnnotation[] = Object.values(FEATURE_ANNOTATIONS)
  .flat()
  .filter((annotation) => annotation !== WEIGHT_ANNOTATION);

/** The names of the features, sorted. */
export const FEATURE_NAMES = Object.keys(FEATURE_ANNOTATIONS) as readonly FeatureName[];

/** The namespaces whose annotations drive a feature: all, or some, sorted. Absent features are off. */
export type EnabledFeatures = Readonly<Partial<Record<FeatureName, "all" | readonly string[]>>>;

/** Every feature in every namespace. */
export const ALL_FEATURES: EnabledFeatures = Object.fromEntries(FEATURE_NAMES.map((name) => [name, "all"]));

const FEATURE_OF = new Map<string, FeatureName>(
  FEATURE_NAMES.flatMap((name) => FEATURE_ANNOTATIONS[name].map((annotation) => [annotation, name])),
);

/** Whether annotations in a namespace drive a feature. */
export function isEnabledIn(features: EnabledFeatures, name: FeatureName, namespace: string): boolean {
  const scope = features[name];
  return scope === "all" || (scope?.includes(namespace) ?? false);
}

/**
 * Returns the reason why an annotation in a namespace has no effect, as the predicate of a sentence;
 * undefined if its feature is enabled.
 */
export function offReason(
  features: EnabledFeatures,
  annotation: FeatureAnnotation,
  namespace: string,
): string | undefined {
  const name = FEATURE_OF.get(annotation);
  if (name === undefined || isEnabledIn(features, name, namespace)) return undefined;
  return `needs the feature ${name}, which is off in namespace ${namespace}: see --features`;
}

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
