import * as api from "@kubernetes/client-node/dist/gen/models/all.js";
import { Ajv, type ValidateFunction } from "ajv";
import { VALIDATOR_OPTIONS } from "../../base/schema-error.ts";

// In the bundle, scripts/precompile-schemas.mjs has compiled these at build time: it has no models.

/** Compiles the API's schema of Services (core/v1). */
export const compileServiceApi = (): ValidateFunction => compile("V1Service");

/** Compiles the API's schema of EndpointSlices (discovery.k8s.io/v1). */
export const compileEndpointSliceApi = (): ValidateFunction => compile("V1EndpointSlice");

/** Compiles the API's schema of ServiceCIDRs (networking.k8s.io/v1). */
export const compileServiceCIDRApi = (): ValidateFunction => compile("V1ServiceCIDR");

type Schema = Readonly<Record<string, unknown>>;

/** The types of Kubernetes 1.34, which client-node generates from the API's OpenAPI document. */
const MODELS = api as unknown as Readonly<Record<string, Model | undefined>>;

interface Model {
  getAttributeTypeMap(): readonly { readonly baseName: string; readonly type: string }[];
}

function compile(type: string): ValidateFunction {
  return new Ajv({ ...VALIDATOR_OPTIONS, allErrors: true }).compile(schemaOf(type));
}

const SCALARS: Readonly<Record<string, Schema>> = {
  string: { type: "string" },
  boolean: { type: "boolean" },
  number: { type: "integer" },
  IntOrString: { type: ["integer", "string"] },
  "{ [key: string]: string; }": { type: "object", additionalProperties: { type: ["string", "null"] } },
  Date: {
    description: "a time such as 2026-01-31T12:00:00Z",
    type: "string",
    pattern: "^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d(?:\\.\\d{1,9})?(?:Z|[+-]\\d\\d:\\d\\d)$",
  },
  any: {},
};

/** Returns the schema of a type. Types do not contain themselves. */
function schemaOf(type: string): Schema {
  const item = /^Array<(.+)>$/.exec(type)?.[1];
  if (item !== undefined) return { type: "array", items: schemaOf(item) };
  const fields = MODELS[type]?.getAttributeTypeMap();
  const scalar = SCALARS[type];
  if (fields === undefined && scalar === undefined) throw new Error(`the API has an unknown type: ${type}`);
  if (fields === undefined) return scalar ?? {};
  const required = REQUIRED[type] ?? [];
  const properties = fields.map(({ baseName, type: ofField }) => {
    const constraint = CONSTRAINTS[type]?.[baseName] ?? {};
    // With a type besides, a value of another type would have two errors.
    const schema = "enum" in constraint ? constraint : { ...schemaOf(ofField), ...constraint };
    return [baseName, required.includes(baseName) ? schema : optional(schema)];
  });
  return {
    type: "object",
    required,
    properties: Object.fromEntries(properties),
    additionalProperties: false,
  };
}

/** `null` means the same as an absent field. */
function optional(schema: Schema): Schema {
  if (schema.enum !== undefined) return { enum: [schema.enum, null].flat() };
  return schema.type === undefined ? schema : { ...schema, type: [schema.type, "null"].flat() };
}

const SUBDOMAIN = "[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*";
const LABEL_TEXT = "[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?";

/** IsQualifiedName; keys of annotations may have upper-case letters in their prefix. */
function qualifiedName(subdomain: string): Schema {
  return {
    description:
      "a qualified name: at most 63 letters, digits, '-', '_' and '.', perhaps after a DNS subdomain and '/'",
    type: "string",
    pattern: `^(?:(?=[^/]{1,253}/)${subdomain}/)?${LABEL_TEXT}$`,
  };
}

const QUALIFIED_NAME = qualifiedName(SUBDOMAIN);

/** IsValidLabelValue */
const LABEL_VALUE = {
  description: "a label value: at most 63 letters, digits, '-', '_' and '.'",
  pattern: `^(?:${LABEL_TEXT})?$`,
};

