import type { ObjectKind } from "./shape.ts";

const CLUSTER_WIDE: readonly string[] = ["Node", "ServiceCIDR"] satisfies ObjectKind[];
const MOST_SHOWN = 80;

/** Returns the `metadata` of an API object or list, {} if it has none. */
export function metadataOf(raw: unknown): Readonly<Record<string, unknown>> {
  const metadata = typeof raw === "object" && raw !== null && "metadata" in raw ? raw.metadata : undefined;
  return typeof metadata === "object" && metadata !== null ? (metadata as Record<string, unknown>) : {};
}

/** Returns the name of an object, valid or not, for messages: `Service namespace/name`, `Node name`. */
export function objectName(kind: string, object: unknown): string {
  const { namespace, name } = metadataOf(object);
  if (CLUSTER_WIDE.includes(kind)) return `${kind} ${shown(name)}`;
  return `${kind} ${shown(namespace ?? "default")}/${shown(name)}`;
}

/** Quotes and shortens an invalid name, which may contain line breaks or be very long. */
function shown(name: unknown): string {
  if (typeof name !== "string" || name === "") return "(no name)";
  return /^[!-~]{1,253}$/.test(name) ? name : JSON.stringify(name.slice(0, MOST_SHOWN));
}
