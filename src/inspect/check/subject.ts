import { compareKeys } from "../../base/first-sorted.ts";
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

/** A Service or an EndpointSlice of the files. */
export interface SubjectOf<Value> extends Subject {
  readonly value: Value;
}

/** Returns the subjects of diagnostics about Services. */
export function serviceSubjects({ services }: FileObjects): Map<ServiceName, SubjectOf<Service>> {
  return new Map(
    services.map((from) => [from.value.name, { ...from, object: `Service ${from.value.name}` }]),
  );
}

/** Returns the subjects of diagnostics about EndpointSlices. */
export function sliceSubjects({ endpointSlices }: FileObjects): SubjectOf<EndpointSlice>[] {
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
  const keysOf = ({ file, document, line = 0, severity }: Diagnostic) => {
    return [file, document, line, severity === "error" ? 0 : 1];
  };
  return compareKeys(keysOf(a), keysOf(b)) || a.path.localeCompare(b.path, "en", { numeric: true });
}
