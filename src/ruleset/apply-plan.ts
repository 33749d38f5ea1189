import type { Transaction } from "../nft/ast/json.ts";
import type { Chain } from "../nft/ast/ruleset.ts";
import { deltaSize, type ElementsDelta, hasIntervals, isEmptyDelta, type TableDelta } from "../nft/delta.ts";
import { verdictTarget } from "../nft/elements.ts";
import { onlyElements, removalTransaction, toTransaction } from "../nft/transaction.ts";
import { handoverEnd, mapHandover, withHandover } from "./handover.ts";
import { LISTS, RANGES } from "./sets.ts";

/**
 * Every step that a plan may have, in this order. docs/design.md ("The order of commands") has the reason for
 * each, and the test that guards it.
 */
export const STEP_NAMES = [
  "new tables",
  "elements of new tables",
  "base chains of new tables",
  "new chains",
  "second maps",
  "everything at once",
  "declarations",
  "room in limited sets",
  "new elements",
  "new entries",
  "other values",
  "ranges of ports",
  "entries that go",
  "elements that go",
  "chains that go",
  "handover chains that go",
  "second maps that go",
] as const;

/**
 * A part of a plan: what is in the kernel before the next one is sent. Packets meet nothing half-made between
 * two of them.
 */
export interface Step {
  readonly name: (typeof STEP_NAMES)[number];
  readonly deltas: readonly TableDelta[];
  /**
   * It changes elements alone, which several transactions may carry: one after the other, or in any order and
   * at the same time.
   */
  readonly divided?: "in order" | "in any order";
  /** Is sent where this step fails, for what is there has no use without it. */
  readonly undo?: Transaction;
  /** What is sent in place of this step where the kernel answers that it is busy. */
  readonly ifBusy?: readonly Step[];
}

/** How to make a plan. */
export interface PlanOptions {
  /** The most elements in one transaction, where there are more. */
  readonly chunkSize?: number | undefined;
  /** Deletions of chains that the kernel has yet to be told of: one that is wanted again is not new. */
  readonly stale?: readonly TableDelta[];
}

/**
 * Elements in one transaction, where there are more: an nft takes 24 MB for it, and chunking costs no extra
 * CPU.
 */
export const CHUNK_SIZE = 7000;

/**
 * The sets by whose elements packets come to those of others: a port's own list comes before the range around
 * it is left.
 */
const ENTRIES = [LISTS, RANGES.explicitPorts];

/**
 * Decides in which steps deltas come to the kernel: as few as packets under way, nft's memory and the kernel
 * permit. Tables that are missing are made first, each as a whole.
 */
export function applyPlan(
  deltas: readonly TableDelta[],
  { chunkSize = CHUNK_SIZE, stale = [] }: PlanOptions = {},
): readonly Step[] {
  const missing = deltas.filter(({ mode }) => mode === "create");
  const { chains, others } = newChainsFirst(
    deltas.filter(({ mode }) => mode !== "create"),
    stale,
  );
  const { begin, main, end } = mapHandover(others);
  const steps: Step[] = [
    ...creation(missing, chunkSize),
    { name: "new chains", deltas: chains },
    { name: "second maps", deltas: begin },
    ...changes(main, chunkSize),
    { name: "second maps that go", deltas: end },
  ];
  return steps.filter((step) => !step.deltas.every(isEmptyDelta));
}

/**
 * Writes the transactions of a step, each when it is asked for: as JSON, elements take ten times their
 * memory.
 * @param size the most elements in one transaction of a step that is divided
 */
export function* transactionsOf(
  { deltas, divided }: Pick<Step, "deltas" | "divided">,
  size = CHUNK_SIZE,
): Generator<Transaction> {
  if (divided !== undefined) yield* elementChunks(deltas, size);
  else yield toTransaction(deltas);
}

/**
 * Writes changes as transactions that the kernel may be asked about one by one: each has at most `size`
 * elements, and all that these need.
 */
export function* trialTransactions(deltas: readonly TableDelta[], size = CHUNK_SIZE): Generator<Transaction> {
  if (deltaSize(deltas).elements <= size) {
    yield toTransaction(deltas);
    return;
  }
  const declarations = toTransaction(deltas.map(withoutElements)).nftables;
  for (const step of elementSteps(deltas)) {
    for (const { nftables } of transactionsOf(step, size)) yield { nftables: [...declarations, ...nftables] };
  }
}

