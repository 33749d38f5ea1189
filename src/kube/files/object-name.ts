import type { ObjectKind } from "../decode/shape.ts";
import { metadataOf } from "../reflector/object-store.ts";

const CLUSTER_WIDE: readonly string[] = ["Node", "ServiceCIDR"] satisfies ObjectKind[];
const MOST_SHOWN = 80;

/** What an object is called, also one that cannot be used: `Service namespace/name`, `Node name`. */
export function objectName(kind: string, object: unknown): string {
  const { namespace, name } = metadataOf(object);
  if (CLUSTER_WIDE.includes(kind)) return `${kind} ${shown(name)}`;
  return `${kind} ${shown(namespace ?? "default")}/${shown(name)}`;
}

/** Whatever is there in place of a name must not end the line or fill the screen. */
function shown(name: unknown): string {
  if (typeof name !== "string" || name === "") return "(no name)";
  return /^[!-~]{1,253}$/.test(name) ? name : JSON.stringify(name.slice(0, MOST_SHOWN));
}
