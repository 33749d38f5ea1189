import type { Logger } from "../base/logger.ts";
import type { ProxyOptions } from "../config/options.ts";
import type { Nft } from "../kernel/nft.ts";
import type { OwnCommits } from "../kernel/own-commits.ts";
import type { TableReader } from "../kernel/table-reader.ts";
import type { HostVersions } from "../kernel/versions.ts";
import type { HostSystem } from "./host-system.ts";
import type { ObjectOrigin } from "./object-source.ts";

/** Everything that a daemon gets from the command line. */
export interface DaemonInput {
  /** The options at the start. */
  readonly options: ProxyOptions;
  readonly nodeName: string;
  readonly version: string;
  readonly hostVersions: HostVersions;
  readonly nft: Nft;
  /** The commits of this nft. */
  readonly ownCommits: Pick<OwnCommits, "has" | "take">;
  readonly tables: TableReader;
  readonly system: HostSystem;
  readonly logger: Logger;
  readonly objects: Omit<ObjectOrigin, "close">;
  readonly dryRun: boolean;
  /** The given flags, by name, for /flagz. */
  readonly flags: ReadonlyMap<string, string>;
  /** The newest lines of the log, for the daemon socket. */
  readonly recentLog: () => readonly string[];
}
