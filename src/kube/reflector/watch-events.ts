import { failureOfAnswer } from "../client/api-failure.ts";
import { type ApiClient, readText } from "../client/client.ts";
import type { Deadline } from "../client/deadline.ts";
import type { ReflectorTimings } from "./reflector-timings.ts";
import type { Resource } from "./resources.ts";
import { LineSplitter, parseWatchEvent, type WatchEvent } from "./watch-stream.ts";

/** What a watch needs besides the resource. */
export interface WatchOptions {
  readonly client: ApiClient;
  readonly deadline: Deadline;
  readonly timings: ReflectorTimings;
  /** What the server is asked to end the watch after. */
  readonly seconds: number;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** Called when the server has accepted the watch. */
  readonly onOpen: () => void;
}

/**
 * Watches a resource from `version` on and gives each event to `take`. Resolves when the server ends the watch at the
 * end of a line. Throws ApiFailure for anything else, and whatever the connection or `take` throws.
 */
export async function watchEvents(
  resource: Resource,
  version: string,
  options: WatchOptions,
  take: (event: WatchEvent) => void,
): Promise<void> {
  const { client, deadline, timings, seconds } = options;
  deadline.heardWithin(timings.answerSilence);
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
    await readEvents(answer.body, () => deadline.heardWithin(timings.watchSilence), take);
  } catch (error) {
    throw deadline.explain(error);
  } finally {
    deadline.close();
  }
}

async function readEvents(
  body: AsyncIterable<Uint8Array>,
  onHeard: () => void,
  take: (event: WatchEvent) => void,
): Promise<void> {
  const splitter = new LineSplitter();
  onHeard();
  for await (const chunk of body) {
    onHeard();
    for (const line of splitter.push(chunk)) take(parseWatchEvent(line));
  }
  splitter.end();
}
