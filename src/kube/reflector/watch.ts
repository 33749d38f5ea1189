import { ApiFailure, failureOfAnswer } from "../client/api-failure.ts";
import { type ApiClient, readBody } from "../client/client.ts";
import type { Deadline } from "../client/deadline.ts";
import type { Resource } from "./resources.ts";

/**
 * One line of a watch.
 * Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
 */
export type WatchEvent =
  | { readonly type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK"; readonly object: unknown }
  /** `object` is a metav1.Status. */
  | { readonly type: "ERROR"; readonly object: unknown };

/**
 * Time without data after which a list, or an unanswered watch, counts as hung. API servers time out after 60
 * s. Milliseconds.
 */
export const ANSWER_SILENCE = 60_000;

/**
 * Time without data after which a watch counts as broken. API servers send a bookmark about every minute.
 * Milliseconds.
 */
const WATCH_SILENCE = 75_000;

/** Time after `timeoutSeconds` at which we close a watch. Milliseconds. */
const WATCH_GRACE = 30_000;

/** Options of {@link watchEvents}. */
export interface WatchOptions {
  readonly client: Pick<ApiClient, "request">;
  readonly deadline: Deadline;
  /** The `timeoutSeconds` after which the server is to close the watch. */
  readonly seconds: number;
  /** Returns milliseconds since 1970. */
  readonly now: () => number;
  /** Called when the server has accepted the watch. */
  readonly onOpen: () => void;
}

/**
 * Watches a resource from the resourceVersion `version` on and calls `take` for each event. Resolves when the
 * server closes the watch at the end of a line.
 * @throws ApiFailure for an answer other than 200, a malformed stream or a missed deadline; and anything that
 * the connection or `take` throws
 */
export async function watchEvents(
  resource: Resource,
  version: string,
  options: WatchOptions,
  take: (event: WatchEvent) => void,
): Promise<void> {
  const { client, deadline, seconds } = options;
  deadline.receivesWithin(ANSWER_SILENCE);
  deadline.endsWithin(seconds * 1000 + WATCH_GRACE);
  try {
    const answer = await client.request({
      method: "GET",
      path: resource.path,
      query: {
        ...resource.selectors,
        watch: "1",
        allowWatchBookmarks: "true",
        resourceVersion: version,
        timeoutSeconds: String(seconds),
      },
      signal: deadline.signal,
    });
    if (answer.status !== 200)
      throw failureOfAnswer(answer.status, answer.headers, await readBody(answer.body), options.now());
    options.onOpen();
    const splitter = new LineSplitter();
    deadline.receivesWithin(WATCH_SILENCE);
    for await (const chunk of answer.body) {
      deadline.receivesWithin(WATCH_SILENCE);
      for (const line of splitter.push(chunk)) take(parseWatchEvent(line));
    }
    splitter.end();
  } catch (error) {
    throw deadline.explain(error);
  } finally {
    deadline.close();
  }
}

/** The longest line that is accepted, bytes. Kubernetes objects are far smaller: etcd accepts 1.5 MiB. */
const LONGEST_LINE = 32 * 1024 * 1024;

const NEWLINE = 0x0a;

/** Splits the bytes of a watch into lines. It works on bytes, because a chunk may end within a character. */
export class LineSplitter {
  #pending: Uint8Array[] = [];
  #pendingBytes = 0;

  /**
   * Returns the lines that `chunk` completes, without line ends and without empty lines.
   * @throws ApiFailure (parse, relist) for a line longer than 32 MiB
   */
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

  /**
   * Call this at the end of the stream.
   * @throws ApiFailure (parse, relist) if the stream ended within a line
   */
  end(): void {
    if (this.#pendingBytes > 0) {
      throw new ApiFailure(
        "parse",
        `the watch ended within a line, after ${this.#pendingBytes} bytes of it`,
        { relist: true },
      );
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
      throw new ApiFailure("parse", `a line of the watch is longer than ${LONGEST_LINE} bytes`, {
        relist: true,
      });
  }
}

/**
 * Parses one line of a watch.
 * @throws ApiFailure (parse, relist) if it is not a watch event
 */
function parseWatchEvent(line: string): WatchEvent {
  let event: unknown;
  try {
    event = JSON.parse(line);
  } catch (cause) {
    throw new ApiFailure("parse", "a line of the watch is not JSON", { relist: true, cause });
  }
  if (!isWatchEvent(event))
    throw new ApiFailure("parse", "a line of the watch is not a watch event", { relist: true });
  return event;
}

const TYPES: ReadonlySet<unknown> = new Set(["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]);

function isWatchEvent(value: unknown): value is WatchEvent {
  if (typeof value !== "object" || value === null || !("type" in value) || !("object" in value)) return false;
  return TYPES.has(value.type) && typeof value.object === "object" && value.object !== null;
}
