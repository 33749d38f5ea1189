import { ApiFailure, failureOfAnswer } from "../client/api-failure.ts";
import { type ApiClient, readText } from "../client/client.ts";
import type { Deadline } from "../client/deadline.ts";
import { metadataOf } from "./object-store.ts";
import type { Resource } from "./resources.ts";

/** Objects in one answer, as client-go's pager asks for. */
const PAGE_SIZE = 500;

/** What a list needs besides the resource. */
export interface ListOptions {
  readonly client: ApiClient;
  /** A fresh one for each page. */
  readonly deadline: () => Deadline;
  /** Milliseconds without a byte after which a page counts as hung. */
  readonly silence: number;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

/**
 * Lists a resource in pages, resourceVersion unset (the newest state, consistent across pages), and gives each object to
 * `take` as its page arrives, so that only one page is ever held. Gives the resourceVersion to watch from. Throws ApiFailure.
 */
export async function listPages(
  resource: Resource,
  options: ListOptions,
  take: (object: unknown) => void,
): Promise<string> {
  let token = "";
  for (;;) {
    const page = await fetchPage(resource, options, token);
    for (const item of page.items) take(item);
    if (page.next === "") return page.version;
    token = page.next;
  }
}

interface Page {
  readonly items: readonly unknown[];
  readonly version: string;
  /** The token of the next page, "" after the last. */
  readonly next: string;
}

async function fetchPage(resource: Resource, options: ListOptions, token: string): Promise<Page> {
  const deadline = options.deadline();
  deadline.receivesWithin(options.silence);
  try {
    const answer = await options.client.request({
      method: "GET",
      path: resource.path,
      query: { ...resource.selectors, limit: String(PAGE_SIZE), ...(token === "" ? {} : { continue: token }) },
      signal: deadline.signal,
    });
    const text = await readText(answer.body, () => deadline.receivesWithin(options.silence));
    if (answer.status !== 200) throw failureOfAnswer(answer.status, answer.headers, text, options.now());
    return parsePage(text);
  } catch (error) {
    throw deadline.explain(error);
  } finally {
    deadline.close();
  }
}

function parsePage(text: string): Page {
  let list: unknown;
  try {
    list = JSON.parse(text);
  } catch (cause) {
    throw new ApiFailure("parse", "the list is not JSON", { cause });
  }
  const metadata = metadataOf(list);
  // A list without items may have `null` there: Go's empty slice.
  const items = (list as { items?: unknown } | null)?.items ?? [];
  if (typeof metadata.resourceVersion !== "string" || metadata.resourceVersion === "" || !Array.isArray(items))
    throw new ApiFailure("parse", "the list is not a Kubernetes list");
  const next = metadata.continue;
  return { items, version: metadata.resourceVersion, next: typeof next === "string" ? next : "" };
}
