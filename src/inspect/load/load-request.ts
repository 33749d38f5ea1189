import { byNearness } from "../../base/nearest.ts";
import type { ProxyOptions } from "../../config/options.ts";
import type { RunningDaemon } from "../../socket/daemon-client.ts";

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
  /** The process's environment, which has the in-cluster settings. */
  readonly env: NodeJS.ProcessEnv;
  /** `nft-proxy/VERSION`, for the API server's log. */
  readonly userAgent: string;
}

/** The source of the objects and options of a desired state. */
export interface DesiredOrigin {
  readonly objects: "daemon" | "files" | "cluster";
  /** The API server that was asked, and the context of the kubeconfig; absent for other objects. */
  readonly server?: string;
  /** The daemon whose options are used; absent if they were given to the command or are the defaults. */
  readonly daemon?: DaemonFreshness;
}

/** How up to date the kernel of a daemon is. */
export interface DaemonFreshness {
  readonly nodeName: string;
  /**
   * Seconds since the daemon last compared the kernel with its desired state; absent before the first time.
   */
  readonly verifiedAgo?: number | undefined;
  /** Seconds for which the rules have been out of date; absent if they are up to date. */
  readonly pendingFor?: number | undefined;
  /** Why the last sync failed; absent after a success. */
  readonly problem?: string | undefined;
}

/** Returns the origin of the desired state of a request. */
export function originOf({ paths, daemon }: Pick<LoadRequest, "paths" | "daemon">): DesiredOrigin {
  const objects = paths.length > 0 ? "files" : daemon === undefined ? "cluster" : "daemon";
  if (daemon === undefined) return { objects };
  const { nodeName, now, sync } = daemon.state;
  const secondsSince = (at: number | undefined) =>
    at === undefined ? undefined : Math.max(0, Math.round((now - at) / 1000));
  return {
    objects,
    daemon: {
      nodeName,
      verifiedAgo: secondsSince(sync.verifiedAt),
      pendingFor: secondsSince(sync.pendingSince),
      problem: sync.problem,
    },
  };
}

/** A node that is not among the objects that were loaded for it. */
export interface MissingNode {
  readonly name: string;
  /** The nodes among the objects, the most similar names first; may be empty. */
  readonly candidates: readonly string[];
}

/** Describes a node that is missing among the objects; undefined if it exists. */
export function missingNode(name: string, nodeNames: readonly string[]): MissingNode | undefined {
  return nodeNames.includes(name) ? undefined : { name, candidates: byNearness(name, new Set(nodeNames)) };
}
