import { systemClock } from "../../kernel/system-clock.ts";
import { HttpApiClient } from "../../kube/client/client.ts";
import { loadConnection } from "../../kube/client/load-connection.ts";
import { apiDecoders, diagnosticsText } from "../../kube/decode/decoders.ts";
import { type ListedObjects, listOnce } from "../../kube/reflector/list-once.ts";
import type { LoadRequest } from "./load-request.ts";
import { type MissingNode, missingNode } from "./missing-node.ts";

/** The objects of a cluster, as one node needs them. */
export interface ClusterObjects extends ListedObjects {
  /** Present when the cluster has no Node of the request's name. */
  readonly missingNode?: MissingNode;
}

/** The most names of nodes that are read to name candidates. */
const MOST_NODES = 100;

/** Milliseconds after which the names of the nodes are given up. */
const NODE_NAMES_TIMEOUT = 5000;

/**
 * Lists the cluster's objects once.
 * @param onNotice told of each object that cannot be used, one line each
 * @param onService told of every Service as it comes, those of other proxies too
 * @throws AppError BAD_CONFIG when no API server is configured; API_UNAVAILABLE
 */
export async function listClusterObjects(
  { options, nodeName, env, userAgent }: LoadRequest,
  onNotice: (text: string) => void,
  onService?: (service: unknown) => void,
): Promise<ClusterObjects> {
  const { kubeconfig, master } = options.client;
  const onInvalid = (object: string, reason: string) => onNotice(`warning: ${object}: ${reason}`);
  const client = new HttpApiClient({ connect: () => loadConnection({ kubeconfig, master, env }), userAgent });
  try {
    const decoders = apiDecoders((object, diagnostics) => onInvalid(object, diagnosticsText(diagnostics)));
    const list = { client, nodeName, decoders, clock: systemClock, onInvalid };
    const objects = await listOnce(onService === undefined ? list : { ...list, onService });
    if (objects.nodes.length > 0) return objects;
    const missing = missingNode(nodeName, await nodeNames(client));
    return missing === undefined ? objects : { ...objects, missingNode: missing };
  } finally {
    client.close();
  }
}

/** The names of the cluster's nodes; empty when they cannot be listed, as without the permission to. */
async function nodeNames(client: HttpApiClient): Promise<string[]> {
  try {
    const signal = AbortSignal.timeout(NODE_NAMES_TIMEOUT);
    const query = { limit: String(MOST_NODES) };
    const { body } = await client.request({ method: "GET", path: "/api/v1/nodes", query, signal });
    const chunks: Uint8Array[] = [];
    for await (const chunk of body) chunks.push(chunk);
    const list = JSON.parse(Buffer.concat(chunks).toString("utf8")) as { items?: { metadata?: { name?: string } }[] };
    return (list.items ?? []).flatMap(({ metadata }) => metadata?.name ?? []);
  } catch {
    return [];
  }
}
