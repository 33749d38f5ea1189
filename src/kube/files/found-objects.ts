import { joinPath } from "../../base/schema-error.ts";
import { isRecord, quoted } from "../../base/text.ts";
import type { ObjectKind } from "../decode/shape.ts";
import type { InputDocument } from "./yaml.ts";

/** The kinds that are read: their API group, and the versions that have the fields in use. */
const KNOWN_KINDS: Readonly<
  Record<ObjectKind, { readonly group: string; readonly versions: readonly string[] }>
> = {
  Service: { group: "", versions: ["v1"] },
  EndpointSlice: { group: "discovery.k8s.io", versions: ["v1"] },
  Node: { group: "", versions: ["v1"] },
  ServiceCIDR: { group: "networking.k8s.io", versions: ["v1", "v1beta1"] },
};

/** The reason why an object is not read although a user may expect it, by `group/kind`. */
const UNREAD_KINDS: ReadonlyMap<string, string> = new Map([
  ["/Endpoints", "is legacy: EndpointSlices are read instead"],
  [
    "kubeproxy.config.k8s.io/KubeProxyConfiguration",
    "is not an object of the API: nft-proxy config --validate FILE checks it",
  ],
]);

/** Maximum nesting of lists in lists. kubectl accepts these, too. */
const DEEPEST_LIST = 4;

/** An object of a document. `path` is within the document. */
export type FoundObject =
  | { readonly kind: "object"; readonly of: ObjectKind; readonly path: string; readonly object: unknown }
  /** An object of a kind that a service proxy does not read. */
  | { readonly kind: "other" }
  | {
      readonly kind: "ignored";
      readonly path: string;
      readonly object: unknown;
      readonly of: string;
      readonly reason: string;
    }
  | { readonly kind: "invalid"; readonly path: string; readonly reason: string };

/** The fields that the items of a list inherit from it: the API server omits them in the items. */
interface Inherited {
  readonly kind?: string;
  readonly apiVersion?: unknown;
}

/**
 * Returns the objects of a document: the document itself, or the items of a `List`, `ServiceList` and so on.
 */
export function objectsIn({ value }: Pick<InputDocument, "value">): FoundObject[] {
  return find(value, "", {}, 0);
}

function find(value: unknown, path: string, inherited: Inherited, depth: number): FoundObject[] {
  if (!isRecord(value))
    return invalid(path, `must be an object with apiVersion and kind, not ${quoted(value)}`);
  const kind = value.kind ?? inherited.kind;
  const apiVersion = value.apiVersion ?? inherited.apiVersion;
  if (typeof kind !== "string" || kind === "") return missing(path, "kind", kind);
  if (typeof apiVersion !== "string" || apiVersion === "") return missing(path, "apiVersion", apiVersion);
  const [group, version] = splitVersion(apiVersion);
  const toItems = inheritance(kind, group, apiVersion);
  if (toItems !== undefined) return itemsOf(value, path, toItems, depth);
  const reason = UNREAD_KINDS.get(`${group}/${kind}`);
  if (reason !== undefined) return [{ kind: "ignored", path, object: value, of: kind, reason }];
  if (!isKnown(kind, group)) return [{ kind: "other" }];
  const { versions } = KNOWN_KINDS[kind];
  if (versions.includes(version)) return [{ kind: "object", of: kind, path, object: value }];
  const known = versions.map((each) => (group === "" ? each : `${group}/${each}`)).join(" or ");
  return invalid(joinPath(path, "apiVersion"), `must be ${known}, not ${quoted(apiVersion)}`);
}

/** Returns the fields that a list's items inherit; undefined if it is not a list, or one of other kinds. */
function inheritance(kind: string, group: string, apiVersion: string): Inherited | undefined {
  if (kind === "List" && group === "") return {};
  const listed = kind.endsWith("List") ? kind.slice(0, -"List".length) : undefined;
  return listed !== undefined && isKnown(listed, group) ? { kind: listed, apiVersion } : undefined;
}

function itemsOf(
  list: Readonly<Record<string, unknown>>,
  path: string,
  inherited: Inherited,
  depth: number,
): FoundObject[] {
  const items = list.items ?? [];
  const itemsPath = joinPath(path, "items");
  if (!Array.isArray(items)) return invalid(itemsPath, `must be an array, not ${quoted(items)}`);
  if (depth === DEEPEST_LIST) return invalid(path, "is a list within too many lists");
  return items.flatMap((item, index) => find(item, joinPath(itemsPath, index), inherited, depth + 1));
}

function missing(path: string, field: string, value: unknown): FoundObject[] {
  const reason = value === undefined || value === null ? "is missing" : `must be text, not ${quoted(value)}`;
  return invalid(joinPath(path, field), reason);
}

function invalid(path: string, reason: string): FoundObject[] {
  return [{ kind: "invalid", path, reason }];
}

function splitVersion(apiVersion: string): readonly [group: string, version: string] {
  const slash = apiVersion.indexOf("/");
  return slash < 0 ? ["", apiVersion] : [apiVersion.slice(0, slash), apiVersion.slice(slash + 1)];
}

function isKnown(kind: string, group: string): kind is ObjectKind {
  return Object.hasOwn(KNOWN_KINDS, kind) && KNOWN_KINDS[kind as ObjectKind].group === group;
}
