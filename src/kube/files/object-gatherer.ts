import type { AppError } from "../../base/errors.ts";
import { joinPath, splitPath } from "../../base/schema-error.ts";
import { isRecord, quoted } from "../../base/text.ts";
import type { EnabledFeatures } from "../../model/features.ts";
import type { ServiceName } from "../../model/ids.ts";
import type { Service } from "../../model/service.ts";
import { type Decoded, type FieldDiagnostic, fieldError, fieldWarning } from "../decode/decode.ts";
import { decodeEndpointSlice } from "../decode/endpoint-slice.ts";
import { objectName } from "../decode/metadata.ts";
import { decodeNode, decodeServiceCIDR } from "../decode/node.ts";
import { decodeService } from "../decode/service.ts";
import type { ObjectKind } from "../decode/shape.ts";
import type { AnyObject, ListedObjects } from "../source.ts";
import { type Diagnostic, inputName, type Origin } from "./diagnostic.ts";
import { PlaceholderAddresses } from "./placeholder-addresses.ts";
import type { InputDocument } from "./yaml.ts";

/** The name of an object, and its position in the files. */
export interface WrittenObject {
  /** Its kind: an {@link ObjectKind}, or another one for an ignored object. */
  readonly of: string;
  /** `Service namespace/name` */
  readonly object: string;
  readonly origin: Origin;
  /** The object's document, with {@link ReadOptions.thorough}. */
  readonly document?: InputDocument | undefined;
}

/** An object that is used. */
export interface FromFile<T> extends WrittenObject {
  readonly value: T;
}

/** Returns an object as it is in its document, with the fields that the model does not keep. */
export function writtenBy({ origin, document }: WrittenObject): unknown {
  let value = document?.value;
  for (const key of splitPath(origin.path))
    value = (value as Readonly<Record<string, unknown>> | undefined)?.[key];
  return value;
}

/** Returns a diagnostic of a file; the path of `found` is within the object, "" for the whole object. */
export function locate(
  { origin, document, object }: Partial<WrittenObject> & Pick<WrittenObject, "origin">,
  found: FieldDiagnostic,
): Diagnostic {
  const path = splitPath(found.path).reduce<string>(joinPath, origin.path);
  return { ...origin, ...found, path, line: document?.lineOf(splitPath(path)), object };
}

/** A valid object that nft-proxy does not handle. */
export interface IgnoredObject extends WrittenObject {
  /** The reason, as the predicate of a sentence: `is headless`. */
  readonly reason: string;
}

/** The valid objects of some files. All lists are in the order of file, document and position within it. */
export type FileObjects = {
  readonly [List in keyof ListedObjects]: readonly FromFile<ListedObjects[List][number]>[];
};

/** The contents of some files. */
export interface FilesResult {
  readonly objects: FileObjects;
  /** Diagnostics of all files; an object with an error that is not among `objects` is invalid. */
  readonly diagnostics: readonly Diagnostic[];
  readonly ignored: readonly IgnoredObject[];
  /** Objects with errors, which are not used. */
  readonly invalid: readonly WrittenObject[];
  /** Number of objects of kinds that a service proxy does not read. */
  readonly otherKinds: number;
  /** Number of Services that were given a placeholder cluster IP. */
  readonly placeholders: number;
}

/** Options of reading files. */
export interface ReadOptions {
  /**
   * Continue after a malformed file, keep the documents of objects, which takes memory, and reject duplicate
   * keys in JSON, too.
   */
  readonly thorough?: boolean;
  /** Assign placeholder cluster IPs to Services without one, which are ignored otherwise. */
  readonly placeholders?: boolean;
  /** All if absent. */
  readonly features?: EnabledFeatures | undefined;
}

/** A kind that is read: its API group, the versions that have the fields in use, and its decoder. */
interface Kind {
  readonly group: string;
  readonly versions: readonly string[];
  readonly decode: (object: unknown, enabled?: EnabledFeatures) => Decoded<AnyObject>;
}

