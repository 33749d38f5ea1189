import { type ElementsDelta, hasIntervalKeys, onlyElements, partOf, type TableDelta } from "../nft/delta.ts";
import type { Element } from "../nft/elements.ts";
import type { FrontendKind } from "./frontend-kinds.ts";
import { parseId } from "./list-ids.ts";
import type { Step } from "./plan-step.ts";
import { AFFINITY_IDS, LISTS } from "./sets.ts";

/**
 * Returns the steps that change elements. The state is consistent after each step. Entries, which packets
 * look up first, are added after other elements and deleted before them. Between, elements get other values.
 * Only limited sets delete first, to make room.
 */
export function elementSteps(deltas: readonly TableDelta[], kinds: readonly FrontendKind[]): Step[] {
  const isVerdict = ({ spec }: ElementsDelta) => spec.value === "verdict";
  // Verdicts are added last and deleted first: they lead packets to the chains that look into the other sets,
  // such as source ranges.
  const parts = deltas
    .flatMap((delta) =>
      delta.elements.flatMap((elements) =>
        hasIntervalKeys(elements.spec) ? [] : [{ delta, ...divided(elements) }],
      ),
    )
    .sort((a, b) => Number(isVerdict(a.added)) - Number(isVerdict(b.added)));
  const intervals = deltas.map((delta) =>
    onlyElements(
      delta,
      delta.elements.filter(({ spec }) => hasIntervalKeys(spec)),
    ),
  );
  // A port needs its own list as long as rules skip the interval around it.
  const explicit = kinds.flatMap((kind) => (kind.kind === "interval" ? kind.explicitPorts : []));
  const entries = [LISTS, ...explicit].flatMap((set) => parts.filter(({ added }) => added.spec.name === set));
  const others = parts.filter((part) => !entries.includes(part));
  const isLimited = ({ added }: (typeof parts)[number]) => added.spec.size !== undefined;
  const step = (name: Step["name"], of: typeof parts, change: keyof DividedElements): Step => ({
    name,
    deltas: of.map((part) => onlyElements(part.delta, [part[change]])),
    divided: "in order",
  });
  const isKeptForIntervals = keptForIntervals(
    intervals.flatMap(({ elements }) => elements.filter(({ spec }) => isIntervalMap(spec.name, kinds))),
  );
  const values = (name: Step["name"], areKept: boolean): Step => ({
    name,
    deltas: parts.map(({ delta, replaced }) =>
      onlyElements(
        delta,
        partOf(replaced, (key) => isKeptForIntervals(replaced, key) === areKept),
      ),
    ),
    divided: "in order",
  });
  return [
    step("room in limited sets", others.filter(isLimited), "deleted"),
    step("new elements", others, "added"),
    step("new entries", entries, "added"),
    values("other values", false),
    { name: "intervals", deltas: intervals },
    values("values kept for intervals", true),
    step("removed entries", entries.toReversed(), "deleted"),
    step("removed elements", others.filter((part) => !isLimited(part)).toReversed(), "deleted"),
  ];
}

/**
 * Returns a function that tells whether intervals need the earlier value of an element until they have moved.
 * Ports and intervals find the same ids at the numbers of a sticky list. A service port that loses its last
 * interval gets new ids, which lead connections of intervals nowhere. Connections that are still sent to its
 * list by an interval need the earlier ids.
 * @param lists the changes of maps that lead from intervals to lists
 */
function keptForIntervals(lists: readonly ElementsDelta[]): (of: ElementsDelta, key: string) => boolean {
  const idOf = (text: string) => parseId(Number.parseInt(text, 10))?.servicePort;
  const doIntervalsMove = lists.some(({ deleted }) => deleted.length > 0);
  const gaining = new Set(lists.flatMap(({ added }) => added.map(({ value }) => idOf(value))));
  return ({ spec }, key) => doIntervalsMove && spec.name === AFFINITY_IDS && !gaining.has(idOf(key));
}

/** The elements of one set that are added, get another value, and are deleted. */
interface DividedElements {
  readonly added: ElementsDelta;
  readonly replaced: ElementsDelta;
  readonly deleted: ElementsDelta;
}

function divided({ spec, deleted, added }: ElementsDelta): DividedElements {
  const gone = new Map(added.length === 0 ? [] : deleted.map((element) => [element.key, element]));
  const replaced = gone.size === 0 ? [] : added.filter(({ key }) => gone.has(key));
  const replacedKeys = new Set(replaced.map(({ key }) => key));
  const others = (all: readonly Element[]) =>
    replacedKeys.size === 0 ? all : all.filter(({ key }) => !replacedKeys.has(key));
  return {
    added: { spec, deleted: [], added: others(added) },
    // In the same order, as both may be split.
    replaced: { spec, deleted: replaced.flatMap(({ key }) => gone.get(key) ?? []), added: replaced },
    deleted: { spec, deleted: others(deleted), added: [] },
  };
}

/**
 * Whether frontends get other lists, as when a Service becomes sticky: packets in flight still need the old
 * lists.
 */
export function leadsElsewhere({ elements }: TableDelta, kinds: readonly FrontendKind[]): boolean {
  return elements.some(({ spec, deleted, added }) => {
    if (isIntervalMap(spec.name, kinds)) return deleted.length > 0 && added.length > 0;
    const gone = new Set(spec.name === LISTS ? deleted.map(({ key }) => key) : []);
    return added.some(({ key }) => gone.has(key));
  });
}

/** Whether a map leads from intervals to lists. */
function isIntervalMap(name: string, kinds: readonly FrontendKind[]): boolean {
  return kinds.some(({ kind, lists }) => kind === "interval" && lists === name);
}
