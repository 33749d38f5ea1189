import schema from "../../schemas/kubeproxyconfiguration.schema.json" with { type: "json" };
import { nearest } from "../base/nearest.ts";
import type { GivenConfiguration } from "./configuration.ts";
import { type ConfigWarning, ignoredWarning } from "./diagnostic.ts";

interface SchemaPart {
  readonly properties?: Readonly<Record<string, SchemaPart>>;
}

/** Returns a warning for each feature gate but the one that is honoured. */
export function featureGateWarnings({ featureGates }: GivenConfiguration): ConfigWarning[] {
  const unknown = Object.keys(featureGates ?? {}).filter((gate) => gate !== "AllowServiceExternalIPs");
  return unknown.map((gate) =>
    ignoredWarning(`featureGates.${gate}`, "the only feature gate is AllowServiceExternalIPs"),
  );
}

/** Returns a warning for each field that the schema does not list, and none for the fields within such a field. */
export function unknownFieldWarnings(document: object): ConfigWarning[] {
  return unknownFields(document, schema as SchemaPart, "").map(({ path, near }) =>
    ignoredWarning(
      path,
      `KubeProxyConfiguration v1alpha1 has no such field${near === undefined ? "" : `: did you mean ${near}?`}`,
    ),
  );
}

interface UnknownField {
  readonly path: string;
  /** The name of the field beside it that was probably meant. */
  readonly near: string | undefined;
}

function unknownFields(value: unknown, { properties }: SchemaPart, prefix: string): UnknownField[] {
  if (properties === undefined || typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => {
    const path = `${prefix}${key}`;
    if (prefix === "featureGates.") return [];
    return Object.hasOwn(properties, key)
      ? unknownFields(inner, properties[key] ?? {}, `${path}.`)
      : [{ path, near: nearest(key, Object.keys(properties)) }];
  });
}
