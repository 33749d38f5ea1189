import type { Service } from "../../model/service.ts";
import type { Conflict } from "../../ruleset/family-state.ts";
import type { NodeContext } from "../../ruleset/node-context.ts";
import type { ProxyTraces } from "./other-proxy-check.ts";
import type { Settings } from "./settings-check.ts";

/** The Services of a cluster, and what this node makes of them. */
export interface MigratingServices {
  readonly services: readonly Service[];
  readonly nodeContext: NodeContext;
  readonly conflicts: readonly Conflict[];
}

/** What a migration from kube-proxy depends on. */
export interface MigrationFacts {
  readonly traces: ProxyTraces;
  /** The answer of a kube-proxy on this host to `GET /proxyMode`; undefined when none answers. */
  readonly answeredMode: string | undefined;
  readonly settings: Settings;
  /** Every address of this host, canonical; undefined when they cannot be read. */
  readonly hostAddresses: readonly string[] | undefined;
  /** The reason where they cannot be had. */
  readonly objects: MigratingServices | { readonly problem: string };
}
