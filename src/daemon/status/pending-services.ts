import { type ServiceName, serviceOf } from "../../model/ids.ts";
import type { ObjectCache } from "../../model/object-cache.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";

/** What is desired and not yet in the kernel. */
export interface Pending {
  /** Since when, milliseconds since 1970; undefined when the kernel is up to date. */
  readonly since: number | undefined;
  /** Sorted. Empty also where something else is pending, such as a changed option. */
  readonly services: readonly ServiceName[];
}

/** The Services that changed since the last successful sync: rendered by one that failed, or not rendered yet. */
export function pendingServices(cache: Pick<ObjectCache, "dirty">, { families }: RulesetState): ServiceName[] {
  const rendered = Object.values(families).flatMap((family) => family.uncommitted().map(({ key }) => serviceOf(key)));
  return [...new Set([...cache.dirty, ...rendered])].sort();
}
