import { didYouMean } from "../../base/nearest.ts";
import { joinPath } from "../../base/schema-error.ts";
import type { ObjectKind } from "../../kube/decode/shape.ts";
import type { Diagnostic } from "../../kube/files/diagnostic.ts";
import { writtenBy } from "../../kube/files/object-gatherer.ts";
import { errorAt, type Subject } from "./diagnostics.ts";
import { type FieldTree, KNOWN_FIELDS } from "./known-fields.ts";

/** Returns an error for each field that the API does not have, with the nearest field that it has. */
export function unknownFieldErrors(kind: ObjectKind, subject: Subject): Diagnostic[] {
  return errorsIn(writtenBy(subject), KNOWN_FIELDS[kind], "", subject);
}

function errorsIn(value: unknown, fields: FieldTree, path: string, subject: Subject): Diagnostic[] {
  if (Array.isArray(value)) {
    return value.flatMap((item, index) => errorsIn(item, fields, joinPath(path, index), subject));
  }
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) => {
    const known = Object.hasOwn(fields, name) ? fields[name] : undefined;
    if (known === true) return [];
    if (known !== undefined) return errorsIn(inner, known, joinPath(path, name), subject);
    const hint = didYouMean(name, Object.keys(fields));
    const reason = `is not a field of the API${hint === undefined ? "" : `: ${hint}`}`;
    return [errorAt(subject, joinPath(path, name), reason)];
  });
}
