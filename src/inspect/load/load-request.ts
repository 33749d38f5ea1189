import type { ProxyOptions } from "../../config/options.ts";
import type { RunningDaemon } from "../daemon-socket/running-daemon.ts";

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