/**
 * Takes the deletions of chains out of deltas, and with them those of sets and flow tables, which these
 * chains may use. Some kernels before 6.2 answer EBUSY when a chain is deleted in the transaction that takes
 * away the last element that led to it.
 */
export function withoutChainDeletions(deltas: readonly TableDelta[]): {
  readonly main: TableDelta[];
  readonly deletions: TableDelta[];
} {
  return {
    main: deltas.map(({ deletedFlowtable: _, ...delta }) => ({
      ...delta,
      deletedChains: [],
      deletedSets: [],
    })),
    deletions: deltas
      .map((delta) => {
        const { deletedChains, deletedSets, deletedFlowtable } = delta;
        const flowtable = deletedFlowtable === undefined ? {} : { deletedFlowtable };
        return { ...onlyElements(delta, []), deletedChains, deletedSets, ...flowtable };
      })
      .filter((delta) => !isEmptyDelta(delta)),
  };
}

/** Tables come into force as a whole or not at all: without base chains no packet sees what is half-made. */
function creation(deltas: readonly TableDelta[], size: number): Step[] {
  if (deltaSize(deltas).elements <= size) return [{ name: "new tables", deltas }];
  const chains = ({ writtenChains }: TableDelta, areBase: boolean): Chain[] =>
    writtenChains.filter(({ base }) => (base !== undefined) === areBase);
  // A leftover that cannot be removed sees no packets; the next full sync repairs it.
  const undo = removalTransaction(deltas.map(({ family, table }) => ({ family, name: table })));
  return [
    {
      name: "new tables",
      deltas: deltas.map((delta) => ({ ...withoutElements(delta), writtenChains: chains(delta, false) })),
    },
    {
      name: "elements of new tables",
      deltas: deltas.map((delta) => onlyElements(delta, delta.elements)),
      divided: "in any order",
      undo,
    },
    {
      name: "base chains of new tables",
      deltas: deltas.map((delta) => ({ ...onlyElements(delta, []), writtenChains: chains(delta, true) })),
      undo,
    },
  ];
}

/**
 * Splits changes of existing tables in two where verdicts lead to new chains. A packet under way meets the
 * newest verdicts, but chains as they were before, and a new one had no rules then.
 * @returns no chains where one transaction does
 */
function newChainsFirst(
  deltas: readonly TableDelta[],
  stale: readonly TableDelta[],
): { readonly chains: readonly TableDelta[]; readonly others: readonly TableDelta[] } {
  const parts = deltas.map((delta) => {
    if (delta.mode !== "change") return { chains: onlyElements(delta, []), others: delta, isNeeded: false };
    const there = stale.flatMap(({ family, deletedChains }) =>
      family === delta.family ? deletedChains : [],
    );
    const known = new Set([...delta.changedChains, ...there]);
    const isNew = ({ name, base }: Chain) => base === undefined && !known.has(name);
    const writtenChains = delta.writtenChains.filter(isNew);
    const names = new Set(writtenChains.map(({ name }) => name));
    return {
      chains: { ...onlyElements(delta, []), addedSets: delta.addedSets, writtenChains },
      others: {
        ...delta,
        addedSets: [],
        writtenChains: delta.writtenChains.filter((chain) => !isNew(chain)),
      },
      isNeeded: delta.elements.some(({ added }) =>
        added.some(({ value }) => names.has(verdictTarget(value) ?? "")),
      ),
    };
  });
  if (!parts.some(({ isNeeded }) => isNeeded)) return { chains: [], others: deltas };
  return {
    chains: parts.map(({ chains }) => chains).filter((delta) => !isEmptyDelta(delta)),
    others: parts.map(({ others }) => others).filter((delta) => !isEmptyDelta(delta)),
  };
}

/**
 * Changes whose new chains are there: in steps where there are many, or frontends get other lists; else at
 * once.
 */
