import type { ProxyOptions } from "../../config/options.ts";

/** Which objects to load, and for which node. */
export interface LoadRequest {
  readonly options: ProxyOptions;
  /** The node whose rules are rendered. */
  readonly nodeName: string;
  /** Files and directories, `-` for standard input; empty for the cluster. */
  readonly paths: readonly string[];
  readonly stdin: AsyncIterable<Uint8Array>;
  /** The process's environment, where in-cluster settings are. */
  readonly env: NodeJS.ProcessEnv;
  /** `nft-proxy/VERSION`, for the API server's log. */
  readonly userAgent: string;
}