const LABELS = {
  propertyNames: QUALIFIED_NAME,
  additionalProperties: { ...LABEL_VALUE, type: ["string", "null"] },
};

const NOT_EMPTY = { description: "text that is not empty", pattern: "." };

function atMost(length: number): Schema {
  return { description: `text of at most ${length} characters`, pattern: `^[^]{0,${length}}$` };
}

/** The fields that an object must have, besides those without which a decoder refuses it. */
const REQUIRED: Readonly<Record<string, readonly string[]>> = {
  V1OwnerReference: ["apiVersion", "kind", "name", "uid"],
  V1ManagedFieldsEntry: ["operation"],
};

/**
 * The constraints that the API's types do not state and no decoder checks, by type and field. Source: the
 * files that ./api-rules.ts names, and
 * https://github.com/kubernetes/apimachinery/blob/v0.36.2/pkg/util/validation/validation.go
 */
const CONSTRAINTS: Readonly<Record<string, Readonly<Record<string, Schema>>>> = {
  V1ObjectMeta: {
    generateName: {
      description: "the beginning of a name: lower-case letters, digits, dashes and dots",
      pattern: "^(?:[a-z0-9][-a-z0-9.]*)?$",
    },
    generation: { minimum: 0 },
    labels: LABELS,
    annotations: { propertyNames: qualifiedName(SUBDOMAIN.replaceAll("a-z", "A-Za-z")) },
    finalizers: { items: QUALIFIED_NAME },
  },
  V1OwnerReference: { apiVersion: NOT_EMPTY, kind: NOT_EMPTY, name: NOT_EMPTY, uid: NOT_EMPTY },
  V1ManagedFieldsEntry: {
    operation: { enum: ["Apply", "Update"] },
    fieldsType: { enum: ["FieldsV1", ""] },
    manager: atMost(128),
    subresource: atMost(256),
  },
  V1ServiceSpec: {
    selector: LABELS,
    ipFamilyPolicy: { enum: ["SingleStack", "PreferDualStack", "RequireDualStack"] },
    internalTrafficPolicy: { enum: ["Cluster", "Local"] },
    trafficDistribution: { enum: ["PreferSameZone", "PreferSameNode", "PreferClose"] },
    loadBalancerClass: QUALIFIED_NAME,
  },
  V1ServicePort: {
    appProtocol: QUALIFIED_NAME,
    targetPort: {
      description:
        "a port's name, with a letter, and at most 15 lower-case letters, digits and single dashes",
      minimum: 0,
      maximum: 65_535,
      pattern: "^(?:(?=.{1,15}$)(?=.*[a-z])[a-z0-9]+(?:-[a-z0-9]+)*)?$",
    },
  },
  V1LoadBalancerIngress: {
    ipMode: { enum: ["VIP", "Proxy"] },
    hostname: {
      description: "a DNS subdomain: at most 253 lower-case letters, digits, dashes and dots",
      pattern: `^(?:(?=.{1,253}$)${SUBDOMAIN})?$`,
    },
  },
  V1EndpointSlice: { endpoints: { maxItems: 1000 }, ports: { maxItems: 20_000 } },
  V1Endpoint: {
    addresses: { maxItems: 100 },
    hostname: {
      description: "a DNS label: at most 63 lower-case letters, digits and dashes",
      pattern: "^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$",
    },
    deprecatedTopology: { ...LABELS, maxProperties: 16 },
  },
  V1EndpointHints: { forZones: { maxItems: 8 }, forNodes: { maxItems: 8 } },
  V1ForZone: { name: { ...LABEL_VALUE, pattern: `^${LABEL_TEXT}$` } },
  DiscoveryV1EndpointPort: { appProtocol: QUALIFIED_NAME },
  V1ServiceCIDRSpec: { cidrs: { maxItems: 2 } },
};
