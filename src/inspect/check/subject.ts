import { splitPath } from "../../base/schema-error.ts";
import type { FieldDiagnostic } from "../../kube/decode/decode.ts";
import { type Diagnostic, inputName } from "../../kube/files/diagnostic.ts";
import type { FileObjects, FromFile } from "../../kube/files/object-gatherer.ts";
import type { EndpointSlice } from "../../model/endpoint-slice.ts";
import type { ServiceName } from "../../model/ids.ts";
import type { Service } from "../../model/service.ts";

/** The subject of a diagnostic: the name and the position of an object. */
export interface Subject extends Pick<FromFile<unknown>, "origin" | "document"> {
  /** `Service namespace/name` */
  readonly object: string;
}

/** Returns a diagnostic of a file; the path of `found` is within the object, "" for the whole object. */
export function locate({ origin, document, object }: Subject, found: FieldDiagnostic): Diagnostic {
  const { path } = found;
  const whole = path === "" || origin.path === "" ? `${origin.path}${path}` : `${origin.path}.${path}`;
  return { ...origin, ...found, path: whole, line: document?.lineOf(splitPath(whole)), object };
}

/** Returns the subjects of diagnostics about Services. */
export function serviceSubjects({
  services,
}: FileObjects): Map<ServiceName, Subject & { readonly value: Service }> {
  return new Map(
    services.map((from) => [from.value.name, { ...from, object: `Service ${from.value.name}` }]),
  );
}

/** Returns the subjects of diagnostics about EndpointSlices. */
export function sliceSubjects({
  endpointSlices,
}: FileObjects): (Subject & { readonly value: EndpointSlice })[] {
  return endpointSlices.map((from) => {
    return { ...from, object: `EndpointSlice ${from.value.namespace}/${from.value.name}` };
  });
}

/** Formats the position of a subject for a message about another one. */
export function placeText({ origin, document }: Subject): string {
  const line = document?.lineOf(splitPath(origin.path));
  return line === undefined
    ? `${inputName(origin.file)}, document ${origin.document}`
    : `${inputName(origin.file)}:${line}`;
}

/** Sorts by file, document and line, errors before warnings of the same place, then by path. */
export function compareDiagnostics(a: Diagnostic, b: Diagnostic): number {
  if (a.file !== b.file) return a.file < b.file ? -1 : 1;
  if (a.document !== b.document) return a.document - b.document;
  if (a.line !== b.line) return (a.line ?? 0) - (b.line ?? 0);
  if (a.severity !== b.severity) return a.severity === "error" ? -1 : 1;
  return a.path.localeCompare(b.path, "en", { numeric: true });
}
