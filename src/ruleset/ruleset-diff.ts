import { byFamily, FAMILIES, type Family } from "../base/family.ts";
import { sortedEntries } from "../base/first-sorted.ts";
import { addToGroup } from "../base/group-by.ts";
import type { ServicePort } from "../model/service-port.ts";
import type { Ruleset, Table } from "../nft/ast/ruleset.ts";
import { diffRuleset, type ElementsDelta, type TableDelta } from "../nft/delta.ts";
import { isOfFrontends } from "./frontend-kinds.ts";
import { idOfKey, parseFrontendKey } from "./keys.ts";
import { parseId } from "./list-ids.ts";
import { drawMethodsIn, type FamilyContext, kindsIn } from "./node-context.ts";
import { isSameFrontend, type ProgrammedFrontend, programmedFrontend } from "./programmed-frontend.ts";
import { type ElementOwners, elementOwners, type RulesetState } from "./ruleset-state.ts";
import { LISTS } from "./sets.ts";

/** An element that is added (no `before`), deleted (no `after`) or changed. Values are "" in a set. */
export interface ElementChange {
  readonly family: Family;
  readonly set: string;
  readonly key: string;
  readonly before?: string | undefined;
  readonly after?: string;
}

/** A chain, set, map or object with timeouts that is added, deleted or changed. */
export interface PartChange {
  readonly family: Family;
  readonly kind: "table" | "chain" | "set" | "object";
  readonly name: string;
  readonly change: "added" | "removed" | "changed";
  /**
   * `namespace/name` of a Service that wants this part of a feature, the first of several; absent for parts
   * that belong to no Service.
   */
  readonly service?: string | undefined;
}

/** The differences between two rulesets. */
export interface RulesetDiff {
  /** By `namespace/name`, sorted. A Service without changes differs only in `parts`. */
  readonly services: ReadonlyMap<string, readonly ElementChange[]>;
  /** Elements of no known Service: the node's own, and leftovers of deleted Services. */
  readonly others: readonly ElementChange[];
  readonly parts: readonly PartChange[];
  /** The frontends that the rulesets treat differently, sorted by family and key, NodePorts last. */
  readonly frontends: readonly FrontendChange[];
}

/** A frontend that two rulesets treat differently, or that has other endpoints. */
export interface FrontendChange {
  readonly family: Family;
  /** `10.96.0.10 . tcp . 53`, or `0.0.0.0 . tcp . 30080` for a NodePort. */
  readonly key: string;
  /** `namespace/name` of the Service that has it; absent if not known. */
  readonly service?: string | undefined;
  readonly before: ProgrammedFrontend | undefined;
  readonly after: ProgrammedFrontend | undefined;
}

/** A ruleset and, if known, the state with the owners of its elements; the kernel has no owners. */
export interface OwnedRuleset {
  readonly ruleset: Ruleset;
  readonly state?: RulesetState;
}

type Parts = Pick<FamilyContext, "features">;

/**
 * Compares two rulesets by Service. Ignores families that `after` does not have.
 * @param parts what features may add to them
 */
export function compareRulesets(before: OwnedRuleset, after: OwnedRuleset, parts: Parts): RulesetDiff {
  const deltas = diffRuleset(before.ruleset, after.ruleset);
  const owners = byFamily((family) =>
    [after, before].flatMap(({ state }) => state?.families[family] ?? []).map(elementOwners),
  );
  const changedParts = deltas.flatMap((delta) => partChanges(delta, owners[delta.family]));
  const services = new Map<string, ElementChange[]>();
  const others: ElementChange[] = [];
  for (const delta of deltas) {
    for (const change of elementChanges(delta)) {
      const names = namesOf(owners[delta.family], (of) => of.ofElement(change.set, change.key));
      for (const name of names) addToGroup(services, name, change);
      if (names.size === 0) others.push(change);
    }
  }
  for (const { service } of changedParts)
    if (service !== undefined && !services.has(service)) services.set(service, []);
  const changed = new Set([...[...services.values()].flat(), ...others]);
  return {
    services: new Map(sortedEntries(services)),
    others,
    parts: changedParts,
    frontends: FAMILIES.flatMap((family) => {
      const ofFamily = [...changed].filter((change) => change.family === family);
      const tables = [before.ruleset[family], after.ruleset[family]] as const;
      return frontendChanges(family, ofFamily, tables, owners[family], parts);
    }),
  };
}

/** Whether two rulesets are the same. */
export function hasNoDifference({ services, others, parts }: RulesetDiff): boolean {
  return services.size + others.length + parts.length === 0;
}

function frontendChanges(
  family: Family,
  changes: readonly ElementChange[],
  tables: readonly [before: Table | undefined, after: Table | undefined],
  owners: readonly ElementOwners[],
  parts: Parts,
): FrontendChange[] {
  const [kinds, methods] = [kindsIn(parts), drawMethodsIn(parts)];
  const keys = new Set(changes.flatMap(({ set, key }) => (isOfFrontends(set, kinds) ? [key] : [])));
  const ids = new Set(
    changes.flatMap(({ key }) => {
      const id = idOfKey(key);
      return (id === undefined ? undefined : parseId(id)?.servicePort) ?? [];
    }),
  );
  if (ids.size > 0) {
    for (const table of tables) {
      for (const { lists } of kinds) {
        for (const [key, id] of table?.sets.get(lists)?.elements ?? []) {
          if (ids.has(parseId(Number(id))?.servicePort ?? 0)) keys.add(key);
        }
      }
    }
  }
  return [...keys].sort(byFrontend).flatMap((key) => {
    const [before, after] = tables.map((table) => table && programmedFrontend(table, key, kinds, methods));
    if (before !== undefined && after !== undefined && isSameFrontend(before, after)) return [];
    const [service] = namesOf(owners, (of) => of.ofElement(LISTS, key));
    return [{ family, key, service, before, after }];
  });
}

/** Addresses before NodePorts. */
function byFrontend(a: string, b: string): number {
  const isNodePort = (key: string) => Number(parseFrontendKey(key).address === undefined);
  return isNodePort(a) - isNodePort(b) || (a < b ? -1 : 1);
}

/** The Services that own something on either side. If several share it, the first represents all. */
function namesOf(
  owners: readonly ElementOwners[],
  ask: (of: ElementOwners) => readonly ServicePort[],
): ReadonlySet<string> {
  return new Set(owners.flatMap((of) => ask(of)[0]?.service.name ?? []));
}

function elementChanges({ family, elements }: TableDelta): ElementChange[] {
  return elements.flatMap(({ spec, deleted, added }: ElementsDelta) => {
    const gone = new Map(deleted.map(({ key, value }) => [key, value]));
    const arriving = new Set(added.map(({ key }) => key));
    return [
      ...deleted.flatMap(({ key, value: before }) =>
        arriving.has(key) ? [] : [{ family, set: spec.name, key, before }],
      ),
      ...added.map(({ key, value: after }) => ({
        family,
        set: spec.name,
        key,
        before: gone.get(key),
        after,
      })),
    ];
  });
}

function partChanges(
  { family, table, mode, objects }: TableDelta,
  owners: readonly ElementOwners[],
): PartChange[] {
  if (mode !== "change") {
    return [{ family, kind: "table", name: table, change: mode === "create" ? "added" : "changed" }];
  }
  return objects.map(({ kind, name, before, after }) => {
    const [service] = namesOf(owners, (of) => of.ofPart(name));
    const change = before === undefined ? "added" : after === undefined ? "removed" : "changed";
    return { family, kind: kind === "chain" || kind === "set" ? kind : "object", name, change, service };
  });
}
