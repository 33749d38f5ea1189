import { type ApiClient, readText } from "../../kube/client/client.ts";
import { type FleetPod, fleetPods, type RawPod } from "./fleet-pod.ts";
import { compareNodes, type FleetNode } from "./fleet-report.ts";
import { listObjects } from "./list-objects.ts";
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

/** Nodes that cannot run nft-proxy have these labels: those with Windows, of virtual kubelets, and of AWS Fargate. */
const NODE_SELECTOR = "kubernetes.io/os!=windows,type!=virtual-kubelet,eks.amazonaws.com/compute-type!=fargate";

/**
 * The state of every node's nft-proxy, the worst first, by way of the API server's pod proxy. Nodes that
 * cannot run it are ignored.
 * @throws AppError API_UNAVAILABLE when nodes or pods cannot be listed
 */
export async function gatherFleet(request: FleetRequest): Promise<FleetNode[]> {
  const { client, namespace, selector } = request;
  const nodes = await listObjects<{ readonly metadata?: { readonly name?: string } }>(client, "/api/v1/nodes", {
    labelSelector: NODE_SELECTOR,
  });
  const path = `/api/v1/namespaces/${namespace}/pods`;
  const pods = fleetPods(await listObjects<RawPod>(client, path, { labelSelector: selector }));
  const served = new Set(pods.map(({ node }) => node));
  const reason = `no pod of nft-proxy runs there (labels ${selector}, namespace ${namespace})`;
  const without = nodes.flatMap(({ metadata }): FleetNode[] => {
    const node = metadata?.name ?? "";
    return served.has(node) ? [] : [{ node, pod: "", state: "no-pod", reason }];
  });
  const found = await inParallel(pods, (pod) => askPod(request, pod));
  return [...found, ...without].sort(compareNodes);
}

async function askPod(request: FleetRequest, pod: FleetPod): Promise<FleetNode> {
  const ask = (port: number, path: string) =>
    proxied(request, `/api/v1/namespaces/${request.namespace}/pods/${pod.name}:${port}/proxy${path}`);
  const livez = await ask(request.healthPort, "/livez");
  const metrics = livez === undefined ? undefined : await ask(request.metricsPort, "/metrics");
  return nodeStatus(pod, livez, metrics);
}

async function proxied({ client, answerWithin = ANSWER_WITHIN }: FleetRequest, path: string): Promise<ProxyAnswer> {
  try {
    const signal = AbortSignal.timeout(answerWithin);
    const { status, body } = await client.request({ method: "GET", path, signal });
    return { status, body: await readText(body) };
  } catch {
    return undefined;
  }
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
