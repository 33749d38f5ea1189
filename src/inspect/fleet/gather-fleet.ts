import { text } from "node:stream/consumers";
import type { V1DaemonSet, V1Node, V1Pod } from "@kubernetes/client-node";
import type { Clock } from "../../base/clock.ts";
import { AppError } from "../../base/errors.ts";
import { systemClock } from "../../kernel/system-clock.ts";
import { asApiFailure } from "../../kube/client/api-failure.ts";
import { TimedRequest } from "../../kube/client/timed-request.ts";
import { listObjects } from "../../kube/reflector/list.ts";
import type { SourceErrorKind } from "../../kube/source.ts";
import type { HttpAnswer } from "../http-answer.ts";
import type { ClusterClient } from "../load/load-objects.ts";
import { compareNodes, type FleetNode, type FleetPod, isFine, nodeStatus } from "./node-status.ts";

/** The pods and how to query them. */
export interface FleetRequest extends ClusterClient {
  readonly namespace: string;
  /** Label selector of the pods. */
  readonly selector: string;
  /** The ports of pods that do not declare them. */
  readonly healthPort: number;
  readonly metricsPort: number;
  /** Timeout of one request through the pod proxy, milliseconds; default 4 s. */
  readonly answerWithin?: number;
  /** Maximum number of pods that are asked at a time; default {@link MOST_CONCURRENT}. */
  readonly mostConcurrent?: number;
  /** Called with each pod's answers, which are not kept (undefined: no answer); waits for the result. */
  readonly onAnswers?: (
    pod: FleetPod,
    answers: Readonly<Record<"livez" | "metrics", HttpAnswer | undefined>>,
  ) => Promise<void>;
}

/**
 * Maximum number of concurrent requests; an API server accepts some hundreds of long ones
 * (max-requests-inflight 400).
 */
const MOST_CONCURRENT = 200;

/**
 * Default timeout of a request through the pod proxy, milliseconds. With {@link MOST_CONCURRENT}, 1,000 dead
 * nodes take 20 s.
 */
const ANSWER_WITHIN = 4000;

/** Maximum length of an answer; another program may have the port. The rest is not read. Bytes. */
const LONGEST_ANSWER = 8_000_000;

/** Time without data after which a list fails, milliseconds. */
const LIST_SILENCE = 15_000;

/** By the kind of the failure. */
const LIST_HINTS: Partial<Record<SourceErrorKind, string>> = {
  unauthorized: "are these the right credentials (--kubeconfig, --context)?",
  forbidden:
    "this needs permission to list nodes, pods and daemonsets, and to `get` pods/proxy: deploy/operators",
};
const OTHER_HINT =
  "is this the right cluster (--kubeconfig, --context, --master), and does it answer kubectl?";

/** Excludes nodes that cannot run nft-proxy: those with Windows, of virtual kubelets, and of AWS Fargate. */
const NODE_SELECTOR =
  "kubernetes.io/os!=windows,type!=virtual-kubelet,eks.amazonaws.com/compute-type!=fargate";

/**
 * Returns the state of nft-proxy on every node, the worst first, queried through the API server's pod proxy.
 * Ignores nodes that cannot run it.
 * @throws AppError API_UNAVAILABLE if nodes, pods or DaemonSets cannot be listed
 */
export async function gatherFleet(request: FleetRequest): Promise<FleetNode[]> {
  const { namespace, selector } = request;
  const nodes = await listed<V1Node>(request, "/api/v1/nodes", NODE_SELECTOR);
  const pods = fleetPods(await listed<V1Pod>(request, `/api/v1/namespaces/${namespace}/pods`, selector));
  const daemonSets = `/apis/apps/v1/namespaces/${namespace}/daemonsets`;
  const isSelected = selectedBy(await listed<V1DaemonSet>(request, daemonSets, selector));
  const served = new Set(pods.map(({ node }) => node));
  const noPod = `no pod of nft-proxy runs there (labels ${selector}, namespace ${namespace})`;
  const without = nodes.flatMap((one): FleetNode[] => {
    const node = one.metadata?.name ?? "";
    if (served.has(node)) return [];
    return isSelected(one)
      ? [{ node, pod: "", state: "no-pod", reason: noPod }]
      : [{ node, pod: "", state: "not-selected", reason: "the DaemonSet's nodeSelector excludes it" }];
  });
  const found = await inParallel(pods, request.mostConcurrent ?? MOST_CONCURRENT, (pod) =>
    askPod(request, pod),
  );
  return [...found, ...without].sort(compareNodes);
}

/** Returns a predicate of the nodes that a DaemonSet selects by its nodeSelector: all if there is none. */
function selectedBy(daemonSets: readonly V1DaemonSet[]): (node: V1Node) => boolean {
  const selectors = daemonSets.map(({ spec }) => Object.entries(spec?.template.spec?.nodeSelector ?? {}));
  return ({ metadata }) =>
    selectors.length === 0 ||
    selectors.some((labels) => labels.every(([name, value]) => metadata?.labels?.[name] === value));
}

