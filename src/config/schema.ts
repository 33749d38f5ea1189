import { didYouMean } from "../base/nearest.ts";
import { IGNORED_FIELDS } from "./ignored-settings.ts";
import { type ConfigWarning, ignoredWarning } from "./invalid-value.ts";
import type { Schema } from "./option.ts";
import { FIELDS } from "./options.ts";

const DESCRIPTION = [
  "The configuration that --config reads. Fields that are listed without a type are known and ignored; fields that are",
  "not listed are reported and ignored. Null always means the default. The section nftProxy is nft-proxy's own;",
  "kube-proxy reports and ignores it.",
].join(" ");

/**
 * Returns the schema of the configuration, generated from the rows of options and the ignored fields. The
 * test of deploy/reference.md writes it to schemas/kubeproxyconfiguration.schema.json.
 */
export function configurationSchema(): Schema {
  return {
    $schema: "http://json-schema.org/draft-07/schema#",
    $id: "kubeproxyconfiguration.schema.json",
    title: "KubeProxyConfiguration v1alpha1, as nft-proxy reads it",
    description: DESCRIPTION,
    type: "object",
    required: ["apiVersion", "kind"],
    properties: {
      apiVersion: { const: "kubeproxy.config.k8s.io/v1alpha1" },
      kind: { const: "KubeProxyConfiguration" },
      ...fieldSchemas(),
    },
  };
}

/** The schemas of all fields by name, those of a section such as `conntrack` within it. */
function fieldSchemas(): Schema {
  const sections = new Map<string, Record<string, Schema>>();
  const properties: Record<string, Schema> = {};
  const fields = [...FIELDS, ...IGNORED_FIELDS.map(({ path }) => ({ path, schema: {} }))];
  for (const { path, schema } of fields) {
    const [first = "", second] = path.split(".");
    if (second === undefined) {
      properties[first] = orNull(schema);
      continue;
    }
    const section = sections.get(first) ?? {};
    sections.set(first, section);
    section[second] = orNull(schema);
    properties[first] = { type: ["object", "null"], properties: section };
  }
  return properties;
}

function orNull(schema: Schema): Schema {
  if (Array.isArray(schema.enum)) return { ...schema, enum: [...schema.enum, null] };
  return schema.type === undefined ? schema : { ...schema, type: [schema.type, "null"] };
}

/** Returns a warning for each feature gate except the supported one. */
export function featureGateWarnings(document: object): ConfigWarning[] {
  const gates = (document as { readonly featureGates?: object | null }).featureGates;
  const unknown = Object.keys(gates ?? {}).filter((gate) => gate !== "AllowServiceExternalIPs");
  return unknown.map((gate) =>
    ignoredWarning(`featureGates.${gate}`, "the only feature gate is AllowServiceExternalIPs"),
  );
}

/**
 * Returns a warning for each field that the schema does not list, and none for the fields within such a
 * field.
 */
export function unknownFieldWarnings(document: object): ConfigWarning[] {
  return unknownFields(document, configurationSchema() as SchemaPart, "");
}

interface SchemaPart {
  readonly properties?: Readonly<Record<string, SchemaPart>>;
}

function unknownFields(value: unknown, { properties }: SchemaPart, prefix: string): ConfigWarning[] {
  if (properties === undefined || typeof value !== "object" || value === null || prefix === "featureGates.")
    return [];
  return Object.entries(value).flatMap(([key, inner]) => {
    const path = `${prefix}${key}`;
    if (Object.hasOwn(properties, key)) return unknownFields(inner, properties[key] ?? {}, `${path}.`);
    const hint = didYouMean(key, Object.keys(properties));
    const reason = `KubeProxyConfiguration v1alpha1 has no such field${hint === undefined ? "" : `: ${hint}`}`;
    return [ignoredWarning(path, reason)];
  });
}