const KINDS: Readonly<Record<ObjectKind, Kind>> = {
  Service: { group: "", versions: ["v1"], decode: decodeService },
  EndpointSlice: { group: "discovery.k8s.io", versions: ["v1"], decode: decodeEndpointSlice },
  Node: { group: "", versions: ["v1"], decode: decodeNode },
  ServiceCIDR: { group: "networking.k8s.io", versions: ["v1", "v1beta1"], decode: decodeServiceCIDR },
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

/**
 * kustomize's own file, whose kind and apiVersion may be missing
 * (https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/).
 */
const KUSTOMIZATION = /(?:^|\/)(?:kustomization\.ya?ml|Kustomization)$/;

/** A position in the files, and its document. */
type Place = Pick<WrittenObject, "origin" | "document">;

/** The fields that items inherit from their list. */
type Inherited = Readonly<Partial<Record<"kind" | "apiVersion", string>>>;

interface Kept extends WrittenObject {
  readonly decoded: Exclude<Decoded<AnyObject>, { readonly kind: "invalid" }>;
}

/**
 * Collects the objects of documents, which must be added in order: of two objects with the same name, the
 * later wins.
 */
export class ObjectGatherer {
  readonly #kept = new Map<string, Kept>();
  readonly #diagnostics: Diagnostic[] = [];
  readonly #legacy: IgnoredObject[] = [];
  readonly #invalid: WrittenObject[] = [];
  readonly #options: ReadOptions;
  readonly #placeholders = new PlaceholderAddresses();
  #otherKinds = 0;

  constructor(options: ReadOptions) {
    this.#options = options;
  }

  /** Adds an error for a file that cannot be parsed. */
  addMalformed(file: string, { message, evidence }: AppError): void {
    const { line, reason = message } = evidence;
    const known = line === undefined ? {} : { line: Number(line) };
    this.#diagnostics.push({ file, document: 1, ...known, ...fieldError("unreadable-file", "", reason) });
  }

  /** Adds a warning for a file or directory without any object, which is likely a mistake. */
  addEmpty(file: string, reason: string): void {
    this.#diagnostics.push({ file, document: 1, ...fieldWarning("empty-file", "", reason) });
  }

  addDocument(file: string, document: InputDocument): void {
    if (KUSTOMIZATION.test(file)) this.#otherKinds += 1;
    else this.#addValue(document.value, { origin: { file, document: document.number, path: "" }, document });
  }

  /**
   * Adds an object, or the items of a `List`, `ServiceList` and so on.
   * @param inherited the fields that an item of a list has from it: the API server omits them in items
   * @param depth the number of lists that the value is in
   */
  #addValue(value: unknown, place: Place, inherited: Inherited = {}, depth = 0): void {
    if (!isRecord(value)) {
      this.#refuse(place, "", `must be an object with apiVersion and kind, not ${quoted(value)}`);
      return;
    }
    const kind = value.kind ?? inherited.kind;
    const apiVersion = value.apiVersion ?? inherited.apiVersion;
    if (typeof kind !== "string" || kind === "") this.#refuse(place, "kind", notText(kind));
    else if (typeof apiVersion !== "string" || apiVersion === "")
      this.#refuse(place, "apiVersion", notText(apiVersion));
    else this.#addTyped(value, kind, apiVersion, place, depth);
  }

  #addTyped(value: object, kind: string, apiVersion: string, place: Place, depth: number): void {
    const [group, version] = splitVersion(apiVersion);
    const toItems = inheritance(kind, group, apiVersion);
    const unread = UNREAD_KINDS.get(`${group}/${kind}`);
    if (toItems !== undefined) this.#addItems(value, toItems, place, depth);
    else if (unread !== undefined)
      this.#legacy.push({ of: kind, object: objectName(kind, value), reason: unread, origin: place.origin });
    else if (!isKnown(kind, group)) this.#otherKinds += 1;
    else if (KINDS[kind].versions.includes(version)) this.#addObject(kind, value, place);
    else {
      const known = KINDS[kind].versions.map((each) => (group === "" ? each : `${group}/${each}`));
      this.#refuse(place, "apiVersion", `must be ${known.join(" or ")}, not ${quoted(apiVersion)}`);
    }
  }

  #addItems(list: { readonly items?: unknown }, inherited: Inherited, place: Place, depth: number): void {
    const items = list.items ?? [];
    const path = joinPath(place.origin.path, "items");
    if (!Array.isArray(items)) this.#refuse(place, "items", `must be an array, not ${quoted(items)}`);
    else if (depth === DEEPEST_LIST) this.#refuse(place, "", "is a list within too many lists");
    else
      for (const [index, item] of items.entries()) {
        const origin = { ...place.origin, path: joinPath(path, index) };
        this.#addValue(item, { ...place, origin }, inherited, depth + 1);
      }
  }

  /** Adds an error for a document or item that cannot be read as an object. @param field "" for the whole */
  #refuse(place: Place, field: string, reason: string): void {
    this.#diagnostics.push(locate(place, fieldError("not-an-object", field, reason)));
  }

  #addObject(of: ObjectKind, raw: unknown, place: Place): void {
    const { thorough, placeholders, features } = this.#options;
    const assigned = of === "Service" && placeholders ? this.#placeholders.fill(raw) : raw;
    const decoded = KINDS[of].decode(assigned, features);
    const object = objectName(of, raw);
    const written = { of, object, ...place };
    if (decoded.kind !== "ignored")
      this.#diagnostics.push(...decoded.diagnostics.map((one) => locate(written, one)));
    const kept = thorough ? written : { ...written, document: undefined };
    if (decoded.kind === "invalid") {
      this.#invalid.push(kept);
      return;
    }
    const earlier = this.#kept.get(object);
    if (earlier !== undefined) {
      const reason = `duplicates the one in ${placeText(earlier)}; the last wins`;
      this.#diagnostics.push(locate(written, fieldWarning("duplicate-object", "", reason)));
      this.#kept.delete(object);
    }
    this.#kept.set(object, { ...kept, decoded });
  }

  result(): FilesResult {
    const all = [...this.#kept.values()];
    const ofKind = <T extends AnyObject>(kind: ObjectKind): FromFile<T>[] =>
      all.flatMap(({ decoded, ...written }) =>
        written.of === kind && decoded.kind === "valid" ? [{ ...written, value: decoded.value as T }] : [],
      );
    const ignored = all.flatMap(({ decoded, ...written }) =>
      decoded.kind === "ignored" ? [{ ...written, reason: decoded.reason }] : [],
    );
    return {
      objects: {
        services: ofKind("Service"),
        endpointSlices: ofKind("EndpointSlice"),
        nodes: ofKind("Node"),
        serviceCIDRs: ofKind("ServiceCIDR"),
      },
      diagnostics: this.#diagnostics,
      ignored: [...ignored, ...this.#legacy],
      invalid: this.#invalid,
      otherKinds: this.#otherKinds,
      placeholders: this.#placeholders.count,
    };
  }
}

/** Returns the fields that a list's items inherit; undefined if it is not a list, or one of other kinds. */
function inheritance(kind: string, group: string, apiVersion: string): Inherited | undefined {
  if (kind === "List" && group === "") return {};
  const listed = kind.endsWith("List") ? kind.slice(0, -"List".length) : "";
  return isKnown(listed, group) ? { kind: listed, apiVersion } : undefined;
}

function isKnown(kind: string, group: string): kind is ObjectKind {
  return Object.hasOwn(KINDS, kind) && KINDS[kind as ObjectKind].group === group;
}

function notText(value: unknown): string {
  return value === undefined || value === null ? "is missing" : `must be text, not ${quoted(value)}`;
}

function splitVersion(apiVersion: string): readonly [group: string, version: string] {
  const slash = apiVersion.indexOf("/");
  return [apiVersion.slice(0, Math.max(slash, 0)), apiVersion.slice(slash + 1)];
}

/** Returns the Services by name. */
export function servicesByName({ services }: FileObjects): Map<ServiceName, FromFile<Service>> {
  return new Map(services.map((from) => [from.value.name, from]));
}

/** Formats the position of an object for a message about another one. */
export function placeText({ origin: { file, document: number, path }, document }: WrittenObject): string {
  const line = document?.lineOf(splitPath(path));
  if (line !== undefined) return `${inputName(file)}:${line}`;
  return `${inputName(file)}, document ${number}${path === "" ? "" : `, ${path}`}`;
}