/** Lists objects. @throws AppError API_UNAVAILABLE */
async function listed<Item>(
  { client, server }: FleetRequest,
  path: string,
  labelSelector: string,
): Promise<Item[]> {
  const found: Item[] = [];
  const request = new TimedRequest(client, systemClock, LIST_SILENCE);
  try {
    await listObjects({ path, selectors: { labelSelector } }, request, (object) =>
      found.push(object as Item),
    );
    return found;
  } catch (error) {
    const { kind, message } = asApiFailure(error);
    throw new AppError("API_UNAVAILABLE", `cannot list ${path} at ${server}: ${message}`, {
      hint: LIST_HINTS[kind] ?? OTHER_HINT,
    });
  }
}

async function askPod(request: FleetRequest, pod: FleetPod): Promise<FleetNode> {
  const ask = (port: number, path: string) => answerOf(request, `${pod.name}:${port}/proxy${path}`);
  const livez = await ask(pod.ports.healthz ?? request.healthPort, "/livez");
  const metricsPort = pod.ports.metrics ?? request.metricsPort;
  const metrics = livez === undefined ? undefined : await ask(metricsPort, "/metrics");
  await request.onAnswers?.(pod, { livez, metrics });
  return nodeStatus(pod, livez, metrics);
}

/**
 * Asks the API server for a subresource of a pod. Returns undefined without an answer in time.
 * @param path below the pods of the namespace
 */
export async function answerOf(
  { client, namespace, answerWithin = ANSWER_WITHIN }: FleetRequest,
  path: string,
  query: Readonly<Record<string, string>> = {},
): Promise<HttpAnswer | undefined> {
  try {
    const signal = AbortSignal.timeout(answerWithin);
    const whole = `/api/v1/namespaces/${namespace}/pods/${path}`;
    const { status, body } = await client.request({ method: "GET", path: whole, query, signal });
    return { status, body: await text(firstBytes(body)) };
  } catch {
    return undefined;
  }
}

async function* firstBytes(body: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
  let left = LONGEST_ANSWER;
  for await (const chunk of body) {
    yield chunk;
    left -= chunk.length;
    if (left <= 0) return;
  }
}

/** Runs at most `most` of the tasks concurrently. Results are in the order of the items. */
async function inParallel<Item, Result>(
  items: readonly Item[],
  most: number,
  run: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  const waiting = items.entries();
  const worker = async (): Promise<void> => {
    for (const [index, item] of waiting) results[index] = await run(item);
  };
  await Promise.all(Array.from({ length: Math.min(most, items.length) }, worker));
  return results;
}

/**
 * Returns the pods to query. Pods that are ending or have ended are only included if a node has no other, as
 * while a DaemonSet replaces its pods.
 */
function fleetPods(pods: readonly V1Pod[]): FleetPod[] {
  const current = new Set(pods.filter((pod) => !isEnding(pod)).map(({ spec }) => spec?.nodeName));
  return pods.flatMap((pod) => {
    const [name, node] = [pod.metadata?.name, pod.spec?.nodeName];
    if (name === undefined || node === undefined || (isEnding(pod) && current.has(node))) return [];
    const containers = pod.spec?.containers ?? [];
    // A sidecar may be beside the container with the health checks.
    const own = containers.find(({ ports = [] }) => ports.some((port) => port.name === "healthz"));
    const declared = containers.flatMap(({ ports = [] }) => ports);
    const ports = Object.fromEntries(declared.map((port) => [port.name ?? "", port.containerPort]));
    return [{ name, node, trouble: troubleOf(pod), container: (own ?? containers[0])?.name, ports }];
  });
}

function isEnding({ metadata, status }: V1Pod): boolean {
  return (
    metadata?.deletionTimestamp !== undefined || status?.phase === "Failed" || status?.phase === "Succeeded"
  );
}

function troubleOf({ metadata, status = {} }: V1Pod): string {
  const { phase = "Running", initContainerStatuses = [], containerStatuses = [] } = status;
  const waiting = [...initContainerStatuses, ...containerStatuses].flatMap(
    ({ state }) => state?.waiting?.reason ?? [],
  );
  const reason = status.reason ?? waiting[0];
  if (metadata?.deletionTimestamp !== undefined) return "its pod is being deleted";
  if (phase === "Running" && reason === undefined) return "";
  return `its pod is ${phase}${reason === undefined ? "" : ` (${reason})`}`;
}

/**
 * Queries all nodes (`gather`) until none has a problem, or the time is over. An API server that has answered
 * once may restart meanwhile, and is queried again.
 * @param patience maximum time in milliseconds, after which the last result is returned
 * @param pause receives the nodes, and waits until the next query
 * @throws the error of the first `gather`, and of one after the time is over
 */
export async function untilHealthy(
  gather: () => Promise<readonly FleetNode[]>,
  patience: number,
  pause: (nodes: readonly FleetNode[]) => Promise<unknown>,
  clock: Pick<Clock, "monotonic"> = systemClock,
): Promise<readonly FleetNode[]> {
  const deadline = clock.monotonic() + patience;
  let nodes = await gather();
  while (!nodes.every(isFine) && clock.monotonic() < deadline) {
    await pause(nodes);
    nodes = await gather().catch((error: unknown) => {
      if (clock.monotonic() >= deadline) throw error;
      return nodes;
    });
  }
  return nodes;
}
