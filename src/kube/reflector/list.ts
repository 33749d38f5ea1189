import { StringDecoder } from "node:string_decoder";
import { ApiFailure, asApiFailure, failureOfAnswer } from "../client/api-failure.ts";
import { type ApiClient, type ApiResponse, readBody } from "../client/client.ts";
import type { Deadline } from "../client/deadline.ts";
import { ListDecoder } from "../decode/list-decoder.ts";
import { metadataOf } from "../decode/metadata.ts";
import type { Resource } from "./resources.ts";

/** Options of {@link listObjects}. */
export interface ListOptions {
  readonly client: Pick<ApiClient, "request">;
  /** Returns a new one for each request. */
  readonly deadline: () => Deadline;
  /** Milliseconds without data after which a request counts as hung. */
  readonly silence: number;
  /** Returns milliseconds since 1970. */
  readonly now: () => number;
  /** Fields of the query that select the state; the newest one if absent. */
  readonly state?: Readonly<Record<string, string>>;
}

/**
 * Limit of a whole request, milliseconds. A server that sends a byte a minute is never silent, and would
 * otherwise delay the start forever. API servers allow one minute for a list (`--request-timeout`).
 */
const LONGEST_LIST = 300_000;

/**
 * Lists a resource with one request, and calls `take` for each object as it arrives. There are no pages: API
 * servers read them from etcd, all of them before Kubernetes 1.31, all but the first before 1.34.
 * @returns the resourceVersion to watch from
 * @throws ApiFailure for an answer other than 200, a malformed list or a missed deadline; and anything that
 * the connection or `take` throws. The objects taken before are then not a complete list.
 */
export async function listObjects(
  resource: Pick<Resource, "path" | "selectors"> & Partial<Pick<Resource, "listKind">>,
  options: ListOptions,
  take: (object: unknown) => void,
): Promise<string> {
  const query = { ...resource.selectors, ...options.state };
  return await answerOf(resource.path, query, options, async (answer, onData) => {
    const decoder = new ListDecoder(take);
    const utf8 = new StringDecoder("utf8");
    for await (const chunk of answer.body) {
      onData();
      decoder.push(utf8.write(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)));
    }
    const list = decoder.end();
    if (resource.listKind !== undefined && list.kind !== resource.listKind)
      throw new ApiFailure("parse", `the answer is not a ${resource.listKind}`);
    const { resourceVersion } = metadataOf(list);
    if (typeof resourceVersion === "string" && resourceVersion !== "") return resourceVersion;
    throw new ApiFailure("parse", "the list is not a Kubernetes list");
  });
}

/** Chooses the query of a list without a known version, once for all resources. */
export class FirstState {
  #known: Promise<Readonly<Record<string, string>>> | undefined;

  /**
   * Returns the fields of the query. From Kubernetes 1.31 on the newest state comes from the server's cache
   * (https://kep.k8s.io/2340). Older servers would read it from etcd, and are asked for any state that they
   * have.
   * @throws ApiFailure and the connection's errors when there is no answer
   */
  query(options: ListOptions): Promise<Readonly<Record<string, string>>> {
    this.#known ??= firstState(options).catch((error) => {
      this.#known = undefined;
      throw error;
    });
    return this.#known;
  }
}

async function firstState(options: ListOptions): Promise<Readonly<Record<string, string>>> {
  try {
    const version = await answerOf("/version", {}, options, async ({ body }, onData) =>
      JSON.parse(await readBody(body, onData)),
    );
    const [major, minor] = [version?.major, version?.minor].map((part) => Number.parseInt(String(part), 10));
    return major === 1 && minor !== undefined && minor < 31 ? { resourceVersion: "0" } : {};
  } catch (error) {
    const { kind } = asApiFailure(error);
    if (kind === "connection" || kind === "timeout") throw error;
    return {};
  }
}

async function answerOf<T>(
  path: string,
  query: Readonly<Record<string, string>>,
  { client, deadline: begin, silence, now }: ListOptions,
  read: (answer: ApiResponse, onData: () => void) => Promise<T>,
): Promise<T> {
  const deadline = begin();
  const onData = () => deadline.receivesWithin(silence);
  deadline.endsWithin(LONGEST_LIST);
  onData();
  try {
    const answer = await client.request({ method: "GET", path, query, signal: deadline.signal });
    if (answer.status === 200) return await read(answer, onData);
    throw failureOfAnswer(answer.status, answer.headers, await readBody(answer.body, onData), now());
  } catch (error) {
    throw deadline.explain(error);
  } finally {
    deadline.close();
  }
}
