import type { Transaction } from "../nft/ast/json.ts";
import {
  deltaSize,
  type ElementsDelta,
  hasIntervalKeys,
  isEmptyDelta,
  nonEmpty,
  onlyElements,
  partOf,
  type TableDelta,
} from "../nft/delta.ts";
import { verdictTarget } from "../nft/elements.ts";
import { isReplacedChain, type ObjectChange, type ObjectKind, ofKind } from "../nft/table-objects.ts";
import { removalTransaction, toTransaction } from "../nft/transaction.ts";
import { type FrontendKind, PORTS_ALONE } from "./frontend-kinds.ts";
import { handoverEnd, mapHandover, withHandover } from "./handover-chains.ts";
import { parseId } from "./list-ids.ts";
import { AFFINITY_IDS, LISTS, SOURCE_RANGES } from "./sets.ts";

/**
 * The possible steps of a plan, in order. docs/dev/design.md ("The order of commands") has the reason and the
 * test of each.
 */
export const STEP_NAMES = [
  "new tables",
  "elements of new tables",
  "base chains of new tables",
  "new sets and chains",
  "elements of new sets",
  "changed chains",
  "second maps",
  "everything at once",
  "declarations",
  "room in limited sets",
  "new elements",
  "new entries",
  "other values",
  "intervals",
  "values kept for intervals",
  "removed entries",
  "removed elements",
  "chains without removed sets",
  "removed chains",
  "removed source ranges",
  "removed handover chains",
  "removed second maps",
] as const;

/**
 * A part of a plan. The kernel has all of it before the next step is sent, and packets never see an
 * incomplete state between two steps.
 */
export interface Step {
  readonly name: (typeof STEP_NAMES)[number];
  readonly deltas: readonly TableDelta[];
  /**
   * Set if the step changes only elements and may be split into several transactions: sent one after another,
   * or in parallel.
   */
  readonly divided?: "in order" | "in any order";
  /** Sent if this step fails: the steps before it are useless without it. */
  readonly undo?: Transaction;
  /** Sent instead of this step if the kernel answers that it is busy. */
  readonly ifBusy?: readonly Step[];
}

/** Options of a plan. */
export interface PlanOptions {
  /** Maximum number of elements in each transaction of a step that is split. */
  readonly chunkSize?: number | undefined;
  /**
   * Deletions of chains that are not sent yet. These chains still exist, so they are not new if needed again.
   */
  readonly stale?: readonly TableDelta[];
  /** The kinds of frontends that tables may have; ports alone if absent. */
  readonly kinds?: readonly FrontendKind[];
}

/**
 * Maximum number of elements in one transaction of several. nft takes 24 MB for 7,000 elements, and splitting
 * costs no extra CPU.
 */
export const CHUNK_SIZE = 7000;

/**
 * Decides in which steps to send deltas: as few as packets in flight, nft's memory and the kernel allow.
 * Missing tables are created first, each as a whole.
 */
export function applyPlan(
  deltas: readonly TableDelta[],
  { chunkSize = CHUNK_SIZE, stale = [], kinds = PORTS_ALONE }: PlanOptions = {},
): readonly Step[] {
  const missing = deltas.filter(({ mode }) => mode === "create");
  const { first, others } = newFirst(
    deltas.filter(({ mode }) => mode !== "create"),
    stale,
    chunkSize,
  );
  const { begin, main, end } = mapHandover(others);
  const steps: Step[] = [
    ...creation(missing, chunkSize),
    ...first,
    { name: "second maps", deltas: begin },
    ...changes(main, chunkSize, kinds),
    { name: "removed second maps", deltas: end },
  ];
  return steps.filter((step) => !step.deltas.every(isEmptyDelta));
}

/**
 * Generates the transactions of a step one by one: as JSON, elements take ten times their memory.
 * @param size maximum number of elements in each transaction of a step that is split
 */
export function* transactionsOf(
  { deltas, divided }: Pick<Step, "deltas" | "divided">,
  size = CHUNK_SIZE,
): Generator<Transaction> {
  if (divided !== undefined) yield* elementChunks(deltas, size);
  else yield toTransaction(deltas);
}

/**
 * Writes changes as transactions that can be checked one by one: each has at most `size` elements and
 * everything that these need.
 */
