import { didYouMean, withHint } from "../base/nearest.ts";
import type { Schema } from "../base/option.ts";
import { formerFieldHint } from "./former-settings.ts";
import { IGNORED_FIELDS } from "./ignored-settings.ts";
import { type InvalidValue, ignoredWarning } from "./invalid-value.ts";
import { FIELDS } from "./options.ts";

const DESCRIPTION = [
  "The configuration that --config reads. Fields that are listed without a type are known and ignored; fields that are",
  "not listed are reported and ignored, but are errors in the section nftProxy, which is nft-proxy's own; kube-proxy",
  "reports and ignores it. Null always means the default.",
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
  const properties: Record<string, Schema> = {};
  const fields = [...FIELDS, ...IGNORED_FIELDS.map(({ path }) => ({ path, schema: {} }))];
  for (const { path, schema } of fields) {
    const [first = "", second] = path.split(".");
    const section = properties[first]?.properties as Schema | undefined;
    properties[first] =
      second === undefined
        ? orNull(schema)
        : { type: ["object", "null"], properties: { ...section, [second]: orNull(schema) } };
  }
  return properties;
}

function orNull(schema: Schema): Schema {
  if (Array.isArray(schema.enum)) return { ...schema, enum: [...schema.enum, null] };
  return schema.type === undefined ? schema : { ...schema, type: [schema.type, "null"] };
}

/** Our section. kube-proxy does not know it, so there is no field of a newer kube-proxy to put up with. */
export const OWN_SECTION = "nftProxy.";

/**
 * Returns a warning for each field of kube-proxy's part, and each feature gate, that the schema does not
 * list, and none for the fields within such a field.
 */
export function unknownFieldWarnings(document: object): string[] {
  return unknownFields(document)
    .filter(({ path }) => !path.startsWith(OWN_SECTION))
    .map(({ path, hint }) =>
      ignoredWarning(
        path,
        path.startsWith("featureGates.")
          ? "the only feature gate is AllowServiceExternalIPs"
          : withHint("KubeProxyConfiguration v1alpha1 has no such field", hint),
      ),
    );
}

/** Returns an error for each field of our section that the schema does not list: a misspelt one. */
export function unknownOwnFields(document: object): InvalidValue[] {
  return unknownFields(document)
    .filter(({ path }) => path.startsWith(OWN_SECTION))
    .map(({ path, value, hint }) => ({
      subject: path,
      reason: withHint("is not a field of nftProxy", formerFieldHint(path, value) ?? hint),
    }));
}

interface UnknownField {
  readonly path: string;
  readonly value: unknown;
  /** The most similar field, as a question. */
  readonly hint: string | undefined;
}

interface SchemaPart {
  readonly properties?: Readonly<Record<string, SchemaPart>>;
}

function unknownFields(
  value: unknown,
  { properties }: SchemaPart = configurationSchema() as SchemaPart,
  prefix = "",
): UnknownField[] {
  if (properties === undefined || typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => {
    const path = `${prefix}${key}`;
    if (Object.hasOwn(properties, key)) return unknownFields(inner, properties[key] ?? {}, `${path}.`);
    return [{ path, value: inner, hint: didYouMean(key, Object.keys(properties)) }];
  });
}
