import { splitPath } from "../../base/schema-error.ts";
import { type Diagnostic, inputName } from "../../kube/files/diagnostic.ts";
import type { FromFile } from "../../kube/files/object-gatherer.ts";

/** The subject of a diagnostic: the name and the position of an object. */
export interface Subject extends Pick<FromFile<unknown>, "origin" | "document"> {
  /** `Service namespace/name` */
  readonly object: string;
}

/** Returns a warning about a field of an object; `path` is within the object, "" for the whole object. */
export function warningAt({ origin, document, object }: Subject, path: string, reason: string): Diagnostic {
  const whole = path === "" || origin.path === "" ? `${origin.path}${path}` : `${origin.path}.${path}`;
  const line = document?.lineOf(splitPath(whole));
  return {
    ...origin,
    path: whole,
    ...(line === undefined ? {} : { line }),
    object,
    reason,
    severity: "warning",
  };
}

/** As {@link warningAt}, with the severity error. */
export function errorAt(subject: Subject, path: string, reason: string): Diagnostic {
  return { ...warningAt(subject, path, reason), severity: "error" };
}

/** Formats the position of a subject for a message about another one. */
export function placeText({ origin, document }: Subject): string {
  const line = document?.lineOf(splitPath(origin.path));
  return line === undefined
    ? `${inputName(origin.file)}, document ${origin.document}`
    : `${inputName(origin.file)}:${line}`;
}

/** Sorts by file, document and line, errors before warnings of the same place. */
export function compareDiagnostics(a: Diagnostic, b: Diagnostic): number {
  if (a.file !== b.file) return a.file < b.file ? -1 : 1;
  if (a.document !== b.document) return a.document - b.document;
  if (a.line !== b.line) return (a.line ?? 0) - (b.line ?? 0);
  if (a.severity !== b.severity) return a.severity === "error" ? -1 : 1;
  return a.path < b.path ? -1 : a.path > b.path ? 1 : 0;
}