export function* trialTransactions(
  deltas: readonly TableDelta[],
  kinds: readonly FrontendKind[],
  size = CHUNK_SIZE,
): Generator<Transaction> {
  if (deltaSize(deltas).elements <= size) {
    yield toTransaction(deltas);
    return;
  }
  const declarations = toTransaction(deltas.map(withoutElements)).nftables;
  for (const step of elementSteps(deltas, kinds)) {
    for (const { nftables } of transactionsOf(step, size)) yield { nftables: [...declarations, ...nftables] };
  }
}

/**
 * Separates the deletions of chains, and of the objects that these chains may use, from all other changes.
 * Some kernels before 6.2 answer EBUSY if one transaction deletes a chain and the last element that led to
 * it.
 */
export function withoutChainDeletions(deltas: readonly TableDelta[]): {
  readonly main: TableDelta[];
  readonly deletions: TableDelta[];
} {
  return {
    main: deltas.map((delta) => withObjects(delta, ({ after }) => after !== undefined)),
    deletions: deltas.flatMap((delta) =>
      nonEmpty(withObjects(withoutElements(delta), ({ after }) => after === undefined)),
    ),
  };
}

/** Creates tables that take effect as a whole: without base chains no packet sees an incomplete table. */
function creation(deltas: readonly TableDelta[], size: number): Step[] {
  if (deltaSize(deltas).elements <= size) return [{ name: "new tables", deltas }];
  // A leftover that cannot be removed sees no packets; the next full sync repairs it.
  const undo = removalTransaction(deltas.map(({ family, table }) => ({ family, name: table })));
  return [
    {
      name: "new tables",
      deltas: deltas.map((delta) => withObjects(withoutElements(delta), (change) => !isBaseChain(change))),
    },
    {
      name: "elements of new tables",
      deltas: deltas.map((delta) => onlyElements(delta, delta.elements)),
      divided: "in any order",
      undo,
    },
    {
      name: "base chains of new tables",
      deltas: deltas.map((delta) => ({
        ...withObjects(withoutElements(delta), isBaseChain),
        mode: "change",
      })),
      undo,
    },
  ];
}

/**
 * Separates what packets in flight need before other changes take effect. These see the newest elements, but
 * the previous rules of a chain, and a new chain has no previous rules. So these come first, each before what
 * leads to it: new chains; new sets with their elements, and source ranges; changed chains, if they look into
 * new sets.
 * @returns no steps if one transaction suffices
 */
function newFirst(
  deltas: readonly TableDelta[],
  stale: readonly TableDelta[],
  size: number,
): { readonly first: readonly Step[]; readonly others: readonly TableDelta[] } {
  const parts = deltas.map((delta) => partsOf(delta, stale));
  if (!parts.some(({ isNeeded }) => isNeeded)) return { first: [], others: deltas };
  const declared = parts.map(({ declarations }) => declarations);
  const filled = parts.map(({ elements }) => elements);
  const isLarge = deltaSize(filled).elements > size;
  const joined = declared.map((delta, index) => ({ ...delta, elements: filled[index]?.elements ?? [] }));
  return {
    first: [
      { name: "new sets and chains", deltas: isLarge ? declared : joined },
      { name: "elements of new sets", deltas: isLarge ? filled : [], divided: "in order" },
      { name: "changed chains", deltas: parts.map(({ changed }) => changed) },
    ],
    others: parts.map(({ others }) => others).filter((delta) => !isEmptyDelta(delta)),
  };
}

function partsOf(delta: TableDelta, stale: readonly TableDelta[]) {
  const none = onlyElements(delta, []);
  if (delta.mode !== "change")
    return { declarations: none, elements: none, changed: none, others: delta, isNeeded: false };
  const there = stale.flatMap(({ family, objects }) =>
    family === delta.family ? ofKind(objects, "chain") : [],
  );
  const known = new Set(there.map(({ name }) => name));
  const isNew = ({ kind, name, before, after }: ObjectChange) =>
    before === undefined && !(kind === "chain" && (after?.base !== undefined || known.has(name)));
  const added = delta.objects.filter(isNew);
  const rest = delta.objects.filter((change) => !isNew(change));
  const [names, newSets] = [namesOf(added, "chain"), namesOf(added, "set")];
  const isFirst = ({ spec }: ElementsDelta) => newSets.has(spec.name) || spec.name === SOURCE_RANGES;
  const elements = delta.elements.filter(isFirst).map((one) => ({ ...one, deleted: [] }));
  const others = delta.elements.map((one) => (isFirst(one) ? { ...one, added: [] } : one));
  // Chains with another hook are replaced with everything else.
  const isChangedFirst = newSets.size > 0 && !ofKind(rest, "chain").some(isReplacedChain);
  const isChanged = ({ kind, after }: ObjectChange) =>
    isChangedFirst && kind === "chain" && after !== undefined;
  const changed = rest.filter(isChanged);
  return {
    declarations: { ...none, objects: added },
    elements: onlyElements(delta, elements.filter(hasChanges)),
    changed: { ...none, objects: changed },
    others: {
      ...delta,
      objects: rest.filter((change) => !isChanged(change)),
      elements: others.filter(hasChanges),
    },
    isNeeded:
      changed.length > 0 ||
      elements.some(({ spec, added }) => spec.name === SOURCE_RANGES && added.length > 0) ||
      delta.elements.some(({ added }) => added.some(({ value }) => names.has(verdictTarget(value) ?? ""))),
  };
}

