import { json } from "node:stream/consumers";
import { isRecord } from "../../base/text.ts";
import { ApiFailure, asApiFailure } from "../client/api-failure.ts";
import type { TimedRequest } from "../client/timed-request.ts";
import { ListDecoder } from "../decode/list-decoder.ts";
import { metadataOf } from "../decode/metadata.ts";
import type { Resource } from "./resources.ts";

/** The fields of a query that select the state of a list; none for the newest one. */
type StateQuery = Readonly<Record<string, string>>;

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
  { path, selectors, kind }: Pick<Resource, "path" | "selectors"> & Partial<Pick<Resource, "kind">>,
  request: TimedRequest,
  take: (object: unknown) => void,
  state: StateQuery = {},
): Promise<string> {
  return await request.get({ path, query: { ...selectors, ...state } }, LONGEST_LIST, async (texts) => {
    const decoder = new ListDecoder(take);
    for await (const text of texts) decoder.push(text);
    const list = decoder.end();
    if (kind !== undefined && list.kind !== `${kind}List`)
      throw new ApiFailure("parse", `the answer is not a ${kind}List`);
    const { resourceVersion } = metadataOf(list);
    if (typeof resourceVersion === "string" && resourceVersion !== "") return resourceVersion;
    throw new ApiFailure("parse", "the list is not a Kubernetes list");
  });
}

/** Chooses the query of a list without a known version, once for all resources. */
export class FirstState {
  #known: Promise<StateQuery> | undefined;

  /**
   * Returns the fields of the query. From Kubernetes 1.31 on the newest state comes from the server's cache
   * (https://kep.k8s.io/2340). Older servers would read it from etcd, and are asked for any state that they
   * have.
   * @throws ApiFailure and the connection's errors when there is no answer
   */
  query(newRequest: () => TimedRequest): Promise<StateQuery> {
    this.#known ??= firstState(newRequest()).catch((error) => {
      this.#known = undefined;
      throw error;
    });
    return this.#known;
  }
}

async function firstState(request: TimedRequest): Promise<StateQuery> {
  try {
    const version = await request.get({ path: "/version" }, LONGEST_LIST, json);
    const numbers = isRecord(version) ? [version.major, version.minor] : [];
    const [major, minor] = numbers.map((part) => Number.parseInt(String(part), 10));
    return major === 1 && minor !== undefined && minor < 31 ? { resourceVersion: "0" } : {};
  } catch (error) {
    const { kind } = asApiFailure(error);
    if (kind === "connection" || kind === "timeout") throw error;
    return {};
  }
}
