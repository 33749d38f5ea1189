import type { ObjectKind } from "../decode/shape.ts";
import { metadataOf } from "../reflector/object-store.ts";

const CLUSTER_WIDE: readonly string[] = ["Node", "ServiceCIDR"] satisfies ObjectKind[];
const MOST_SHOWN = 80;

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