function changes(deltas: readonly TableDelta[], size: number): Step[] {
  const { main, deletions } = withoutChainDeletions(deltas.map(withHandover));
  const last: Step = { name: "chains that go", deltas: deletions };
  const isLarge = deltaSize(deltas).elements > size;
  if ((isLarge || deltas.some(leadsElsewhere)) && deltas.every(canChangeInSteps)) {
    const declarations = main.map(withoutElements).filter((delta) => !isEmptyDelta(delta));
    return [{ name: "declarations", deltas: declarations }, ...elementSteps(deltas), last];
  }
  const ifBusy: readonly Step[] = [{ name: "everything at once", deltas: main }, last];
  return [
    {
      name: "everything at once",
      deltas: deltas.map(withHandover),
      ...(deletions.length > 0 && { ifBusy }),
    },
    { name: "handover chains that go", deltas: handoverEnd(deltas) },
  ];
}

/**
 * Whether changes may come into force one by one: no chain that packets pass gets other rules, which may need
 * other elements.
 */
function canChangeInSteps({ mode, changedChains, replacedChains }: TableDelta): boolean {
  return mode === "change" && changedChains.length + replacedChains.length === 0;
}

/**
 * Whether frontends get other lists, as when a Service turns sticky: those of before must outlive packets
 * under way.
 */
function leadsElsewhere({ elements }: TableDelta): boolean {
  return elements.some(({ spec, deleted, added }) => {
    if (spec.name === RANGES.lists) return deleted.length > 0 && added.length > 0;
    const gone = new Set(spec.name === LISTS ? deleted : []);
    return added.some(({ key }) => gone.has(key));
  });
}

/**
 * What packets meet is whole after each step: elements come, entries last; then they get other values; then
 * they go, entries first.
 */
function elementSteps(deltas: readonly TableDelta[]): Step[] {
  const isVerdict = ({ spec }: ElementsDelta) => spec.value === "verdict";
  // Verdicts come last and go first: they lead packets to the chains that look into the other sets, such as
  // source ranges.
  const parts = deltas
    .flatMap((delta) =>
      delta.elements.flatMap((elements) =>
        hasIntervals(elements.spec) ? [] : [{ delta, ...divided(elements) }],
      ),
    )
    .sort((a, b) => Number(isVerdict(a.added)) - Number(isVerdict(b.added)));
  const entries = ENTRIES.flatMap((set) => parts.filter(({ added }) => added.spec.name === set));
  const others = parts.filter((part) => !entries.includes(part));
  const isLimited = ({ added }: (typeof parts)[number]) => added.spec.size !== undefined;
  const step = (name: Step["name"], of: typeof parts, change: keyof DividedElements): Step => ({
    name,
    deltas: of.map((part) => onlyElements(part.delta, [part[change]])),
    divided: "in order",
  });
  const rangesOf = (delta: TableDelta) => delta.elements.filter(({ spec }) => hasIntervals(spec));
  const ranges = deltas.map((delta) => onlyElements(delta, rangesOf(delta)));
  return [
    step("room in limited sets", others.filter(isLimited), "deleted"),
    step("new elements", others, "added"),
    step("new entries", entries, "added"),
    step("other values", parts, "replaced"),
    { name: "ranges of ports", deltas: ranges },
    step("entries that go", entries.toReversed(), "deleted"),
    step("elements that go", others.filter((part) => !isLimited(part)).toReversed(), "deleted"),
  ];
}

/** The elements of one set that come, get another value, and go. */
interface DividedElements {
  readonly added: ElementsDelta;
  readonly replaced: ElementsDelta;
  readonly deleted: ElementsDelta;
}

function divided({ spec, deleted, added }: ElementsDelta): DividedElements {
  const gone = new Set(added.length === 0 ? [] : deleted);
  const replaced = gone.size === 0 ? [] : added.filter(({ key }) => gone.has(key));
  const stays = new Set(replaced.map(({ key }) => key));
  return {
    added: { spec, deleted: [], added: gone.size === 0 ? added : added.filter(({ key }) => !gone.has(key)) },
    replaced: { spec, deleted: replaced.map(({ key }) => key), added: replaced },
    deleted: {
      spec,
      deleted: stays.size === 0 ? deleted : deleted.filter((key) => !stays.has(key)),
      added: [],
    },
  };
}

/** Elements that come, go or are replaced, in chunks of `size`. */
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

function withoutElements(delta: TableDelta): TableDelta {
  return { ...delta, elements: [] };
}
