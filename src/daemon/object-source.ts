import type { Logger } from "../base/logger.ts";
import type { ProxyOptions } from "../config/options.ts";
import { systemClock } from "../kernel/system-clock.ts";
import { type ApiRequestObserver, HttpApiClient } from "../kube/client/client.ts";
import { loadConnection } from "../kube/client/load-connection.ts";
import { nodeNames } from "../kube/client/node-names.ts";
import { apiDecoders, diagnosticsText } from "../kube/decode/decoders.ts";
import type { UnservedServices } from "../kube/decode/ignored-service.ts";
import { fileSource } from "../kube/files/file-source.ts";
import { unservedInFiles } from "../kube/files/read-files.ts";
import { clusterSource } from "../kube/reflector/cluster-source.ts";
import { listUnservedServices } from "../kube/reflector/list-once.ts";
import type { ObjectSource, SourceHandlers } from "../kube/source.ts";
import { apiEventSink } from "./events/api-event-sink.ts";
import type { EventSink } from "./events/event-recorder.ts";
import { watchForNode } from "./missing-node.ts";

/** The source of a daemon's objects, and the destination of its Events. */
export interface ObjectOrigin {
  readonly makeSource: (handlers: SourceHandlers) => ObjectSource;
  readonly eventSink: EventSink;
  /** Asks for the Services that the source excludes. Never rejects. */
  readonly unservedServices: () => Promise<UnservedServices>;
  /** Sets the observer of requests to the API server; until then they are not observed. */
  readonly observeRequests: (observer: ApiRequestObserver) => void;
  /** Closes its connections; to be called after the source was stopped. */
  readonly close: () => void;
}

/** Discards Events: there is no API server to send them to. */
export const NO_EVENTS: EventSink = { send: async () => {} };

/** How to reach a cluster. */
export interface ClusterAccess {
  readonly options: ProxyOptions;
  readonly nodeName: string;
  readonly env: NodeJS.ProcessEnv;
  readonly userAgent: string;
}

/**
 * The objects of a cluster, followed as they change.
 * @throws AppError BAD_CONFIG when no API server is configured
 */
export async function clusterOrigin(access: ClusterAccess, logger: Logger): Promise<ObjectOrigin> {
  const { options, nodeName, env, userAgent } = access;
  const { kubeconfig, master } = options.client;
  const connect = () => loadConnection({ kubeconfig, master, env });
  // A configuration that names no server is reported at once, not retried.
  await connect();
  let observe: ApiRequestObserver = () => {};
  const client = new HttpApiClient({ connect, userAgent, onRequest: (outcome) => observe(outcome) });
  const decoders = apiDecoders((object, diagnostics) => {
    logger.warn({ object, diagnostics: diagnosticsText(diagnostics) }, "invalid parts of an object are ignored");
  });
  return {
    makeSource: (given) => {
      const handlers = watchForNode({ handlers: given, nodeName, nodeNames: () => nodeNames(client), logger });
      return clusterSource({ client, nodeName, decoders, handlers, clock: systemClock, random: Math.random, logger });
    },
    eventSink: apiEventSink(client),
    unservedServices: () => listUnservedServices(client, systemClock),
    observeRequests: (observer) => {
      observe = observer;
    },
    close: () => client.close(),
  };
}

/**
 * The objects of files, followed as they change. Their Events are discarded.
 * @param nodeName the name of the Node that nft-proxy runs on
 */
export function fileOrigin(paths: readonly string[], nodeName: string, logger: Logger): ObjectOrigin {
  return {
    makeSource: (given) => {
      const handlers = watchForNode({ handlers: given, nodeName, nodeNames: async () => [], logger });
      return fileSource({ paths, handlers, clock: systemClock, logger });
    },
    eventSink: NO_EVENTS,
    unservedServices: () => unservedInFiles(paths),
    observeRequests: () => {},
    close: () => {},
  };
}