function namesOf(changes: readonly ObjectChange[], kind: ObjectKind): ReadonlySet<string> {
  return new Set(ofKind(changes, kind).map(({ name }) => name));
}

function hasChanges({ added, deleted }: ElementsDelta): boolean {
  return added.length + deleted.length > 0;
}

/**
 * Steps for changes whose new chains exist: one by one if there are many or frontends get other lists, else
 * all at once.
 */
function changes(all: readonly TableDelta[], size: number, kinds: readonly FrontendKind[]): Step[] {
  const { deltas, ranges } = withoutRemovedRanges(all);
  const { main, deletions } = withoutChainDeletions(deltas.map(withHandover));
  const lastRanges: Step = { name: "removed source ranges", deltas: ranges, divided: "in order" };
  const last: Step = { name: "removed chains", deltas: deletions };
  const isLarge = deltaSize(deltas).elements > size;
  if ((isLarge || deltas.some((delta) => leadsElsewhere(delta, kinds))) && deltas.every(canChangeInSteps)) {
    const declared = main.map(withoutElements);
    return [
      { name: "declarations", deltas: declared.map((delta) => withObjects(delta, isAdded)) },
      ...elementSteps(deltas.map(withoutRemovedSets), kinds),
      {
        name: "chains without removed sets",
        deltas: declared.map((delta) => withObjects(delta, (change) => !isAdded(change))),
      },
      last,
      lastRanges,
    ];
  }
  const ifBusy: readonly Step[] = [{ name: "everything at once", deltas: main }, last];
  const end: Step = { name: "removed handover chains", deltas: handoverEnd(deltas) };
  // nft's JSON cannot delete timeouts: see transaction-text.ts.
  if (deletions.some(({ objects }) => ofKind(objects, "ct timeout").length > 0))
    return [...ifBusy, lastRanges, end];
  return [
    {
      name: "everything at once",
      deltas: deltas.map(withHandover),
      ...(deletions.length > 0 && { ifBusy }),
    },
    lastRanges,
    end,
  ];
}

/** Separates deleted source ranges: packets in flight may still have the number of their list. */
function withoutRemovedRanges(deltas: readonly TableDelta[]) {
  const removedOf = ({ mode, objects, elements }: TableDelta) =>
    // Without the set, no packet can have a number.
    mode === "change" && !objects.some(({ name, after }) => name === SOURCE_RANGES && after === undefined)
      ? elements.filter(({ spec, deleted }) => spec.name === SOURCE_RANGES && deleted.length > 0)
      : [];
  return {
    deltas: deltas.map((delta) => {
      const removed = removedOf(delta);
      if (removed.length === 0) return delta;
      return { ...delta, elements: delta.elements.filter((one) => !removed.includes(one)) };
    }),
    ranges: deltas.flatMap((delta) => {
      const removed = removedOf(delta);
      return removed.length === 0 ? [] : [onlyElements(delta, removed)];
    }),
  };
}

/**
 * Whether changes may take effect one by one: existing chains get no other rules, which may need other
 * elements, unless they only stop looking into sets that are deleted. These do so last.
 */
function canChangeInSteps({ mode, objects }: TableDelta): boolean {
  const changed = ofKind(objects, "chain").filter(({ before, after }) => before && after);
  const areSetsDeleted = ofKind(objects, "set").some(({ after }) => after === undefined);
  return mode === "change" && (changed.length === 0 || (areSetsDeleted && !changed.some(isReplacedChain)));
}

/** Elements of sets that are deleted go with their set: until then, chains look into it. */
function withoutRemovedSets(delta: TableDelta): TableDelta {
  const removed = namesOf(
    delta.objects.filter(({ after }) => after === undefined),
    "set",
  );
  return { ...delta, elements: delta.elements.filter(({ spec }) => !removed.has(spec.name)) };
}

