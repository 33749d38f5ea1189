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
  /** The mode that a kube-proxy on this host answers, unless that is nftables, which its tables tell. */
  readonly answeredMode: "iptables" | "ipvs" | undefined;
  readonly settings: Settings;
  /** Every address of this host, canonical; undefined when they cannot be read. */
  readonly hostAddresses: readonly string[] | undefined;
  /** The reason where they cannot be had. */
  readonly objects: MigratingServices | { readonly problem: string };
}
