import type { Family } from "../../base/family.ts";
import type { ElementChange } from "../../ruleset/ruleset-diff.ts";
import { FIREWALL_IPS, frontendMapOf, frontendOfElement } from "../../ruleset/sets.ts";

/** All changes of one frontend. */
export interface FrontendChange {
  readonly family: Family;
  /** `10.96.0.10 . tcp . 53`, or `tcp . 30080` for a NodePort. */
  readonly key: string;
  readonly changes: readonly ElementChange[];
}

/** Groups the changes of a Service by frontend; `rest` are those that belong to no frontend. */
export function frontendChanges(changes: readonly ElementChange[]): {
  readonly frontends: readonly FrontendChange[];
  readonly rest: readonly ElementChange[];
} {
  const byFrontend = new Map<string, { family: Family; key: string; changes: ElementChange[] }>();
  const rest: ElementChange[] = [];
  for (const change of changes) {
    const key = keyOf(change);
    if (key === undefined) {
      rest.push(change);
      continue;
    }
    const id = `${change.family} ${key}`;
    const known = byFrontend.get(id) ?? { family: change.family, key, changes: [] };
    known.changes.push(change);
    byFrontend.set(id, known);
  }
  return { frontends: [...byFrontend.values()], rest };
}

function keyOf({ set, key }: ElementChange): string | undefined {
  return frontendMapOf(set) !== undefined || set === FIREWALL_IPS ? frontendOfElement(set, key) : undefined;
}