function isAdded({ before }: ObjectChange): boolean {
  return before === undefined;
}

/**
 * Whether frontends get other lists, as when a Service becomes sticky: packets in flight still need the old
 * lists.
 */
function leadsElsewhere({ elements }: TableDelta, kinds: readonly FrontendKind[]): boolean {
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

/**
 * Steps for elements, each of which leaves a consistent state: first additions, with entries last; then new
 * values; then deletions, with entries first.
 */
function elementSteps(deltas: readonly TableDelta[], kinds: readonly FrontendKind[]): Step[] {
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
  // The sets that packets look up first. A port gets its own list before it leaves the interval around it.
  const explicit = kinds.flatMap((kind) => (kind.kind === "interval" ? kind.explicitPorts : []));
  const entries = [LISTS, ...explicit].flatMap((set) => parts.filter(({ added }) => added.spec.name === set));
  const others = parts.filter((part) => !entries.includes(part));
  const isLimited = ({ added }: (typeof parts)[number]) => added.spec.size !== undefined;
  const step = (name: Step["name"], of: typeof parts, change: keyof DividedElements): Step => ({
    name,
    deltas: of.map((part) => onlyElements(part.delta, [part[change]])),
    divided: "in order",
  });
  const intervalsOf = (delta: TableDelta) => delta.elements.filter(({ spec }) => hasIntervalKeys(spec));
  const intervals = deltas.map((delta) => onlyElements(delta, intervalsOf(delta)));
  const leading = intervals.flatMap(({ elements }) => elements);
  const isNeeded = neededByIntervals(leading.filter(({ spec }) => isIntervalMap(spec.name, kinds)));
  const values = (name: Step["name"], areNeeded: boolean): Step => ({
    name,
    deltas: parts.map(({ delta, replaced }) =>
      onlyElements(
        delta,
        partOf(replaced, (key) => isNeeded(replaced, key) === areNeeded),
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
 * The numbers of sticky endpoints lead connections of ports and of intervals to the same ids, but the new ids
 * of a service port without intervals lead those of intervals nowhere.
 * @param lists the changes of maps that lead from intervals to lists
 */
function neededByIntervals(lists: readonly ElementsDelta[]): (of: ElementsDelta, key: string) => boolean {
  const idOf = (text: string) => parseId(Number.parseInt(text, 10))?.servicePort;
  const areMoved = lists.some(({ deleted }) => deleted.length > 0);
  const gaining = new Set(lists.flatMap(({ added }) => added.map(({ value }) => idOf(value))));
  return ({ spec }, key) => areMoved && spec.name === AFFINITY_IDS && !gaining.has(idOf(key));
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
  const stays = new Set(replaced.map(({ key }) => key));
  return {
    added: { spec, deleted: [], added: gone.size === 0 ? added : added.filter(({ key }) => !gone.has(key)) },
    // In the same order, as both may be split.
    replaced: { spec, deleted: replaced.flatMap(({ key }) => gone.get(key) ?? []), added: replaced },
    deleted: {
      spec,
      deleted: stays.size === 0 ? deleted : deleted.filter(({ key }) => !stays.has(key)),
      added: [],
    },
  };
}

/** Splits additions, deletions and replacements of elements into transactions of `size` elements. */
function* elementChunks(deltas: readonly TableDelta[], size: number): Generator<Transaction> {
  let chunk: TableDelta[] = [];
  let room = size;
  for (const delta of deltas) {
    for (const { spec, deleted, added } of delta.elements) {
      const count = Math.max(deleted.length, added.length);
      for (let from = 0; from < count; ) {
        const until = Math.min(count, from + room);
        const part = { spec, deleted: deleted.slice(from, until), added: added.slice(from, until) };
        chunk.push(onlyElements(delta, [part]));
        room -= until - from;
        from = until;
        if (room > 0) continue;
        yield toTransaction(chunk);
        chunk = [];
        room = size;
      }
    }
  }
  if (chunk.length > 0) yield toTransaction(chunk);
}

function isBaseChain(change: ObjectChange): boolean {
  return change.kind === "chain" && change.after?.base !== undefined;
}

function withObjects(delta: TableDelta, isWanted: (change: ObjectChange) => boolean): TableDelta {
  return { ...delta, objects: delta.objects.filter(isWanted) };
}

function withoutElements(delta: TableDelta): TableDelta {
  return { ...delta, elements: [] };
}
