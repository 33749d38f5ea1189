import type { Logger } from "../base/logger.ts";
import type { ProxyOptions } from "../config/options.ts";
import { apiEventSink } from "../daemon/events/api-event-sink.ts";
import type { EventSink } from "../daemon/events/event-recorder.ts";
import { systemClock } from "../daemon/system-clock.ts";
import { HttpApiClient } from "../kube/client/client.ts";
import { loadConnection } from "../kube/client/load-connection.ts";
import { apiDecoders, faultsText } from "../kube/decode/decoders.ts";
import { fileSource } from "../kube/files/file-source.ts";
import { clusterSource } from "../kube/reflector/cluster-source.ts";
import { type ListedObjects, listOnce } from "../kube/reflector/list-once.ts";
import type { ObjectSource, SourceHandlers } from "../kube/source.ts";

/** Where a daemon's objects come from, and where its Events go. */
export interface Objects {
  readonly makeSource: (handlers: SourceHandlers) => ObjectSource;
  readonly eventSink: EventSink;
  /** Drops what connections there are; after the source was stopped. */
  readonly close: () => void;
}

/** Where Events go when there is nobody to tell. */
export const NO_EVENTS: EventSink = { send: async () => {} };

/** The objects of a cluster. Throws AppError BAD_CONFIG when no API server is known. */
export async function clusterObjects(options: ProxyOptions, nodeName: string, logger: Logger): Promise<Objects> {
  const { kubeconfig, master } = options.client;
  const connect = () => loadConnection({ kubeconfig, master, env: process.env });
  // A configuration that names no server is a mistake to say at once, not one to try again.
  await connect();
  const client = new HttpApiClient({ connect, userAgent: `nft-proxy/${__VERSION__}` });
  const decoders = apiDecoders((object, faults) => {
    logger.warn({ object, faults: faultsText(faults) }, "parts of an object were left out");
  });
  return {
    makeSource: (handlers) =>
      clusterSource({ client, nodeName, decoders, handlers, clock: systemClock, random: Math.random, logger }),
    eventSink: apiEventSink(client),
    close: () => client.close(),
  };
}

/**
 * The objects of a cluster as they are now.
 * @param notice told of what was left out, one line each
 * @param onService told of every Service as it comes, those of other proxies too
 * @throws AppError BAD_CONFIG when no API server is known, API_UNAVAILABLE
 */
export async function clusterObjectsNow(
  { client: { kubeconfig, master } }: ProxyOptions,
  nodeName: string,
  notice: (text: string) => void,
  onService?: (service: unknown) => void,
): Promise<ListedObjects> {
  const onInvalid = (object: string, reason: string) => notice(`warning: ${object}: ${reason}`);
  const client = new HttpApiClient({
    connect: () => loadConnection({ kubeconfig, master, env: process.env }),
    userAgent: `nft-proxy/${__VERSION__}`,
  });
  try {
    const decoders = apiDecoders((object, faults) => onInvalid(object, faultsText(faults)));
    const options = { client, nodeName, decoders, clock: systemClock, onInvalid };
    return await listOnce(onService === undefined ? options : { ...options, onService });
  } finally {
    client.close();
  }
}

/** The objects of files, followed as they change. Their Events go nowhere. */
export function fileObjects(paths: readonly string[], logger: Logger): Objects {
  return {
    makeSource: (handlers) => fileSource({ paths, handlers, clock: systemClock, logger }),
    eventSink: NO_EVENTS,
    close: () => {},
  };
}
