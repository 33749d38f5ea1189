import type { ProxyOptions } from "./options.ts";

/** When a changed option can take effect. */
export type ReloadEffect = "now" | "restart";

/**
 * When a change of each option takes effect. Options that only affect the ruleset or the pace of syncs do so at once. The
 * others are bound to something created at the start: sockets, sysctls, the maps, the API client, the Node's name.
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
  serviceExternalIPs: "restart",
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
  reserveNodePorts: "now",
  scheduler: "now",
  serviceCounters: "restart",
  affinityMapSize: "restart",
  refusalLogSize: "restart",
  resetVanished: "restart",
  configChange: "now",
  daemonSocket: "restart",
  nftPath: "restart",
};

/** The effect of a changed configuration. */
export interface Reload {
  /** The options to continue with: the new value of those in `taken`, the current value of the others. */
  readonly options: ProxyOptions;
  /** Options that changed and take effect now. */
  readonly taken: readonly (keyof ProxyOptions)[];
  /** Options that changed and take effect after a restart. */
  readonly needRestart: readonly (keyof ProxyOptions)[];
}

/** Compares options by value, and decides which changes take effect now. */
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
