import { StringDecoder } from "node:string_decoder";
import { ApiFailure, failureOfAnswer } from "../client/api-failure.ts";
import { type ApiClient, readText } from "../client/client.ts";
import type { Deadline } from "../client/deadline.ts";
import { ListDecoder } from "../decode/list-decoder.ts";
import { metadataOf } from "../decode/metadata.ts";
import type { Resource } from "./resources.ts";

/** Objects in one answer, as client-go's pager asks for. */
const PAGE_SIZE = 500;

/** Options of {@link listPages}. */
export interface ListOptions {
  readonly client: ApiClient;
  /** Returns a new one for each page. */
  readonly deadline: () => Deadline;
  /** Milliseconds without data after which a page counts as hung. */
  readonly silence: number;
  /** Returns milliseconds since 1970. */
  readonly now: () => number;
}

/**
 * Lists a resource in pages with resourceVersion unset (the newest state, consistent across pages), and calls `take` for
 * each object as it arrives.
 * @returns the resourceVersion to watch from
 * @throws ApiFailure for an answer other than 200, a malformed list or a missed deadline; and anything that the connection
 * or `take` throws. The objects taken before are then not a complete list.
 */
export async function listPages(
  resource: Pick<Resource, "path" | "selectors">,
  options: ListOptions,
  take: (object: unknown) => void,
): Promise<string> {
  let token = "";
  for (;;) {
    const { version, next } = await fetchPage(resource, options, token, take);
    if (next === "") return version;
    token = next;
  }
}

async function fetchPage(
  resource: Pick<Resource, "path" | "selectors">,
  options: ListOptions,
  token: string,
  take: (object: unknown) => void,
): Promise<{ readonly version: string; readonly next: string }> {
  const deadline = options.deadline();
  const onData = () => deadline.receivesWithin(options.silence);
  onData();
  try {
    const answer = await options.client.request({
      method: "GET",
      path: resource.path,
      query: { ...resource.selectors, limit: String(PAGE_SIZE), ...(token === "" ? {} : { continue: token }) },
      signal: deadline.signal,
    });
    if (answer.status !== 200) {
      throw failureOfAnswer(answer.status, answer.headers, await readText(answer.body, onData), options.now());
    }
    const decoder = new ListDecoder(take);
    const utf8 = new StringDecoder("utf8");
    for await (const chunk of answer.body) {
      onData();
      decoder.push(utf8.write(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)));
    }
    const { resourceVersion: version, continue: next } = metadataOf(decoder.end());
    if (typeof version !== "string" || version === "")
      throw new ApiFailure("parse", "the list is not a Kubernetes list");
    return { version, next: typeof next === "string" ? next : "" };
  } catch (error) {
    throw deadline.explain(error);
  } finally {
    deadline.close();
  }
}
