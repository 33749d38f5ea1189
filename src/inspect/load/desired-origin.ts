import type { LoadRequest } from "./load-request.ts";

/** The source of a desired state: of its objects, and of its options. */
export interface DesiredOrigin {
  readonly objects: "daemon" | "files" | "cluster";
  /** The daemon that the options are from; absent when they were given to the command, or are the defaults. */
  readonly daemon?: DaemonFreshness;
}

/** How far the kernel follows a daemon. */
export interface DaemonFreshness {
  readonly nodeName: string;
  /** Seconds since the daemon compared the kernel with its desired state, element by element; absent before. */
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
