import schema from "../../schemas/kubeproxyconfiguration.schema.json" with { type: "json" };
import { type ConfigWarning, ignoredWarning } from "./diagnostic.ts";

interface SchemaPart {
  readonly properties?: Readonly<Record<string, SchemaPart>>;
}

/** Returns a warning for each field that the schema does not list, and none for the fields within such a field. */
export function unknownFieldWarnings(document: object): ConfigWarning[] {
  return unknownPaths(document, schema as SchemaPart, "").map((path) =>
    ignoredWarning(path, "KubeProxyConfiguration v1alpha1 has no such field"),
  );
}

function unknownPaths(value: unknown, { properties }: SchemaPart, prefix: string): string[] {
  if (properties === undefined || typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => {
    const path = `${prefix}${key}`;
    return Object.hasOwn(properties, key) ? unknownPaths(inner, properties[key] ?? {}, `${path}.`) : [path];
  });
}
