import { AppError, messageOf } from "../../base/errors.ts";
import { type ApiClient, readText } from "../../kube/client/client.ts";

/** Milliseconds for one page of a list. */
const LIST_WITHIN = 15_000;

/** Objects in one page. */
const PAGE = 500;

interface RawList<Item> {
  readonly items?: readonly Item[];
  readonly metadata?: { readonly continue?: string };
}

/**
 * Lists objects, page by page, as the API server gives them.
 * @throws AppError API_UNAVAILABLE
 */
export async function listObjects<Item>(
  client: ApiClient,
  path: string,
  selector: Readonly<Record<string, string>>,
): Promise<Item[]> {
  const items: Item[] = [];
  let next = "";
  do {
    const query = { ...selector, limit: String(PAGE), ...(next === "" ? {} : { continue: next }) };
    const page = await listPage<Item>(client, path, query);
    items.push(...(page.items ?? []));
    next = page.metadata?.continue ?? "";
  } while (next !== "");
  return items;
}

async function listPage<Item>(
  client: ApiClient,
  path: string,
  query: Readonly<Record<string, string>>,
): Promise<RawList<Item>> {
  try {
    const signal = AbortSignal.timeout(LIST_WITHIN);
    const { status, body } = await client.request({ method: "GET", path, query, signal });
    const text = await readText(body);
    if (status !== 200) throw refused(path, status);
    return JSON.parse(text) as RawList<Item>;
  } catch (error) {
    if (error instanceof AppError) throw error;
    throw new AppError("API_UNAVAILABLE", `cannot list ${path}: ${messageOf(error)}`, {
      hint: "--kubeconfig or --master names the API server",
    });
  }
}

function refused(path: string, status: number): AppError {
  const hint = "listing nodes and pods, and `get` of pods/proxy, must be allowed";
  const isForbidden = status === 401 || status === 403;
  return new AppError("API_UNAVAILABLE", `cannot list ${path}: HTTP status ${status}`, isForbidden ? { hint } : {});
}
