/** The namespaces whose annotations drive a feature, by name: all, or some, sorted. Absent ones are off. */
export type EnabledFeatures = Readonly<Partial<Record<string, "all" | readonly string[]>>>;

/** What the annotations of an object ask for, by the name of the feature. */
export type FeatureValues = Readonly<Record<string, unknown>>;

/** Whether annotations in a namespace drive a feature. */
export function isEnabledIn(features: EnabledFeatures, name: string, namespace: string): boolean {
  const scope = features[name];
  return scope === "all" || (scope?.includes(namespace) ?? false);
}

/**
 * Returns the reason why an annotation of a feature has no effect in a namespace, as the predicate of a
 * sentence; undefined if the feature is enabled.
 */
export function offReason(features: EnabledFeatures, name: string, namespace: string): string | undefined {
  if (isEnabledIn(features, name, namespace)) return undefined;
  return `needs the feature ${name}, which is off in namespace ${namespace}: see --features`;
}
