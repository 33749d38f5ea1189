import type { AppError } from "../../base/errors.ts";
import { splitPath } from "../../base/schema-error.ts";
import type { EndpointSlice } from "../../model/endpoint-slice.ts";
import type { Node, ServiceCIDR } from "../../model/node.ts";
import type { Service } from "../../model/service.ts";
import type { Decoded, FieldDiagnostic } from "../decode/decode.ts";
import { decodeEndpointSlice } from "../decode/endpoint-slice.ts";
import { decodeNode } from "../decode/node.ts";
import { decodeService } from "../decode/service.ts";
import { decodeServiceCIDR } from "../decode/service-cidr.ts";
import type { ObjectKind } from "../decode/shape.ts";
import type { Diagnostic, Origin } from "./diagnostic.ts";
import { type FoundObject, objectsIn } from "./found-objects.ts";
import { objectName } from "./object-name.ts";
import { PlaceholderAddresses } from "./placeholder-addresses.ts";
import type { InputDocument } from "./yaml.ts";

/** An object and where it was read. */
export interface FromFile<T> {
  readonly value: T;
  readonly origin: Origin;
  /** The document it is in, when documents were to be kept. */
  readonly document?: InputDocument;
}

/** An object that is sound, but not for a service proxy. */
export interface IgnoredObject extends Omit<FromFile<never>, "value"> {
  /** `Service namespace/name` */
  readonly object: string;
  readonly reason: string;
}

/** What was read. All lists are in the order of file, document and place within it. */
export interface FileObjects {
  readonly services: readonly FromFile<Service>[];
  readonly endpointSlices: readonly FromFile<EndpointSlice>[];
  readonly nodes: readonly FromFile<Node>[];
  readonly serviceCIDRs: readonly FromFile<ServiceCIDR>[];
}

/** All that was found in some files. */
export interface FilesResult {
  readonly objects: FileObjects;
  /** Everything that is wrong: objects with an error and no entry in `objects` were refused. */
  readonly problems: readonly Diagnostic[];
  readonly ignored: readonly IgnoredObject[];
  /** How many objects of other kinds there were. */
  readonly foreign: number;
  /** How many Services were read with a stand-in for the cluster IP that they do not have yet. */
  readonly placeholders: number;
}

/** What a gatherer does beyond gathering. */
export interface GathererOptions {
  /** What is kept keeps the document it was read from, which may be large. */
  readonly keepDocuments: boolean;
  /** Services without a cluster IP are read with a stand-in, and not passed over. */
  readonly placeholders: boolean;
}

type AnyObject = Service | EndpointSlice | Node | ServiceCIDR;

const DECODERS: Readonly<Record<ObjectKind, (object: unknown) => Decoded<AnyObject>>> = {
  Service: decodeService,
  EndpointSlice: decodeEndpointSlice,
  Node: decodeNode,
  ServiceCIDR: decodeServiceCIDR,
};

interface Kept {
  readonly of: ObjectKind;
  readonly origin: Origin;
  readonly document: Pick<FromFile<never>, "document">;
  readonly decoded: Exclude<Decoded<AnyObject>, { readonly kind: "refused" }>;
}

/** Gathers what documents hold. To be given them in order: a later object replaces an earlier of its name. */
export class ObjectGatherer {
  readonly #kept = new Map<string, Kept>();
  readonly #problems: Diagnostic[] = [];
  readonly #legacy: IgnoredObject[] = [];
  readonly #options: GathererOptions;
  readonly #placeholders = new PlaceholderAddresses();
  #foreign = 0;

  constructor(options: GathererOptions) {
    this.#options = options;
  }

  /** Nothing of a file can be used, for this reason. */
  addUnreadable(file: string, { message, evidence }: AppError): void {
    const { line, reason = message } = evidence;
    const known = line === undefined ? {} : { line: Number(line) };
    this.#problems.push({ file, document: 1, ...known, path: "", reason, severity: "error" });
  }

  /** A file or directory was named that has nothing in it, which is hardly meant. */
  addEmpty(file: string, reason: string): void {
    this.#problems.push({ file, document: 1, path: "", reason, severity: "warning" });
  }

  /** Takes all objects in a document. */
  addDocument(file: string, document: InputDocument): void {
    for (const found of objectsIn(document)) this.#addFound(found, file, document);
  }

  #addFound(found: FoundObject, file: string, document: InputDocument): void {
    if (found.kind === "foreign") {
      this.#foreign += 1;
      return;
    }
    const origin = { file, document: document.number, path: found.path };
    const { kind } = found;
    if (kind === "object") this.#addObject(found.of, found.object, origin, document);
    else if (kind === "fault")
      this.#addFaults([{ path: "", reason: found.reason, severity: "error" }], origin, document);
    else this.#legacy.push({ object: objectName(found.of, found.object), reason: found.reason, origin });
  }

  #addObject(of: ObjectKind, raw: unknown, origin: Origin, document: InputDocument): void {
    const decoded = DECODERS[of](of === "Service" && this.#options.placeholders ? this.#placeholders.fill(raw) : raw);
    const object = objectName(of, raw);
    if (decoded.kind !== "ignored") this.#addFaults(decoded.faults, origin, document, object);
    if (decoded.kind === "refused") return;
    const earlier = this.#kept.get(object);
    if (earlier !== undefined) {
      const reason = `duplicates the one in ${placeOf(earlier.origin)}; the last wins`;
      this.#addFaults([{ path: "", reason, severity: "warning" }], origin, document, object);
      this.#kept.delete(object);
    }
    this.#kept.set(object, { of, origin, decoded, document: this.#options.keepDocuments ? { document } : {} });
  }

  #addFaults(faults: readonly FieldDiagnostic[], origin: Origin, document: InputDocument, object?: string): void {
    for (const fault of faults) {
      const path = inside(origin.path, fault.path);
      const line = document.lineOf(splitPath(path));
      const known = { ...(line === undefined ? {} : { line }), ...(object === undefined ? {} : { object }) };
      this.#problems.push({ ...origin, ...fault, path, ...known });
    }
  }

  /** What came of all documents. */
  result(): FilesResult {
    const all = [...this.#kept.entries()];
    const ofKind = <T extends AnyObject>(kind: ObjectKind): FromFile<T>[] =>
      all.flatMap(([, { of, origin, document, decoded }]) =>
        of === kind && decoded.kind === "ours" ? [{ value: decoded.value as T, origin, ...document }] : [],
      );
    const ignored = all.flatMap(([object, { origin, document, decoded }]) =>
      decoded.kind === "ignored" ? [{ object, reason: decoded.reason, origin, ...document }] : [],
    );
    return {
      objects: {
        services: ofKind<Service>("Service"),
        endpointSlices: ofKind<EndpointSlice>("EndpointSlice"),
        nodes: ofKind<Node>("Node"),
        serviceCIDRs: ofKind<ServiceCIDR>("ServiceCIDR"),
      },
      problems: this.#problems,
      ignored: [...ignored, ...this.#legacy],
      foreign: this.#foreign,
      placeholders: this.#placeholders.count,
    };
  }
}

function inside(prefix: string, path: string): string {
  if (path === "") return prefix;
  return prefix === "" || path.startsWith("[") ? `${prefix}${path}` : `${prefix}.${path}`;
}

function placeOf({ file, document, path }: Origin): string {
  return `${file}, document ${document}${path === "" ? "" : `, ${path}`}`;
}
