import { byNearness } from "../../base/nearest.ts";
import type { ProxyOptions } from "../../config/options.ts";
import type { RunningDaemon } from "../../socket/daemon-client.ts";
import type { DaemonState } from "../../socket/daemon-protocol.ts";

/** The source of the objects to load, and the node to render them for. */
export interface LoadRequest {
  readonly options: ProxyOptions;
  /** The daemon on this host whose options are used. Its objects are used if there are no paths. */
  readonly daemon?: RunningDaemon | undefined;
  /** The socket of a daemon on this host that this user must not open; absent if there is none. */
  readonly deniedSocket?: string | undefined;
  /** The socket at which no daemon answers; absent if none was asked. */
  readonly silentSocket?: string | undefined;
  /** The node whose rules are rendered. */
  readonly nodeName: string;
  /** Files and directories, `-` for standard input; empty for the daemon or the cluster. */
  readonly paths: readonly string[];
  readonly stdin: AsyncIterable<Uint8Array>;
  /** Whether to render from the objects alone, including endpoints that the daemon ejected. */
  readonly ejectsNothing?: boolean;
  /** The context of the kubeconfig; the current one if absent. */
  readonly context?: string | undefined;
  /** The environment of the process: it tells a pod its API server, and others where their kubeconfig is. */
  readonly env: NodeJS.ProcessEnv;
  /** `nft-proxy/VERSION`, for the API server's log. */
  readonly userAgent: string;
}

/** The source of the objects and options of a desired state. */
export interface DesiredOrigin {
  readonly objects: "daemon" | "files" | "cluster";
  /** The API server that was asked, and the context of the kubeconfig; absent for other objects. */
  readonly server?: string | undefined;
  /** The daemon whose options are used; absent if they were given to the command or are the defaults. */
  readonly daemon?: DaemonState | undefined;
}

/** A node that is not among the objects that were loaded for it. */
export type MissingNode = NonNullable<ReturnType<typeof missingNode>>;

/**
 * Describes a node that is missing among the objects, with the names of the nodes that are among them, the
 * most similar first; undefined if it is not missing.
 */
export function missingNode(name: string, nodeNames: readonly string[]) {
  return nodeNames.includes(name) ? undefined : { name, candidates: byNearness(name, new Set(nodeNames)) };
}
