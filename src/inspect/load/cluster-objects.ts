import { AppError, messageOf } from "../../base/errors.ts";
import { systemClock } from "../../kernel/system-clock.ts";
import { HttpApiClient } from "../../kube/client/client.ts";
import { loadConnection } from "../../kube/client/load-connection.ts";
import { nodeNames } from "../../kube/client/node-names.ts";
import { apiDecoders, diagnosticsText } from "../../kube/decode/decoders.ts";
import { type ListedObjects, listOnce } from "../../kube/reflector/list-once.ts";
import type { LoadRequest } from "./load-request.ts";
import { type MissingNode, missingNode } from "./missing-node.ts";

/** The objects of a cluster, as one node needs them. */
export interface ClusterObjects extends ListedObjects {
  /** Present when the cluster has no Node of the request's name. */
  readonly missingNode?: MissingNode;
}

/**
 * Lists the cluster's objects once.
 * @param onNotice told of each object that cannot be used, one line each
 * @param onService told of every Service as it comes, those of other proxies too
 * @throws AppError BAD_CONFIG when no API server is configured; API_UNAVAILABLE
 */
export async function listClusterObjects(
  { options, nodeName, env, userAgent, deniedSocket }: LoadRequest,
  onNotice: (text: string) => void,
  onService?: (service: unknown) => void,
): Promise<ClusterObjects> {
  const { kubeconfig, master } = options.client;
  const onInvalid = (object: string, reason: string) => onNotice(`warning: ${object}: ${reason}`);
  const connect = () => loadConnection({ kubeconfig, master, env });
  await connect().catch((error: unknown) => {
    throw deniedSocket === undefined ? error : noAccess(deniedSocket, error);
  });
  const client = new HttpApiClient({ connect, userAgent });
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

function noAccess(socket: string, cause: unknown): AppError {
  return new AppError("BAD_CONFIG", `the daemon at ${socket} answers root only, and ${messageOf(cause)}`, {
    hint: "run as root, or give --kubeconfig; --from takes objects from files instead",
    cause,
  });
}
