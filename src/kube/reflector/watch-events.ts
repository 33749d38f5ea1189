import { failureOfAnswer } from "../client/api-failure.ts";
import { type ApiClient, readText } from "../client/client.ts";
import type { Deadline } from "../client/deadline.ts";
import type { ReflectorTimings } from "./reflector-timings.ts";
import type { Resource } from "./resources.ts";
import { LineSplitter, parseWatchEvent, type WatchEvent } from "./watch-stream.ts";

/** Options of {@link watchEvents}. */
export interface WatchOptions {
  readonly client: ApiClient;
  readonly deadline: Deadline;
  readonly timings: ReflectorTimings;
  /** The `timeoutSeconds` after which the server is to close the watch. */
  readonly seconds: number;
  /** Returns milliseconds since 1970. */
  readonly now: () => number;
  /** Called when the server has accepted the watch. */
  readonly onOpen: () => void;
}

/**
 * Watches a resource from the resourceVersion `version` on and calls `take` for each event. Resolves when the server
 * closes the watch at the end of a line.
 * @throws ApiFailure for an answer other than 200, a malformed stream or a missed deadline; and anything that the
 * connection or `take` throws
 */
export async function watchEvents(
  resource: Resource,
  version: string,
  options: WatchOptions,
  take: (event: WatchEvent) => void,
): Promise<void> {
  const { client, deadline, timings, seconds } = options;
  deadline.receivesWithin(timings.answerSilence);
  deadline.endsWithin(seconds * 1000 + timings.watchGrace);
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
      throw failureOfAnswer(answer.status, answer.headers, await readText(answer.body), options.now());
    options.onOpen();
    await readEvents(answer.body, () => deadline.receivesWithin(timings.watchSilence), take);
  } catch (error) {
    throw deadline.explain(error);
  } finally {
    deadline.close();
  }
}

async function readEvents(
  body: AsyncIterable<Uint8Array>,
  onData: () => void,
  take: (event: WatchEvent) => void,
): Promise<void> {
  const splitter = new LineSplitter();
  onData();
  for await (const chunk of body) {
    onData();
    for (const line of splitter.push(chunk)) take(parseWatchEvent(line));
  }
  splitter.end();
}
