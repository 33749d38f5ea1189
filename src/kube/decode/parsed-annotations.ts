import { joinPath } from "../../base/schema-error.ts";
import { type FieldDiagnostic, fieldWarning } from "./decode.ts";
import type { RawService } from "./raw-service.ts";

/** An annotation, and its parser: returns a part of the value, or why it has none, as a predicate. */
export type AnnotationParser<Part extends object> = readonly [
  annotation: string,
  parse: (text: string) => Part | { readonly reason: string },
];

/**
 * Parses several annotations of a Service that make one value. Invalid ones are ignored.
 * @param diagnostics takes a warning about each of these
 * @returns the parts of the value together, and which annotations are ignored and why, if any is
 */
export function parsedAnnotations<Part extends object>(
  { annotations }: RawService["metadata"],
  parsers: readonly AnnotationParser<Part>[],
  diagnostics: FieldDiagnostic[],
): { readonly parts: Partial<Part>; readonly ignored: string | undefined } {
  let parts: Partial<Part> = {};
  const ignored: string[] = [];
  for (const [annotation, parse] of parsers) {
    const text = annotations?.[annotation];
    if (text === undefined || text === null) continue;
    const parsed = parse(text);
    if (!("reason" in parsed)) {
      parts = { ...parts, ...parsed };
      continue;
    }
    const path = joinPath("metadata.annotations", annotation);
    diagnostics.push(fieldWarning("invalid-annotation", path, `${parsed.reason}; it is ignored`));
    ignored.push(`${annotation} ${parsed.reason}`);
  }
  return { parts, ignored: ignored.length > 0 ? ignored.join("; ") : undefined };
}
