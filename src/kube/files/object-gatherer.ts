import type { AppError } from "../../base/errors.ts";
import { joinPath, splitPath } from "../../base/schema-error.ts";
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
import { type FoundObject, objectsIn } from "./found-objects.ts";
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

const DECODERS: Readonly<
  Record<ObjectKind, (object: unknown, enabled?: EnabledFeatures) => Decoded<AnyObject>>
> = {
  Service: decodeService,
  EndpointSlice: decodeEndpointSlice,
  Node: decodeNode,
  ServiceCIDR: decodeServiceCIDR,
};

/**
 * kustomize's own file, whose kind and apiVersion may be missing
 * (https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/).
 */
const KUSTOMIZATION = /(?:^|\/)(?:kustomization\.ya?ml|Kustomization)$/;

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
    else for (const found of objectsIn(document)) this.#addFound(found, file, document);
  }

  #addFound(found: FoundObject, file: string, document: InputDocument): void {
    if (found.kind === "other") {
      this.#otherKinds += 1;
      return;
    }
    const origin = { file, document: document.number, path: found.path };
    const { kind } = found;
    if (kind === "object") this.#addObject(found.of, found.object, origin, document);
    else if (kind === "invalid")
      this.#diagnostics.push(locate({ origin, document }, fieldError("not-an-object", "", found.reason)));
    else {
      const { of, reason } = found;
      this.#legacy.push({ of, object: objectName(of, found.object), reason, origin });
    }
  }

  #addObject(of: ObjectKind, raw: unknown, origin: Origin, document: InputDocument): void {
    const { thorough, placeholders, features } = this.#options;
    const assigned = of === "Service" && placeholders ? this.#placeholders.fill(raw) : raw;
    const decoded = DECODERS[of](assigned, features);
    const object = objectName(of, raw);
    const written = { of, object, origin, document };
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
