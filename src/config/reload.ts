import type { ProxyOptions } from "./options.ts";

/** When a changed option can take effect. */
export type ReloadEffect = "now" | "restart";

/**
 * What may change under a running proxy. Everything that only makes another ruleset, or paces the work, is safe. The
 * rest is bound to something made at the start: sockets, sysctls, the kind and size of the maps, the API's client, the
 * name we go by.
 */
export const RELOAD_EFFECTS: Readonly<Record<keyof ProxyOptions, ReloadEffect>> = {
  hostnameOverride: "restart",
  bindAddress: "restart",
  healthzBindAddress: "restart",
  metricsBindAddress: "restart",
  bindAddressHardFail: "restart",
  client: "restart",
  clusterCIDRs: "now",
  detectLocal: "now",
  nodePortAddresses: "now",
  masqueradeAll: "now",
  masqueradeBit: "restart",
  syncPeriodMs: "now",
  minSyncPeriodMs: "now",
  fullResyncPeriodMs: "now",
  conntrack: "restart",
  oomScoreAdj: "restart",
  logFormat: "restart",
  logVerbosity: "now",
  serviceCounters: "restart",
  affinityMapSize: "restart",
  configChange: "now",
  daemonSocket: "restart",
  nftPath: "restart",
};

/** What a changed configuration comes to. */
export interface Reload {
  /** The options to go on with: the new ones where that is safe, the old ones elsewhere. */
  readonly options: ProxyOptions;
  /** Options that changed and take effect now. */
  readonly taken: readonly (keyof ProxyOptions)[];
  /** Options that changed and wait for a restart. */
  readonly needRestart: readonly (keyof ProxyOptions)[];
}

/** Compares options by value, and says what to take over. */
export function planReload(current: ProxyOptions, next: ProxyOptions): Reload {
  const keys = Object.keys(RELOAD_EFFECTS) as (keyof ProxyOptions)[];
  const changed = keys.filter((key) => JSON.stringify(current[key]) !== JSON.stringify(next[key]));
  const taken = changed.filter((key) => RELOAD_EFFECTS[key] === "now");
  return {
    options: { ...current, ...Object.fromEntries(taken.map((key) => [key, next[key]])) },
    taken,
    needRestart: changed.filter((key) => RELOAD_EFFECTS[key] === "restart"),
  };
}
