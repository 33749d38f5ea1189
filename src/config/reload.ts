import { type ProxyOptions, RELOAD_EFFECTS } from "./options.ts";

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
