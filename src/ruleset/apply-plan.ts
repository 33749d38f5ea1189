import type { Rule, Transaction } from "../nft/ast/json.ts";
import type { Chain } from "../nft/ast/ruleset.ts";
import {
  deltaSize,
  type ElementsDelta,
  isEmptyDelta,
  nonEmpty,
  onlyElements,
  type TableDelta,
} from "../nft/delta.ts";
import { verdictTarget } from "../nft/elements.ts";
import {
  changeOf,
  isReplacedChain,
  type ObjectChange,
  type ObjectKind,
  ofKind,
} from "../nft/table-objects.ts";
import { removalTransaction, toTransaction } from "../nft/transaction.ts";
import { elementSteps, leadsElsewhere } from "./element-steps.ts";
import { type FrontendKind, PORTS_ALONE } from "./frontend-kinds.ts";
import { handoverEnd, mapHandover, usersOfReplaced, withHandover } from "./handover-chains.ts";
import type { Step } from "./plan-step.ts";
import { SOURCE_RANGES } from "./sets.ts";

/** Options of a plan. */
export interface PlanOptions {
  /** Maximum number of elements in each transaction of a step that is split. */
  readonly chunkSize?: number | undefined;
  /**
   * Deletions of chains that are not sent yet. These chains still exist, so they are not new if needed again.
   */
  readonly staleChains?: readonly TableDelta[];
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
  { chunkSize = CHUNK_SIZE, staleChains = [], kinds = PORTS_ALONE }: PlanOptions = {},
): readonly Step[] {
  const missing = deltas.filter(({ mode }) => mode === "create");
  const { first, others } = newFirst(
    deltas.filter(({ mode }) => mode !== "create"),
    staleChains,
    chunkSize,
  );
  // While intervals of a map are replaced, packets look into a second map.
  const { leftover, begin, main, end } = mapHandover(others);
  const steps: Step[] = [
    ...creation(missing, chunkSize),
    ...first,
    { name: "leftover second maps", deltas: leftover },
    { name: "second maps", deltas: begin },
    ...changes(main, chunkSize, kinds),
    { name: "removed second maps", deltas: end },
  ];
  return steps.filter((step) => !step.deltas.every(isEmptyDelta));
}

/**
 * Generates the transactions of a step one by one: as JSON, elements take ten times their memory. `divided`
 * also tells the sender whether it may send some in parallel.
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
 * Separates the deletions of chains, and of the sets and other objects that they may use, from other changes.
 * Some kernels before 6.2 answer EBUSY if one transaction deletes a chain and the last element that led to
 * it.
 */
export function withoutObjectDeletions(deltas: readonly TableDelta[]): {
  readonly main: TableDelta[];
  readonly objectDeletions: TableDelta[];
} {
  return {
    main: deltas.map((delta) => withObjects(delta, ({ after }) => after !== undefined)),
    objectDeletions: deltas.flatMap((delta) =>
      nonEmpty(withObjects(withoutElements(delta), ({ after }) => after === undefined)),
    ),
  };
}

