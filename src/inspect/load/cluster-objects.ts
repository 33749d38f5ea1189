import { systemClock } from "../../kernel/system-clock.ts";
import { HttpApiClient } from "../../kube/client/client.ts";
import { loadConnection } from "../../kube/client/load-connection.ts";
import { apiDecoders, faultsText } from "../../kube/decode/decoders.ts";
import { type ListedObjects, listOnce } from "../../kube/reflector/list-once.ts";
import type { LoadRequest } from "./load-request.ts";

/**
 * Lists the cluster's objects once.
 * @param onNotice told of each object that cannot be used, one line each
 * @param onService told of every Service as it comes, those of other proxies too
 * @throws AppError BAD_CONFIG when no API server is known; API_UNAVAILABLE
 */
export async function listClusterObjects(
  { options, nodeName, env, userAgent }: LoadRequest,
  onNotice: (text: string) => void,
  onService?: (service: unknown) => void,
): Promise<ListedObjects> {
  const { kubeconfig, master } = options.client;
  const onInvalid = (object: string, reason: string) => onNotice(`warning: ${object}: ${reason}`);
  const client = new HttpApiClient({ connect: () => loadConnection({ kubeconfig, master, env }), userAgent });
  try {
    const decoders = apiDecoders((object, faults) => onInvalid(object, faultsText(faults)));
    const list = { client, nodeName, decoders, clock: systemClock, onInvalid };
    return await listOnce(onService === undefined ? list : { ...list, onService });
  } finally {
    client.close();
  }
}
