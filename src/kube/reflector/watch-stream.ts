import { ApiFailure } from "../client/api-failure.ts";

/** One line of a watch. Source: Kubernetes API concepts, "Efficient detection of changes". */
export type WatchEvent =
  | { readonly type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK"; readonly object: unknown }
  /** `object` is a metav1.Status. */
  | { readonly type: "ERROR"; readonly object: unknown };

/** No Kubernetes object is near this size (etcd takes 1.5 MiB); a line that is, has no end. */
const LONGEST_LINE = 32 * 1024 * 1024;

const NEWLINE = 0x0a;

/** Cuts a watch's bytes into lines. Works on bytes, as a character may lie across two chunks. */
export class LineSplitter {
  #pending: Uint8Array[] = [];
  #pendingBytes = 0;

  /** The lines that `chunk` completes, without their ends; empty ones left out. Throws ApiFailure on an endless line. */
  push(chunk: Uint8Array): string[] {
    const lines: string[] = [];
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      const line = this.#take(chunk.subarray(start, end));
      if (line.trim() !== "") lines.push(line);
      start = end + 1;
    }
    this.#keep(chunk.subarray(start));
    return lines;
  }

  /** To be called at the end of the stream. Throws ApiFailure if it ended in the middle of a line. */
  end(): void {
    if (this.#pendingBytes > 0) {
      throw new ApiFailure("parse", `the watch ended inside a line, after ${this.#pendingBytes} bytes of it`, {
        relist: true,
      });
    }
  }

  #take(rest: Uint8Array): string {
    const line = Buffer.concat([...this.#pending, rest]).toString("utf8");
    this.#pending = [];
    this.#pendingBytes = 0;
    return line;
  }

  #keep(rest: Uint8Array): void {
    if (rest.length === 0) return;
    this.#pending.push(rest);
    this.#pendingBytes += rest.length;
    if (this.#pendingBytes > LONGEST_LINE)
      throw new ApiFailure("parse", `a line of the watch is longer than ${LONGEST_LINE} bytes`, { relist: true });
  }
}

/** Reads one line of a watch. Throws ApiFailure (parse, relist) if it is no watch event. */
export function parseWatchEvent(line: string): WatchEvent {
  let event: unknown;
  try {
    event = JSON.parse(line);
  } catch (cause) {
    throw new ApiFailure("parse", "a line of the watch is not JSON", { relist: true, cause });
  }
  if (!isWatchEvent(event)) throw new ApiFailure("parse", "a line of the watch is not a watch event", { relist: true });
  return event;
}

const TYPES: ReadonlySet<unknown> = new Set(["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]);

function isWatchEvent(value: unknown): value is WatchEvent {
  if (typeof value !== "object" || value === null || !("type" in value) || !("object" in value)) return false;
  return TYPES.has(value.type) && typeof value.object === "object" && value.object !== null;
}
