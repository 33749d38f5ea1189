import type { AppError } from "../../base/errors.ts";
import { splitPath } from "../../base/schema-error.ts";
import type { EndpointSlice } from "../../model/endpoint-slice.ts";
import type { EnabledFeatures } from "../../model/features.ts";
import type { Node, ServiceCIDR } from "../../model/node.ts";
import type { Service } from "../../model/service.ts";
import { type Decoded, type FieldDiagnostic, fieldError, fieldWarning } from "../decode/decode.ts";
import { decodeEndpointSlice } from "../decode/endpoint-slice.ts";
import { objectName } from "../decode/metadata.ts";
import { decodeNode, decodeServiceCIDR } from "../decode/node.ts";
import { decodeService } from "../decode/service.ts";
import type { ObjectKind } from "../decode/shape.ts";
import type { AnyObject } from "../source.ts";
import { type Diagnostic, inputName, type Origin } from "./diagnostic.ts";
import { type FoundObject, objectsIn } from "./found-objects.ts";
import { PlaceholderAddresses } from "./placeholder-addresses.ts";
import type { InputDocument } from "./yaml.ts";

/** The position of an object in the files. */
interface Located {
  readonly origin: Origin;
  /** The object's document, with {@link ReadOptions.thorough}. */
  readonly document?: InputDocument | undefined;
}

/** An object and its position. */
export interface FromFile<T> extends Located {
  readonly value: T;
}

/** Returns an object as it is in its document, with the fields that the model does not keep. */
export function writtenBy({ origin, document }: Located): unknown {
  let value = document?.value;
  for (const key of splitPath(origin.path))
    value = (value as Readonly<Record<string, unknown>> | undefined)?.[key];
  return value;
}

/** A valid object that nft-proxy does not handle. */
export interface IgnoredObject extends Located {
  /** `Service namespace/name` */
  readonly object: string;
  /** The reason, as the predicate of a sentence: `is headless`. */
  readonly reason: string;
}

/** An object with errors, which is not used. */
export interface InvalidObject extends Located {
  readonly of: ObjectKind;
  /** `Service namespace/name` */
  readonly object: string;
}

/** The valid objects of some files. All lists are in the order of file, document and position within it. */
export interface FileObjects {
  readonly services: readonly FromFile<Service>[];
  readonly endpointSlices: readonly FromFile<EndpointSlice>[];
  readonly nodes: readonly FromFile<Node>[];
  readonly serviceCIDRs: readonly FromFile<ServiceCIDR>[];
}

/** The contents of some files. */
export interface FilesResult {
  readonly objects: FileObjects;
  /** Diagnostics of all files; an object with an error that is not among `objects` is invalid. */
  readonly diagnostics: readonly Diagnostic[];
  readonly ignored: readonly IgnoredObject[];
  readonly invalid: readonly InvalidObject[];
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

interface Kept extends Located {
  readonly of: ObjectKind;
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
  readonly #invalid: InvalidObject[] = [];
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
      this.#addDiagnostics([fieldError("not-an-object", "", found.reason)], origin, document);
    else this.#legacy.push({ object: objectName(found.of, found.object), reason: found.reason, origin });
  }

  #addObject(of: ObjectKind, raw: unknown, origin: Origin, document: InputDocument): void {
    const { thorough, placeholders, features } = this.#options;
    const assigned = of === "Service" && placeholders ? this.#placeholders.fill(raw) : raw;
    const decoded = DECODERS[of](assigned, features);
    const object = objectName(of, raw);
    if (decoded.kind !== "ignored") this.#addDiagnostics(decoded.diagnostics, origin, document, object);
    const kept = thorough ? document : undefined;
    if (decoded.kind === "invalid") {
      this.#invalid.push({ of, object, origin, document: kept });
      return;
    }
    const earlier = this.#kept.get(object);
    if (earlier !== undefined) {
      const reason = `duplicates the one in ${placeOf(earlier.origin)}; the last wins`;
      this.#addDiagnostics([fieldWarning("duplicate-object", "", reason)], origin, document, object);
      this.#kept.delete(object);
    }
    this.#kept.set(object, { of, origin, decoded, document: kept });
  }

  #addDiagnostics(
    diagnostics: readonly FieldDiagnostic[],
    origin: Origin,
    document: InputDocument,
    object?: string,
  ): void {
    for (const diagnostic of diagnostics) {
      const path = inside(origin.path, diagnostic.path);
      const line = document.lineOf(splitPath(path));
      this.#diagnostics.push({ ...origin, ...diagnostic, path, line, object });
    }
  }

  result(): FilesResult {
    const all = [...this.#kept.entries()];
    const ofKind = <T extends AnyObject>(kind: ObjectKind): FromFile<T>[] =>
      all.flatMap(([, { of, origin, document, decoded }]) =>
        of === kind && decoded.kind === "valid" ? [{ value: decoded.value as T, origin, document }] : [],
      );
    const ignored = all.flatMap(([object, { origin, document, decoded }]) =>
      decoded.kind === "ignored" ? [{ object, reason: decoded.reason, origin, document }] : [],
    );
    return {
      objects: {
        services: ofKind<Service>("Service"),
        endpointSlices: ofKind<EndpointSlice>("EndpointSlice"),
        nodes: ofKind<Node>("Node"),
        serviceCIDRs: ofKind<ServiceCIDR>("ServiceCIDR"),
      },
      diagnostics: this.#diagnostics,
      ignored: [...ignored, ...this.#legacy],
      invalid: this.#invalid,
      otherKinds: this.#otherKinds,
      placeholders: this.#placeholders.count,
    };
  }
}

function inside(prefix: string, path: string): string {
  if (path === "") return prefix;
  return prefix === "" || path.startsWith("[") ? `${prefix}${path}` : `${prefix}.${path}`;
}

function placeOf({ file, document, path }: Origin): string {
  return `${inputName(file)}, document ${document}${path === "" ? "" : `, ${path}`}`;
}
