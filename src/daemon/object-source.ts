import type { Logger } from "../base/logger.ts";
import { byNearness } from "../base/nearest.ts";
import type { ProxyOptions } from "../config/options.ts";
import { systemClock } from "../kernel/system-clock.ts";
import { ApiClient, type ApiRequestObserver } from "../kube/client/client.ts";
import { loadConnection } from "../kube/client/load-connection.ts";
import { nodeNames } from "../kube/client/node-names.ts";
import { type ServerAddress, ServerAddresses } from "../kube/client/server-addresses.ts";
import { apiDecoders, diagnosticsText } from "../kube/decode/decoders.ts";
import type { UnservedServices } from "../kube/decode/ignored-service.ts";
import { FileSource } from "../kube/files/file-source.ts";
import { unservedInFiles } from "../kube/files/read-files.ts";
import { ObjectProblemLog } from "../kube/object-problem-log.ts";
import { clusterSource } from "../kube/reflector/cluster-source.ts";
import { listUnservedServices } from "../kube/reflector/list-once.ts";
import type { ObjectSource, ResourceName, SourceErrorKind, SourceHandlers } from "../kube/source.ts";
import type { EnabledFeatures } from "../model/features.ts";
import { eventSender, NO_EVENTS, type SendEvent } from "./events/event-recorder.ts";

/** Callbacks about an API server. */
export interface OriginObserver {
  readonly onRequest: ApiRequestObserver;
  /** Called for the first of several lists without any known object. */
  readonly onImplausible: (resource: ResourceName) => void;
}

/** The source of a daemon's objects, and the destination of its Events. */
export interface ObjectOrigin {
  /** @param nodes returns the number of the cluster's nodes, 0 if it is unknown */
  readonly makeSource: (
    handlers: SourceHandlers,
    nodes: () => number,
    observer: OriginObserver,
  ) => ObjectSource;
  readonly sendEvent: SendEvent;
  /** Returns the Services that the source excludes. Never rejects. */
  readonly unservedServices: () => Promise<UnservedServices>;
  /** Returns the API servers, or their proxies, that it has connected to; none for files. */
  readonly apiServers: () => readonly ServerAddress[];
  /** What to do about a failure to follow it. */
  readonly remedy: (kind: SourceErrorKind) => string;
  /** Closes its connections. Call it after the source is stopped. */
  readonly close: () => void;
}

const CHECK_NETWORK =
  "check that this node reaches the API server at this address, and trusts its certificate";

/** What to do about a failure to follow the API server. */
const API_REMEDIES: Partial<Record<SourceErrorKind, string>> = {
  connection: CHECK_NETWORK,
  timeout: CHECK_NETWORK,
  unauthorized:
    "check the daemon's token or kubeconfig: the API server does not accept it; a wrong clock of the node has the same effect",
  forbidden: "let the daemon's ServiceAccount list and watch them: see the ClusterRole of deploy/base",
};

/** Access to a cluster. */
export interface ClusterAccess {
  readonly options: ProxyOptions;
  readonly nodeName: string;
  readonly env: NodeJS.ProcessEnv;
  readonly userAgent: string;
  /** Whether an earlier process has left rules in the kernel. */
  readonly hasRules: boolean;
}

/**
 * Returns the objects of a cluster, and follows their changes.
 * @throws AppError BAD_CONFIG if no API server is configured
 */
export async function clusterOrigin(access: ClusterAccess, logger: Logger): Promise<ObjectOrigin> {
  const { options, nodeName, env, userAgent, hasRules } = access;
  const { kubeconfig, master } = options.client;
  const connect = () => loadConnection({ kubeconfig, master, env });
  // Reports a configuration without a server immediately, instead of retrying.
  await connect();
  let onRequest: ApiRequestObserver = () => {};
  const servers = new ServerAddresses();
  const client = new ApiClient({
    connect,
    userAgent,
    onRequest: (outcome) => onRequest(outcome),
    onSocket: (url, socket) => servers.follow(url, socket),
  });
  const problems = new ObjectProblemLog(systemClock, logger, "invalid parts of an object are ignored");
  const decoders = apiDecoders((object, found) => {
    const diagnostics = diagnosticsText(found);
    if (found.length === 0) problems.end(object);
    else problems.add(object, diagnostics, { object, diagnostics });
  }, options.features);
  return {
    makeSource: (given, nodes, observer) => {
      onRequest = observer.onRequest;
      const handlers = watchForNode(given, nodeName, () => nodeNames(client), logger);
      const own = { client, nodeName, decoders, handlers, clock: systemClock, random: Math.random, logger };
      return clusterSource({ ...own, hasRules, onImplausible: observer.onImplausible, nodes });
    },
    sendEvent: eventSender(client),
    unservedServices: () => listUnservedServices(client, systemClock),
    apiServers: () => servers.all(),
    remedy: (kind) => API_REMEDIES[kind] ?? "see the log of the API server",
    close: () => client.close(),
  };
}

/**
 * Returns the objects of files, and follows their changes. Events are discarded.
 * @param nodeName the name of the Node that nft-proxy runs on
 * @param features all if absent
 */
export function fileOrigin(
  paths: readonly string[],
  nodeName: string,
  logger: Logger,
  features?: EnabledFeatures,
): ObjectOrigin {
  return {
    makeSource: (given) => {
      const handlers = watchForNode(given, nodeName, async () => [], logger);
      return new FileSource({ paths, handlers, clock: systemClock, logger, features });
    },
    sendEvent: NO_EVENTS,
    unservedServices: () => unservedInFiles(paths),
    apiServers: () => [],
    remedy: () => "correct the files of --from; they are read again when they change",
    close: () => {},
  };
}

/** Maximum number of names in the warning. */
const MOST_NAMES = 5;

/**
 * Wraps the handler of Nodes: warns with similar names if the first list lacks our Node, and reports when it
 * appears. The daemon continues without it, as a Node may register late.
 * @param nodeName the name of the Node that nft-proxy runs on
 * @param nodeNames returns the names of all Nodes; empty if unknown
 */
export function watchForNode(
  handlers: SourceHandlers,
  nodeName: string,
  nodeNames: () => Promise<readonly string[]>,
  logger: Logger,
): SourceHandlers {
  const { nodes } = handlers;
  const seen = new Set<string>();
  let [isAsked, isWarned] = [false, false];
  const warn = async (): Promise<void> => {
    const names = byNearness(nodeName, new Set([...seen, ...(await nodeNames())]));
    if (seen.has(nodeName)) return;
    const nearest = names.length === 0 ? {} : { nearest: names.slice(0, MOST_NAMES) };
    const hint =
      "its addresses, zone and podCIDRs are unknown: set --hostname-override to the name of this Node";
    isWarned = true;
    logger.warn({ node: nodeName, ...nearest, hint }, "no Node has this name, continuing without it");
  };
  return {
    ...handlers,
    nodes: {
      ...nodes,
      onUpsert: (key, node, previous) => {
        if (isWarned && key === nodeName && !seen.has(nodeName))
          logger.info({ node: nodeName }, "the Node exists now");
        seen.add(key);
        nodes.onUpsert(key, node, previous);
      },
      onSynced: () => {
        nodes.onSynced();
        if (isAsked || seen.has(nodeName)) return;
        isAsked = true;
        void warn();
      },
    },
  };
}
