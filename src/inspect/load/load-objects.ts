import { existsSync } from "node:fs";
import { AppError, messageOf } from "../../base/errors.ts";
import { systemClock } from "../../kernel/system-clock.ts";
import { ApiClient } from "../../kube/client/client.ts";
import { loadConnection } from "../../kube/client/load-connection.ts";
import { nodeNames } from "../../kube/client/node-names.ts";
import { apiDecoders, diagnosticsText } from "../../kube/decode/decoders.ts";
import type { UnservedServices } from "../../kube/decode/ignored-service.ts";
import { listOnce } from "../../kube/reflector/list-once.ts";
import type { ListedObjects } from "../../kube/source.ts";
import { askDaemon, type RunningDaemon } from "../../socket/daemon-client.ts";
import { objectsOf } from "../../socket/daemon-protocol.ts";
import { type LoadRequest, missingNode } from "./load-request.ts";

/** A client of an API server, and its name for people. Close the client. */
export type ClusterClient = Awaited<ReturnType<typeof clusterClient>>;

/**
 * Returns a client of the request's API server, without asking it.
 * @throws AppError BAD_CONFIG when no API server is configured
 */
export async function clusterClient(request: LoadRequest) {
  const { options, context, env, userAgent, deniedSocket, silentSocket } = request;
  const { master } = options.client;
  const kubeconfig = options.client.kubeconfig || userKubeconfig(master, env);
  const connect = () => loadConnection({ kubeconfig, context, master, env });
  const { name } = await connect().catch((cause: unknown) => {
    if (deniedSocket === undefined && silentSocket === undefined) throw cause;
    const [found, hint] =
      deniedSocket === undefined
        ? [`no daemon answers at ${silentSocket}`, "run the command where nft-proxy runs, or give"]
        : [`the daemon at ${deniedSocket} only answers root`, "run as root, set"];
    throw new AppError("BAD_CONFIG", `${found}, and ${messageOf(cause)}`, {
      hint: `${hint} --kubeconfig, or read objects from files with --from`,
      cause,
    });
  });
  return { client: new ApiClient({ connect, userAgent }), server: name };
}

/**
 * Returns kubectl's kubeconfig, for a command without one: the first file of $KUBECONFIG, or the user's own.
 * "" in a pod, where the service account is used instead, or with the URL of an API server. The daemon has no
 * such default: it finds the API server as kube-proxy does.
 */
function userKubeconfig(master: string, env: NodeJS.ProcessEnv): string {
  if (master !== "" || env.KUBERNETES_SERVICE_HOST !== undefined) return "";
  if (env.KUBECONFIG) return env.KUBECONFIG.split(":")[0] ?? "";
  const own = `${env.HOME ?? ""}/.kube/config`;
  return existsSync(own) ? own : "";
}

/**
 * Lists the cluster's objects once, as one node needs them; with the name of their API server and the context
 * of the kubeconfig, with `missingNode` if the cluster has no Node of the request's name, and with a notice
 * of each object that cannot be used.
 * @param onService called with every Service, including those of other proxies
 * @throws AppError BAD_CONFIG when no API server is configured; API_UNAVAILABLE
 */
export async function listClusterObjects(request: LoadRequest, onService?: (service: unknown) => void) {
  const { options, nodeName } = request;
  const notices: string[] = [];
  const onInvalid = (object: string, reason: string) => notices.push(`warning: ${object}: ${reason}`);
  const { client, server } = await clusterClient(request);
  try {
    const decoders = apiDecoders((object, diagnostics) => {
      if (diagnostics.length > 0) onInvalid(object, diagnosticsText(diagnostics));
    }, options.features);
    const listing = { client, server, nodeName, decoders, clock: systemClock, onInvalid, onService };
    const objects = await listOnce(listing);
    const isMissing = objects.nodes.length === 0;
    const missing = isMissing ? missingNode(nodeName, await nodeNames(client)) : undefined;
    return { ...objects, server, missingNode: missing, notices };
  } finally {
    client.close();
  }
}

/**
 * Asks a daemon for its objects.
 * @throws AppError HOST if it has ended meanwhile, or gives no usable answer
 */
export async function daemonObjects({ socket }: RunningDaemon): Promise<ListedObjects> {
  const objects = await askDaemon(socket, "objects");
  if (objects !== undefined) return objectsOf(objects);
  throw new AppError("HOST", `the daemon at ${socket} ended before it returned its objects`, {
    hint: "run the command again",
  });
}

/**
 * Asks a daemon for the Services that it does not serve. It asks the API server for them.
 * @throws AppError HOST if it gives no usable answer
 */
export async function unservedServices({ socket }: RunningDaemon): Promise<UnservedServices> {
  return (
    (await askDaemon(socket, "unserved")) ?? { ignored: [], loadBalancers: [], problem: "the daemon ended" }
  );
}
