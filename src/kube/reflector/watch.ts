import { setImmediate as nextTurn } from "node:timers/promises";
import { TURN } from "../../base/pieces.ts";
import { isRecord, parsedJson } from "../../base/text.ts";
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
interface WatchOptions {
  /** The `timeoutSeconds` after which the server is to close the watch. */
  readonly seconds: number;
  /** Called when the server has accepted the watch. */
  readonly onOpen: () => void;
  /** Called for each event. */
  readonly take: (event: WatchEvent) => void;
}

/**
 * Watches a resource from the resourceVersion `version` on. Resolves when the server closes the watch at the
 * end of a line.
 * @throws ApiFailure for an answer other than 200, a malformed stream or a missed deadline; and anything that
 * the connection or `take` throws
 */
export async function watchEvents(
  request: TimedRequest,
  resource: Resource,
  version: string,
  { seconds, onOpen, take }: WatchOptions,
): Promise<void> {
  const query = {
    ...resource.selectors,
    watch: "1",
    allowWatchBookmarks: "true",
    resourceVersion: version,
    timeoutSeconds: String(seconds),
  };
  await request.get({ path: resource.path, query }, seconds * 1000 + WATCH_GRACE, async (texts) => {
    onOpen();
    request.receivesWithin(WATCH_SILENCE);
    let busy = 0;
    for await (const lines of linesOf(texts)) {
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

/**
 * The longest line that is accepted, characters. Kubernetes objects are far smaller: etcd accepts 1.5 MiB.
 */
const LONGEST_LINE = 32 * 1024 * 1024;

/**
 * Yields the lines that each piece of a watch's text completes, without line ends and without empty lines.
 * @throws ApiFailure (parse, relist) for a line that is too long, and if the text ends within a line
 */
export async function* linesOf(texts: AsyncIterable<string>): AsyncGenerator<string[]> {
  let pending = "";
  for await (const text of texts) {
    // A long line comes in many pieces: joining and searching it anew for each would take quadratic time.
    const end = text.lastIndexOf("\n");
    if (end !== -1) yield `${pending}${text.slice(0, end)}`.split("\n").filter((line) => line.trim() !== "");
    pending = end === -1 ? pending + text : text.slice(end + 1);
    if (pending.length > LONGEST_LINE)
      throw malformed(`a line of the watch is longer than ${LONGEST_LINE} characters`);
  }
  if (pending !== "")
    throw malformed(`the watch ended within a line, after ${pending.length} characters of it`);
}

/** @throws ApiFailure (parse, relist) if a line of a watch is not an event */
function parseWatchEvent(line: string): WatchEvent {
  const event = parsedJson(line);
  if (isRecord(event) && TYPES.some((type) => type === event.type) && isRecord(event.object))
    return event as unknown as WatchEvent;
  throw malformed("a line of the watch is not a watch event");
}

function malformed(message: string): ApiFailure {
  return new ApiFailure("parse", message, { relist: true });
}
