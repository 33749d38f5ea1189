/** The fields of an API object that the stub reads. */
export interface StubObject {
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly uid?: string;
    readonly resourceVersion?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly creationTimestamp?: string;
  };
  readonly [field: string]: unknown;
}

/** The selectors of a request. "" selects everything. */
export interface Selectors {
  readonly labelSelector: string;
  readonly fieldSelector: string;
}

/** Returns `namespace/name`, or `name` for objects without a namespace. */
export function keyOf({ metadata }: StubObject): string {
  return metadata.namespace === undefined ? metadata.name : `${metadata.namespace}/${metadata.name}`;
}

/**
 * Returns true if the object matches. Supports `key`, `!key` and `key=value` in label selectors, and the two
 * field selectors in use.
 */
export function isSelected(object: StubObject, { labelSelector, fieldSelector }: Selectors): boolean {
  const labels = object.metadata.labels ?? {};
  const byLabel = split(labelSelector).every((term) => {
    if (term.startsWith("!")) return !(term.slice(1) in labels);
    const [key = "", value] = term.split("=");
    return value === undefined ? key in labels : labels[key] === value;
  });
  const byField = split(fieldSelector).every((term) => {
    if (term === "spec.clusterIP!=None")
      return (object.spec as { clusterIP?: unknown } | undefined)?.clusterIP !== "None";
    const [field, value] = term.split("=");
    if (field !== "metadata.name") throw new Error(`the stub does not know the field selector ${term}`);
    return object.metadata.name === value;
  });
  return byLabel && byField;
}

function split(selector: string): readonly string[] {
  return selector === "" ? [] : selector.split(",");
}
