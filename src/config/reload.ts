import type { Document } from "../base/option.ts";
import { valueAt, withValueAt } from "./configuration.ts";
import { NAMED_OPTIONS, type NamedOption, type ProxyOptions } from "./options.ts";

/** The effect of a changed configuration. */
export interface Reload {
  /** The options to continue with: the new value of those in `taken`, the current value of the others. */
  readonly options: ProxyOptions;
  /** Fields of the configuration file that changed and take effect now: `nftables.masqueradeAll`. */
  readonly taken: readonly string[];
  /** Fields that changed and take effect after a restart. */
  readonly needRestart: readonly string[];
}

/** What came of the last reading of a changed configuration. */
export interface ConfigState {
  /** Why it cannot be used; undefined if it can. */
  readonly problem: string | undefined;
  /** Fields that changed and take effect after a restart. */
  readonly needRestart: readonly string[];
}

/** Compares options by value, and decides which changes take effect now. */
export function planReload(current: ProxyOptions, next: ProxyOptions): Reload {
  const changed = NAMED_OPTIONS.filter(([name]) => !areEqual(valueAt(current, name), valueAt(next, name)));
  const taken = changed.filter(([, { reload }]) => reload === "now");
  const fieldsOf = (options: readonly NamedOption[]) =>
    options.flatMap((option) => changedFields(option, current, next));
  const options = taken.reduce<Document>(
    (result, [name]) => withValueAt(result, name, valueAt(next, name)),
    current,
  );
  return {
    options: options as ProxyOptions,
    taken: fieldsOf(taken),
    needRestart: fieldsOf(changed.filter((option) => !taken.includes(option))),
  };
}

/** Returns the paths of those fields of an option whose values differ. */
function changedFields(
  [name, { fields, print }]: NamedOption,
  current: ProxyOptions,
  next: ProxyOptions,
): string[] {
  const [before, after] = [print(valueAt(current, name)), print(valueAt(next, name))];
  return fields.flatMap(({ path }, index) => (areEqual(before[index], after[index]) ? [] : [path]));
}

function areEqual(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