/** Creates tables that take effect as a whole: without base chains no packet sees an incomplete table. */
function creation(deltas: readonly TableDelta[], size: number): Step[] {
  if (deltaSize(deltas).elements <= size) return [{ name: "new tables", deltas }];
  // If the removal fails, too, the tables that stay have no base chains, so no packet enters them. The next
  // full sync repairs them.
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
 * Separates what packets in flight need before other changes take effect. These packets see the newest
 * elements, but the previous rules of a chain, and a new chain has no previous rules. So these come first,
 * each before what leads to it:
 * 1. new chains and sets;
 * 2. the elements of new sets, and added source ranges;
 * 3. changed chains, if there are new sets into which they may look.
 * @returns no steps if one transaction suffices; {@link applyPlan} drops empty ones
 */
function newFirst(
  deltas: readonly TableDelta[],
  staleChains: readonly TableDelta[],
  size: number,
): { readonly first: readonly Step[]; readonly others: readonly TableDelta[] } {
  const parts = deltas.map((delta) => partsOf(delta, staleChains));
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

/** Divides a delta for {@link newFirst}. `isNeeded`: whether some parts must come before others. */
function partsOf(delta: TableDelta, staleChains: readonly TableDelta[]) {
  const none = onlyElements(delta, []);
  if (delta.mode !== "change")
    return { declarations: none, elements: none, changed: none, others: delta, isNeeded: false };
  const staleOfFamily = staleChains.flatMap(({ family, objects }) =>
    family === delta.family ? ofKind(objects, "chain") : [],
  );
  const staleNames = new Set(staleOfFamily.map(({ name }) => name));
  const isStale = ({ kind, name }: ObjectChange) => kind === "chain" && staleNames.has(name);
  // Packets enter a base chain as soon as it exists: it comes with everything else.
  const isNew = (change: ObjectChange) => isAdded(change) && !isBaseChain(change) && !isStale(change);
  const added = delta.objects.filter(isNew);
  const rest = delta.objects.filter((change) => !isNew(change));
  const [newChains, newSets] = [namesOf(added, "chain"), namesOf(added, "set")];
  const isFirst = ({ spec }: ElementsDelta) => newSets.has(spec.name) || spec.name === SOURCE_RANGES;
  const elements = delta.elements.filter(isFirst).map((one) => ({ ...one, deleted: [] }));
  const others = delta.elements.map((one) => (isFirst(one) ? { ...one, added: [] } : one));
  const { changedFirst, changedLater } =
    newSets.size > 0 ? changesOfChains(delta, rest) : { changedFirst: [], changedLater: rest };
  return {
    declarations: { ...none, objects: added },
    elements: onlyElements(delta, elements.filter(hasChanges)),
    changed: { ...none, objects: changedFirst },
    others: { ...delta, objects: changedLater, elements: others.filter(hasChanges) },
    isNeeded:
      changedFirst.length > 0 ||
      elements.some(({ spec, added }) => spec.name === SOURCE_RANGES && added.length > 0) ||
      delta.elements.some(({ added }) =>
        added.some(({ value }) => newChains.has(verdictTarget(value) ?? "")),
      ),
  };
}

/**
 * Divides changes of objects where there are new sets. Chains change before their elements do; rules that
 * look into deleted sets stay until later, as long as elements lead packets there.
 */
function changesOfChains(delta: TableDelta, objects: readonly ObjectChange[]) {
  // A chain whose hook changes is deleted and added with everything else, and other changed chains come with
  // it.
  if (ofKind(objects, "chain").some(isReplacedChain)) return { changedFirst: [], changedLater: objects };
  const areSetsDeleted = ofKind(objects, "set").some(({ after }) => after === undefined);
  // These look into intervals that are replaced: they change before, as they look into second maps
  // afterwards.
  const users = new Set(delta.elements.flatMap(usersOfReplaced).map(({ name }) => name));
  const parts = objects.map((change) => {
    const { kind, name, before, after } = change;
    if (kind !== "chain" || after === undefined) return { first: [], later: [change] };
    const between = areSetsDeleted && !users.has(name) ? keepingOldRules(change) : after;
    return {
      first: changeOf("chain", name, before, between),
      later: changeOf("chain", name, between, after),
    };
  });
  return {
    changedFirst: parts.flatMap(({ first }) => first),
    changedLater: parts.flatMap(({ later }) => later),
  };
}

function namesOf(changes: readonly ObjectChange[], kind: ObjectKind): ReadonlySet<string> {
  return new Set(ofKind(changes, kind).map(({ name }) => name));
}

function hasChanges({ added, deleted }: ElementsDelta): boolean {
  return added.length + deleted.length > 0;
}

/**
 * Steps for what {@link newFirst} leaves: one by one if there is much or frontends get other lists, else all
 * at once.
 */
function changes(all: readonly TableDelta[], size: number, kinds: readonly FrontendKind[]): Step[] {
  const { deltas, ranges } = withoutRemovedRanges(all);
  const withHandoverChains = deltas.map(withHandover);
  const { main, objectDeletions } = withoutObjectDeletions(withHandoverChains);
  const lastRanges: Step = { name: "removed source ranges", deltas: ranges, divided: "in order" };
  const last: Step = { name: "removed chains", deltas: objectDeletions };
  const isLarge = deltaSize(deltas).elements > size;
  if ((isLarge || deltas.some((delta) => leadsElsewhere(delta, kinds))) && deltas.every(canChangeInSteps)) {
    const declared = main.map(withoutElements);
    // No table is recreated here, so there are no handover chains to remove.
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
  const deletingLast: readonly Step[] = [{ name: "everything at once", deltas: main }, last];
  const end: Step = { name: "removed handover chains", deltas: handoverEnd(deltas) };
  // nft's JSON cannot delete timeouts, so their transaction may only delete: see transaction-text.ts.
  if (objectDeletions.some(({ objects }) => ofKind(objects, "ct timeout").length > 0))
    return [...deletingLast, lastRanges, end];
  return [
    {
      name: "everything at once",
      deltas: withHandoverChains,
      ...(objectDeletions.length > 0 && { ifBusy: deletingLast }),
    },
    lastRanges,
    end,
  ];
}

/**
 * Separates deleted source ranges: packets in flight may still have the number of their list. Added ones are
 * not here: {@link newFirst} takes them.
 */
function withoutRemovedRanges(all: readonly TableDelta[]) {
  const parts = all.map((delta) => {
    const { mode, objects, elements } = delta;
    // Without the set, no packet can have a number.
    const isSetGone = objects.some(({ name, after }) => name === SOURCE_RANGES && after === undefined);
    const isRemoved = ({ spec, deleted }: ElementsDelta) =>
      mode === "change" && !isSetGone && spec.name === SOURCE_RANGES && deleted.length > 0;
    return {
      delta: { ...delta, elements: elements.filter((one) => !isRemoved(one)) },
      ranges: onlyElements(delta, elements.filter(isRemoved)),
    };
  });
  return {
    deltas: parts.map(({ delta }) => delta),
    ranges: parts.flatMap(({ ranges }) => nonEmpty(ranges)),
  };
}

/**
 * Whether changes may take effect one by one. That is so in two cases: no existing chain changes; or sets are
 * deleted, and chains only lose the rules that look into them, so that these chains can come last.
 */
function canChangeInSteps({ mode, objects }: TableDelta): boolean {
  const changed = ofKind(objects, "chain").filter(({ before, after }) => before && after);
  const areSetsDeleted = ofKind(objects, "set").some(({ after }) => after === undefined);
  return mode === "change" && (changed.length === 0 || (areSetsDeleted && changed.every(onlyLosesRules)));
}

function onlyLosesRules(change: ObjectChange<"chain">): boolean {
  return changeOf("chain", change.name, change.before, keepingOldRules(change)).length === 0;
}

/** The chain with its new rules beside all old ones: `a b c` and `a x c` make `a b x c`. */
function keepingOldRules({ before, after }: ObjectChange<"chain">): Chain | undefined {
  if (before === undefined || after === undefined) return after;
  const wanted = after.rules.map((rule) => JSON.stringify(rule));
  const rules: Rule[] = [];
  let next = 0;
  for (const rule of before.rules) {
    const index = wanted.indexOf(JSON.stringify(rule), next);
    if (index === -1) rules.push(rule);
    else {
      rules.push(...after.rules.slice(next, index + 1));
      next = index + 1;
    }
  }
  return { ...after, rules: [...rules, ...after.rules.slice(next)] };
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
 * Splits additions, deletions and replacements of elements into transactions of `size` elements. Steps that
 * are divided have a replaced element at the same index of `deleted` and `added`, so both get into one
 * transaction.
 */
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
