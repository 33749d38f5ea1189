import { setImmediate as nextTurn } from "node:timers/promises";
import { TURN } from "../../base/pieces.ts";
import { isRecord } from "../../base/text.ts";
import { ApiFailure } from "../client/api-failure.ts";
import type { TimedRequest } from "../client/timed-request.ts";
import type { Resource } from "./resources.ts";

/**
 * One line of a watch.
 * Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
 */
export interface WatchEvent {
  readonly type: (typeof TYPES)[number];
  /** A metav1.Status for ERROR. */
  readonly object: unknown;
}

const TYPES = ["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"] as const;

/**
 * Time without data after which a watch counts as broken. API servers send a bookmark about every minute.
 * Milliseconds.
 */
const WATCH_SILENCE = 75_000;

/** Time after `timeoutSeconds` at which we close a watch. Milliseconds. */
const WATCH_GRACE = 30_000;

/** Options of {@link watchEvents}. */
export interface WatchOptions {
  /** The `timeoutSeconds` after which the server is to close the watch. */
  readonly seconds: number;
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
  request: TimedRequest,
  resource: Resource,
  version: string,
  { seconds, onOpen }: WatchOptions,
  take: (event: WatchEvent) => void,
): Promise<void> {
  const query = {
    ...resource.selectors,
    watch: "1",
    allowWatchBookmarks: "true",
    resourceVersion: version,
    timeoutSeconds: String(seconds),
  };
  request.endsWithin(seconds * 1000 + WATCH_GRACE);
  await request.get({ path: resource.path, query }, async (body) => {
    onOpen();
    request.receivesWithin(WATCH_SILENCE);
    let busy = 0;
    for await (const lines of linesOf(body)) {
      const since = performance.now();
      for (const line of lines) take(parseWatchEvent(line));
      busy += performance.now() - since;
      if (busy < TURN) continue;
      // Node reads up to 2 MB of a stream at once: without this, a sync would wait for them after each step.
      await nextTurn();
      busy = 0;
    }
  });
}

/** The longest line that is accepted, bytes. Kubernetes objects are far smaller: etcd accepts 1.5 MiB. */
const LONGEST_LINE = 32 * 1024 * 1024;

const NEWLINE = 0x0a;

/**
 * Yields the lines that each chunk of a watch completes, without line ends and without empty lines. It works
 * on bytes, because a chunk may end within a character.
 * @throws ApiFailure (parse, relist) for a line longer than 32 MiB, and if the stream ends within a line
 */
export async function* linesOf(body: AsyncIterable<Uint8Array>): AsyncGenerator<string[]> {
  let pending: Uint8Array[] = [];
  let pendingBytes = 0;
  for await (const chunk of body) {
    const lines: string[] = [];
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      const line = Buffer.concat([...pending, chunk.subarray(start, end)]).toString("utf8");
      if (line.trim() !== "") lines.push(line);
      [pending, pendingBytes, start] = [[], 0, end + 1];
    }
    yield lines;
    // An empty rest would keep the chunk in memory until the next line.
    if (start < chunk.length) pending.push(chunk.subarray(start));
    pendingBytes += chunk.length - start;
    if (pendingBytes > LONGEST_LINE)
      throw malformed(`a line of the watch is longer than ${LONGEST_LINE} bytes`);
  }
  if (pendingBytes > 0) throw malformed(`the watch ended within a line, after ${pendingBytes} bytes of it`);
}

/** @throws ApiFailure (parse, relist) if a line of a watch is not an event */
function parseWatchEvent(line: string): WatchEvent {
  let event: unknown;
  try {
    event = JSON.parse(line);
  } catch (cause) {
    throw malformed("a line of the watch is not JSON", cause);
  }
  if (isRecord(event) && TYPES.some((type) => type === event.type) && isRecord(event.object))
    return event as unknown as WatchEvent;
  throw malformed("a line of the watch is not a watch event");
}

function malformed(message: string, cause?: unknown): ApiFailure {
  return new ApiFailure("parse", message, { relist: true, cause });
}
