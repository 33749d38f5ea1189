import type { Document } from "../base/option.ts";
import { valueAt, withValueAt } from "./configuration.ts";
import { NAMED_OPTIONS, type ProxyOptions } from "./options.ts";

/** What came of the last reading of a changed configuration. */
export interface ConfigState {
  /** Why it cannot be used; undefined if it can. */
  readonly problem: string | undefined;
  /** Fields that changed and take effect after a restart. */
  readonly needRestart: readonly string[];
}

/**
 * Compares options by the fields that print them, and decides which changes take effect now.
 * @returns the changed fields of the configuration file (`nftables.masqueradeAll`) that take effect now
 * (`taken`) and after a restart (`needRestart`), and the `options` to continue with: the new value of those
 * taken, the current value of the others
 */
export function planReload(current: ProxyOptions, next: ProxyOptions) {
  const [taken, needRestart]: [string[], string[]] = [[], []];
  let options: Document = current;
  for (const [name, { fields, print, reload }] of NAMED_OPTIONS) {
    const before = print(valueAt(current, name));
    const after = print(valueAt(next, name));
    const changed = fields.flatMap(({ path }, index) =>
      JSON.stringify(before[index]) === JSON.stringify(after[index]) ? [] : [path],
    );
    if (reload !== "now") needRestart.push(...changed);
    else if (changed.length > 0) {
      taken.push(...changed);
      options = withValueAt(options, name, valueAt(next, name));
    }
  }
  return { options: options as ProxyOptions, taken, needRestart };
}
