import { AppError, messageOf } from "../../base/errors.ts";
import type { ApiClient } from "../../kube/client/client.ts";
import { compareNodes, type FleetNode } from "./fleet-report.ts";
import { nodeStatus, type ProxyAnswer } from "./node-status.ts";

/** Where the pods are, and how they are asked. */
export interface FleetRequest {
  readonly client: ApiClient;
  readonly namespace: string;
  /** The label selector of the pods. */
  readonly selector: string;
  readonly healthPort: number;
  readonly metricsPort: number;
  /** Milliseconds for one answer through the pod proxy; 4 s if not given. */
  readonly answerWithin?: number;
}

/** Requests at one time: an API server takes some hundreds of long ones (max-requests-inflight 400). */
const AT_ONCE = 200;

/** Milliseconds for an answer through the pod proxy. With {@link AT_ONCE}, 1,000 dead nodes take 20 s. */
const ANSWER_WITHIN = 4000;

const LIST_WITHIN = 15_000;
const PAGE = 500;

interface RawObject {
  readonly metadata?: { readonly name?: string };
  readonly spec?: { readonly nodeName?: string };
}

/**
 * The state of every node's nft-proxy, the worst first, by way of the API server's pod proxy.
 * @throws AppError API_UNAVAILABLE when nodes or pods cannot be listed
 */
export async function gatherFleet(request: FleetRequest): Promise<FleetNode[]> {
  const { client, namespace, selector } = request;
  const nodes = await listAll(client, "/api/v1/nodes", {});
  const pods = await listAll(client, `/api/v1/namespaces/${namespace}/pods`, { labelSelector: selector });
  const asked = pods.flatMap(({ metadata, spec }) => {
    const [pod, node] = [metadata?.name, spec?.nodeName];
    return pod === undefined || node === undefined ? [] : [{ pod, node }];
  });
  const served = new Set(asked.map(({ node }) => node));
  const found = await inParallel(asked, ({ pod, node }) => askPod(request, pod, node));
  const without = nodes.flatMap(({ metadata }): FleetNode[] => {
    const node = metadata?.name ?? "";
    return served.has(node) ? [] : [{ node, pod: "", state: "no-pod", reason: "no pod of nft-proxy runs there" }];
  });
  return [...found, ...without].sort(compareNodes);
}

async function askPod(request: FleetRequest, pod: string, node: string): Promise<FleetNode> {
  const ask = (port: number, path: string) =>
    proxied(request, `/api/v1/namespaces/${request.namespace}/pods/${pod}:${port}/proxy${path}`);
  const livez = await ask(request.healthPort, "/livez");
  const metrics = livez === undefined ? undefined : await ask(request.metricsPort, "/metrics");
  return nodeStatus(node, pod, livez, metrics);
}

async function proxied({ client, answerWithin = ANSWER_WITHIN }: FleetRequest, path: string): Promise<ProxyAnswer> {
  try {
    const signal = AbortSignal.timeout(answerWithin);
    const { status, body } = await client.request({ method: "GET", path, signal });
    return { status, body: await textOf(body) };
  } catch {
    return undefined;
  }
}

async function listAll(client: ApiClient, path: string, selectors: Record<string, string>): Promise<RawObject[]> {
  const items: RawObject[] = [];
  let next = "";
  do {
    const query = { ...selectors, limit: String(PAGE), ...(next === "" ? {} : { continue: next }) };
    const page = await listPage(client, path, query);
    items.push(...(page.items ?? []));
    next = page.metadata?.continue ?? "";
  } while (next !== "");
  return items;
}

interface RawList {
  readonly items?: readonly RawObject[];
  readonly metadata?: { readonly continue?: string };
}

async function listPage(client: ApiClient, path: string, query: Record<string, string>): Promise<RawList> {
  try {
    const signal = AbortSignal.timeout(LIST_WITHIN);
    const { status, body } = await client.request({ method: "GET", path, query, signal });
    const text = await textOf(body);
    if (status !== 200) throw refused(path, status);
    return JSON.parse(text) as RawList;
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

async function textOf(body: AsyncIterable<Uint8Array>): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of body) chunks.push(chunk);
  return Buffer.concat(chunks).toString("utf8");
}

/** Runs {@link AT_ONCE} of the tasks at one time; the results are in the order of the items. */
async function inParallel<Item, Result>(
  items: readonly Item[],
  run: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < items.length) {
      const index = next;
      next += 1;
      results[index] = await run(items[index] as Item);
    }
  };
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, items.length) }, worker));
  return results;
}
