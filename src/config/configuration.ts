import type { Document, Field } from "../base/option.ts";
import { FIELDS, NAMED_OPTIONS, type ProxyOptions } from "./options.ts";

/** Returns the value at a path such as `conntrack.min`; undefined if there is none. */
export function valueAt(document: object, path: string): unknown {
  return path.split(".").reduce<unknown>((value, key) => {
    return typeof value === "object" && value !== null && Object.hasOwn(value, key)
      ? (value as Document)[key]
      : undefined;
  }, document);
}

/** Returns a copy of the document with another value at a path. */
export function withValueAt(document: Document, path: string, value: unknown): Document {
  const [first = "", ...rest] = path.split(".");
  if (rest.length === 0) return { ...document, [first]: value };
  const section = valueAt(document, first);
  const inner = typeof section === "object" && section !== null ? (section as Document) : {};
  return { ...document, [first]: withValueAt(inner, rest.join("."), value) };
}

const HEAD: Document = { apiVersion: "kubeproxy.config.k8s.io/v1alpha1", kind: "KubeProxyConfiguration" };

/**
 * Completes a configuration that has passed the schema with defaults. As in kube-proxy, "" and empty lists
 * mean "not given" in most fields.
 */
export function withDefaults(given: Document): Document {
  return FIELDS.reduce((document, field) => {
    const value = valueAt(given, field.path);
    if (isGiven(value, field)) return withValueAt(document, field.path, value);
    const preset = typeof field.preset === "function" ? field.preset(given) : field.preset;
    return preset === undefined ? document : withValueAt(document, field.path, preset);
  }, HEAD);
}

function isGiven(value: unknown, { isUnset }: Field): boolean {
  return value !== undefined && value !== null && !isUnset?.(value);
}

/**
 * Converts a complete configuration, which must be valid by `schemaViolations` and `dependencyViolations`, to
 * options.
 */
export function toOptions(configuration: Document): ProxyOptions {
  let options: Document = {};
  for (const [name, { fields, parse }] of NAMED_OPTIONS) {
    const values = fields.map(({ path }) => valueAt(configuration, path));
    options = withValueAt(options, name, parse(values));
  }
  return options as ProxyOptions;
}

/**
 * Returns the configuration that yields exactly these options when it is parsed. kube-proxy also accepts it,
 * with a warning about the section `nftProxy`, unless a server is switched off: that is port 0 here, which
 * kube-proxy rejects.
 */
export function configurationOf(options: ProxyOptions): Document {
  let document: Document = { ...HEAD, mode: "nftables" };
  for (const [name, { fields, print }] of NAMED_OPTIONS) {
    const values = print(valueAt(options, name));
    fields.forEach(({ path }, index) => {
      if (values[index] !== undefined) document = withValueAt(document, path, values[index]);
    });
  }
  return document;
}
