import { AppError, messageOf } from "../../base/errors.ts";
import type { FieldDiagnostic } from "../decode/decode.ts";

/** Where in the input something stands. */
export interface Origin {
  /** As it was named, or found under a directory that was; `-` is standard input. */
  readonly file: string;
  /** From 1, in files of several documents. */
  readonly document: number;
  /** From 1; absent where it is not known, as in long lists that are read item by item. */
  readonly line?: number;
  /** The object's path within its document: `items[3]`, "" for a document of its own. */
  readonly path: string;
}

/** Something wrong with what was read. Its path is within the document, or "" for the whole. */
export interface Diagnostic extends Origin, FieldDiagnostic {
  /** `Service namespace/name`, as far as that could be read. */
  readonly object?: string;
}

/** Where in a text something stands, both from 1. */
export interface Position {
  readonly line: number;
  readonly column: number;
}

/** An input of which nothing can be used. */
export function unreadable(file: string, reason: string, position?: Position, hint?: string): AppError {
  const name = file === "-" ? "standard input" : file;
  const place = position === undefined ? name : `${name}:${position.line}:${position.column}`;
  return new AppError("UNREADABLE_INPUT", `cannot read ${place}: ${reason}`, {
    ...(hint === undefined ? {} : { hint }),
    evidence: { file, ...(position === undefined ? {} : { line: String(position.line) }), reason },
  });
}

/** What the system says of a file, without its own words for the file and the call. */
export function systemReason(error: unknown): string {
  return messageOf(error).replace(/^E[A-Z]+: ([^,]*),.*$/s, "$1");
}

/**
 * No cluster is without any Service. Files that hold none are a mistake, or a directory that is being swapped: taken
 * for an empty cluster, they would cut off all traffic.
 * @param objects how many Services, EndpointSlices and ServiceCIDRs were read
 * @throws AppError UNREADABLE_INPUT when there are none
 */
export function refuseNothing(objects: number): void {
  if (objects > 0) return;
  throw new AppError("UNREADABLE_INPUT", "the files hold no Service, EndpointSlice or ServiceCIDR", {
    hint: "the kernel's rules stay as they are; nft-proxy cleanup removes them",
  });
}

/** The position of an offset into a text. */
export function positionAt(text: string, offset: number): Position {
  const before = text.slice(0, offset);
  return { line: before.split("\n").length, column: offset - before.lastIndexOf("\n") };
}
