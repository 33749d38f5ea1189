import { json } from "node:stream/consumers";
import { StringDecoder } from "node:string_decoder";
import { ApiFailure, asApiFailure } from "../client/api-failure.ts";
import type { ApiClient, ApiRequest } from "../client/client.ts";
import type { Deadline } from "../client/deadline.ts";
import { ListDecoder } from "../decode/list-decoder.ts";
import { metadataOf } from "../decode/metadata.ts";
import type { Resource } from "./resources.ts";

/** Options of {@link listObjects}. */
export interface ListOptions {
  readonly client: Pick<ApiClient, "request">;
  /** Returns a new one for each request. */
  readonly deadline: () => Deadline;
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
  { path, selectors, listKind }: Pick<Resource, "path" | "selectors"> & Partial<Pick<Resource, "listKind">>,
  options: ListOptions,
  take: (object: unknown) => void,
): Promise<string> {
  return await get(options, { path, query: { ...selectors, ...options.state } }, async (body) => {
    const decoder = new ListDecoder(take);
    const utf8 = new StringDecoder("utf8");
    for await (const chunk of body)
      decoder.push(utf8.write(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)));
    const list = decoder.end();
    if (listKind !== undefined && list.kind !== listKind)
      throw new ApiFailure("parse", `the answer is not a ${listKind}`);
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
    const version = (await get(options, { path: "/version" }, json)) as Readonly<
      Record<string, unknown>
    > | null;
    const [major, minor] = [version?.major, version?.minor].map((part) => Number.parseInt(String(part), 10));
    return major === 1 && minor !== undefined && minor < 31 ? { resourceVersion: "0" } : {};
  } catch (error) {
    const { kind } = asApiFailure(error);
    if (kind === "connection" || kind === "timeout") throw error;
    return {};
  }
}

async function get<T>(
  { client, deadline: begin }: ListOptions,
  request: Pick<ApiRequest, "path" | "query">,
  read: (body: AsyncIterable<Uint8Array>) => Promise<T>,
): Promise<T> {
  const deadline = begin();
  deadline.endsWithin(LONGEST_LIST);
  return await deadline.get(client, request, read);
}
