/** Returns the value at a path such as `conntrack.min`; undefined if there is none. */
export function valueAt(document: object, path: string): unknown {
  return path.split(".").reduce<unknown>((value, key) => {
    return typeof value === "object" && value !== null && Object.hasOwn(value, key)
      ? (value as Readonly<Record<string, unknown>>)[key]
      : undefined;
  }, document);
}

/** Returns a copy of the document with another value at a path. The parent sections must exist. */
export function withValueAt<T extends object>(document: T, path: string, value: unknown): T {
  const [first = "", ...rest] = path.split(".");
  const inner = valueAt(document, first);
  const isSection = rest.length > 0 && typeof inner === "object" && inner !== null;
  return { ...document, [first]: isSection ? withValueAt(inner, rest.join("."), value) : value };
}
