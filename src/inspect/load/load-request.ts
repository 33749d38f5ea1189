import { byNearness } from "../../base/nearest.ts";
import type { ProxyOptions } from "../../config/options.ts";
import type { RunningDaemon } from "../daemon-socket/daemon-client.ts";

/** Which objects to load, and for which node. */
export interface LoadRequest {
  readonly options: ProxyOptions;
  /** The daemon on this host whose options these are; its objects are used when there are no paths. */
  readonly daemon?: RunningDaemon;
  /** The socket of a daemon on this host that this user may not ask; absent when there is none. */
  readonly deniedSocket?: string;
  /** The node whose rules are rendered. */
  readonly nodeName: string;
  /** Files and directories, `-` for standard input; empty for the daemon or the cluster. */
  readonly paths: readonly string[];
  readonly stdin: AsyncIterable<Uint8Array>;
  /** The process's environment, where in-cluster settings are. */
  readonly env: NodeJS.ProcessEnv;
  /** `nft-proxy/VERSION`, for the API server's log. */
  readonly userAgent: string;
}

/** The source of a desired state: of its objects, and of its options. */
export interface DesiredOrigin {
  readonly objects: "daemon" | "files" | "cluster";
  /** The daemon that the options are from; absent when they were given to the command, or are the defaults. */
  readonly daemon?: DaemonFreshness;
}

/** How far the kernel follows a daemon. */
export interface DaemonFreshness {
  readonly nodeName: string;
  /** Seconds since the daemon compared the kernel with its desired state; absent before. */
  readonly verifiedAgo?: number;
  /** Seconds for which the kernel has lacked a change; absent when it is up to date. */
  readonly pendingFor?: number;
  /** Why the last sync failed; absent after a success. */
  readonly problem?: string;
}

/** The origin of the desired state that a request leads to. */
export function originOf({ paths, daemon }: Pick<LoadRequest, "paths" | "daemon">): DesiredOrigin {
  const objects = paths.length > 0 ? "files" : daemon === undefined ? "cluster" : "daemon";
  if (daemon === undefined) return { objects };
  const { nodeName, now, sync } = daemon.state;
  const secondsSince = (at: number) => Math.max(0, Math.round((now - at) / 1000));
  return {
    objects,
    daemon: {
      nodeName,
      ...(sync.verifiedAt === undefined ? {} : { verifiedAgo: secondsSince(sync.verifiedAt) }),
      ...(sync.pendingSince === undefined ? {} : { pendingFor: secondsSince(sync.pendingSince) }),
      ...(sync.problem === undefined ? {} : { problem: sync.problem }),
    },
  };
}

/** A node that is not among the objects that were loaded for it. */
export interface MissingNode {
  readonly name: string;
  /** The nodes that are among the objects, those of the nearest names first; empty when there are none. */
  readonly candidates: readonly string[];
}

/** Whether the node that rules are rendered for is missing among the objects; undefined when it is there. */
export function missingNode(name: string, nodeNames: readonly string[]): MissingNode | undefined {
  return nodeNames.includes(name) ? undefined : { name, candidates: byNearness(name, new Set(nodeNames)) };
}
