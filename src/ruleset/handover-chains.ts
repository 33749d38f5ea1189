import type { Rule } from "../nft/ast/json.ts";
import type { Chain, SetSpec } from "../nft/ast/ruleset.ts";
import { type ElementsDelta, nonEmpty, onlyElements, type TableDelta, writtenChains } from "../nft/delta.ts";
import { elementsOf } from "../nft/elements.ts";
import { changeOf, type ObjectChange } from "../nft/table-objects.ts";

/** Suffix of the names of temporary chains and maps: they translate while a table or a map is recreated. */
const HANDOVER = "-handover";

/**
 * Adds temporary chains to tables that are recreated, so that no packet passes untranslated. The kernel puts
 * a new hook before others of its priority (nf_hook_entries_grow) and checks at each hook which rules are
 * active. So a packet may pass the new rules before they are active, and the old ones when they no longer are
 * (6.18: 5 % of such transactions lost one of 70,000 new connections a second). The temporary chains have the
 * same rules and run after both, until {@link handoverEnd}.
 */
export function withHandover(delta: TableDelta): TableDelta {
  const chains = handoverChains(delta);
  return chains.length === 0 ? delta : { ...delta, objects: [...delta.objects, ...chains] };
}

/** Deletes the chains that {@link withHandover} added, if any. */
export function handoverEnd(deltas: readonly TableDelta[]): TableDelta[] {
  return deltas.flatMap((delta) => {
    return nonEmpty({ ...onlyElements(delta, []), objects: handoverChains(delta).map(undone) });
  });
}

function handoverChains(delta: TableDelta): ObjectChange[] {
  if (delta.mode !== "recreate") return [];
  return writtenChains(delta).flatMap(({ name: of, base, rules }) => {
    if (base?.type !== "nat") return [];
    const name = of + HANDOVER;
    return changeOf("chain", name, undefined, { name, base: { ...base, prio: base.prio + 1 }, rules });
  });
}

function undone(change: ObjectChange): ObjectChange {
  return { ...change, before: change.after, after: change.before } as ObjectChange;
}

/**
 * Makes packets look into a second map while intervals of a map are replaced. During a commit, packets
 * already use the new rules, but the elements of a deleted map are inactive (nft_map_deactivate), and new
 * intervals become visible only at the end (nft_set_commit_update). 6.18: 9 % of such transactions refused
 * one of 20,000 new flows a second.
 * @returns only `main` if nothing is replaced, or if the chains that look into the map change as well.
 * `leftover` deletes second maps of a sync that failed: their intervals could conflict with the new ones.
 */
export function mapHandover(deltas: readonly TableDelta[]): {
  readonly leftover: readonly TableDelta[];
  readonly begin: readonly TableDelta[];
  readonly main: readonly TableDelta[];
  readonly end: readonly TableDelta[];
} {
  const parts = deltas.flatMap((delta) => {
    const maps = delta.elements.filter((elements) => isReplaced(elements, delta));
    if (maps.length === 0) return [];
    const names = new Set(maps.map(({ spec }) => secondMap(spec).name));
    const leftover = delta.objects.filter(
      ({ kind, name, after }) => kind === "set" && after === undefined && names.has(name),
    );
    return [{ delta, maps, leftover, ...lookingTwice(maps) }];
  });
  return {
    leftover: parts.map(({ delta, leftover }) => ({ ...onlyElements(delta, []), objects: leftover })),
    begin: parts.map(({ delta, maps, objects }) => ({
      ...onlyElements(
        delta,
        maps.map(({ spec, added, intervalDeletion }) => ({
          spec: secondMap(spec),
          deleted: [],
          added:
            intervalDeletion?.replacement === undefined ? added : elementsOf(intervalDeletion.replacement),
        })),
      ),
      objects,
    })),
    main: deltas.map((delta) => {
      const part = parts.find((one) => one.delta === delta);
      if (part === undefined) return delta;
      const objects = delta.objects.filter((change) => !part.leftover.includes(change));
      return { ...delta, objects, elements: delta.elements.map(withUsers(part.twice)) };
    }),
    end: parts.map(({ delta, objects }) => ({ ...onlyElements(delta, []), objects: objects.map(undone) })),
  };
}

/** Whether to replace intervals with the help of a second map. */
function isReplaced(elements: ElementsDelta, delta: TableDelta): boolean {
  const users = usersOfReplaced(elements);
  return users.length > 0 && !writtenChains(delta).some(({ name }) => users.some((one) => one.name === name));
}

/** The chains whose packets could miss intervals while a change takes effect. */
export function usersOfReplaced({ added, intervalDeletion }: ElementsDelta): readonly Chain[] {
  if (intervalDeletion === undefined) return [];
  const { users, replacement } = intervalDeletion;
  return replacement === undefined && added.length === 0 ? [] : users;
}

/**
 * Second maps, and the chains that look into maps in a form that also looks into the second ones after a
 * miss.
 */
function lookingTwice(maps: readonly ElementsDelta[]): {
  readonly objects: readonly ObjectChange[];
  readonly twice: readonly Chain[];
} {
  const users = new Map(
    maps.flatMap(({ intervalDeletion }) => (intervalDeletion?.users ?? []).map((user) => [user.name, user])),
  );
  const again = (rule: Rule) =>
    maps.reduce(
      (text, { spec: { name } }) => text.replaceAll(`"@${name}"`, `"@${name}${HANDOVER}"`),
      JSON.stringify(rule),
    );
  const twice = (rule: Rule) => {
    const second = again(rule);
    return second === JSON.stringify(rule) ? [rule] : [rule, JSON.parse(second) as Rule];
  };
  const chains = [...users.values()].map((chain) => ({ ...chain, rules: chain.rules.flatMap(twice) }));
  const seconds = maps.map(({ spec }) => secondMap(spec));
  return {
    objects: [
      ...seconds.flatMap((spec) => changeOf("set", spec.name, undefined, spec)),
      ...chains.flatMap((chain) => changeOf("chain", chain.name, users.get(chain.name), chain)),
    ],
    twice: chains,
  };
}

function withUsers(chains: readonly Chain[]): (delta: ElementsDelta) => ElementsDelta {
  const byName = new Map(chains.map((chain) => [chain.name, chain]));
  return (delta) => {
    const { intervalDeletion: deletion } = delta;
    if (deletion === undefined) return delta;
    const users = deletion.users.map((one) => byName.get(one.name) ?? one);
    return { ...delta, intervalDeletion: { ...deletion, users } };
  };
}

function secondMap(spec: SetSpec): SetSpec {
  return { ...spec, name: spec.name + HANDOVER };
}
