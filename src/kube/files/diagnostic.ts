import { AppError, type ErrorDetails, messageOf } from "../../base/errors.ts";
import { compareKeys } from "../../base/first-sorted.ts";
import { escapeUnprintable } from "../../base/text.ts";
import type { FieldDiagnostic } from "../decode/decode.ts";

/** A position in the input files. */
export interface Origin {
  /** The file as it was named on the command line, or found in a directory; `-` is standard input. */
  readonly file: string;
  /** The number of the document in its file, from 1. */
  readonly document: number;
  /** From 1; absent if it is not known, as in long lists that are parsed item by item. */
  readonly line?: number | undefined;
  /** The object's path within its document: `items[3]`, "" for a document of its own. */
  readonly path: string;
}

/** A diagnostic about an input file. Its path is within the document, "" for the whole document. */
export interface Diagnostic extends Origin, FieldDiagnostic {
  /** `Service namespace/name`, if the object has a name. */
  readonly object?: string | undefined;
}

/** Sorts by file, document and line, errors before warnings of the same place, then by path. */
export function compareDiagnostics(a: Diagnostic, b: Diagnostic): number {
  const keysOf = ({ file, document, line = 0, severity }: Diagnostic) => {
    return [file, document, line, severity === "error" ? 0 : 1];
  };
  return compareKeys(keysOf(a), keysOf(b)) || a.path.localeCompare(b.path, "en", { numeric: true });
}

/** A position in a text, both numbers from 1. */
export interface Position {
  readonly line: number;
  readonly column: number;
}

/**
 * The name of a file in messages, escaped: a pull request may name a file so that a line of output is a
 * command to CI.
 */
export function inputName(file: string): string {
  return file === "-" ? "standard input" : escapeUnprintable(file);
}

/**
 * Returns the error UNREADABLE_INPUT for a file that cannot be read or parsed. A cause is given only if it
 * cannot be read.
 */
export function unreadable(
  file: string,
  reason: string,
  position?: Position,
  details: Pick<ErrorDetails, "hint" | "cause"> = {},
): AppError {
  const name = inputName(file);
  const place = position === undefined ? name : `${name}:${position.line}:${position.column}`;
  return new AppError("UNREADABLE_INPUT", `cannot read ${place}: ${reason}`, {
    ...details,
    evidence: { file: name, ...(position === undefined ? {} : { line: String(position.line) }), reason },
  });
}

/** Returns the message of a system error, without its code, the system call and the path. */
export function systemReason(error: unknown): string {
  const reason = messageOf(error).replace(/^E[A-Z]+: ([^,]*),.*$/s, "$1");
  return reason === "illegal operation on a directory" ? "it is a directory" : reason;
}

/**
 * Rejects input without any object: every cluster has a Service, so this is a mistake, or a directory that is
 * being replaced. Treated as an empty cluster, it would remove all rules.
 * @param objects number of Services, EndpointSlices and ServiceCIDRs that were read
 * @throws AppError UNREADABLE_INPUT when `objects` is 0
 */
export function refuseNoObjects(objects: number): void {
  if (objects > 0) return;
  throw new AppError("UNREADABLE_INPUT", "the files contain no Service, EndpointSlice or ServiceCIDR", {
    hint: "the kernel's rules stay as they are; nft-proxy cleanup removes them",
  });
}

/** Converts an offset into a text to a position. */
export function positionAt(text: string, offset: number): Position {
  const before = text.slice(0, offset);
  return { line: before.split("\n").length, column: offset - before.lastIndexOf("\n") };
}
