import type { Family } from "../base/family.ts";
import type { AppliedTransaction, Nft } from "../kernel/nft.ts";
import { NftRefusedError, NftStoppedError } from "../kernel/nft-errors.ts";
import { declaredTable, readKernel } from "../kernel/read-kernel.ts";
import type { TableReader } from "../kernel/table-reader.ts";
import type { Command, Transaction } from "../nft/ast/json.ts";
import type { Ruleset, SetSpec } from "../nft/ast/ruleset.ts";
import { creation, deltaSize, diffRuleset, type TableDelta } from "../nft/delta.ts";
import { type ListedElement, timedElements } from "../nft/elements.ts";
import {
  canChangeInSteps,
  changeSteps,
  creationSteps,
  handoverEnd,
  mapHandover,
  newChainsFirst,
  rebuildTransaction,
  removalTransaction,
  toTransaction,
  withHandover,
  withoutChainDeletions,
} from "../nft/transaction.ts";
import type { RulesetState } from "../ruleset/ruleset-state.ts";
import { LISTS, RANGES } from "../ruleset/sets.ts";

/** How a full sync brought the kernel to the desired state. */
export interface FullSyncReport {
  /** The differences that were found; empty when there were none, and after a rebuild, which does not know them. */
  readonly deltas: readonly TableDelta[];
  /** Why our tables could not be read and were rebuilt; undefined when they could. */
  readonly unreadable: string | undefined;
  /** The transactions that were sent, in order. */
  readonly applied: readonly AppliedTransaction[];
}

/** Elements in one transaction, where there are more: an nft takes 24 MB for it, and chunking costs no extra CPU. */
export const CHUNK_SIZE = 7000;

/** Number of nft processes run in parallel on a cold start: two processors are busy while we write the next transaction. */
const NFT_AT_ONCE = 3;

/** A port's own list comes before the range around it is left. */
const ENTRIES = [LISTS, RANGES.explicitPorts];

/** How a full sync is to be done. */
export interface FullSyncOptions {
  /** The state that the desired tables are part of: it takes over what is free to choose. */
  readonly state?: RulesetState;
  /** The kernel has had this state before: see {@link RulesetState.adopt}. */
  readonly keepsIds?: boolean;
  /** Completes the desired tables from the kernel's, before these are compared. */
  readonly adopt?: ((kernel: Ruleset) => Promise<void>) | undefined;
  /** The most elements in one transaction of several. */
  readonly chunkSize?: number | undefined;
}

/**
 * Compares our tables in the kernel with the desired ruleset and repairs what differs. Everything else stays
 * untouched: connections and session affinity survive, and endpoints keep their indexes. Tables that cannot be read are rebuilt.
 * @throws as {@link Nft.apply}; the kernel is then as it was, or has a part of the changes, see {@link changeSteps}
 */
export async function fullSync(
  nft: Nft,
  tables: TableReader,
  desired: Ruleset,
  { state, keepsIds, adopt, chunkSize = CHUNK_SIZE }: FullSyncOptions = {},
): Promise<FullSyncReport> {
  const kernel = await readKernel(tables, Object.keys(desired) as Family[]);
  if (kernel.kind === "unreadable") {
    return { deltas: [], unreadable: kernel.reason, applied: await rebuild(nft, tables, desired) };
  }
  await adopt?.(kernel.ruleset);
  const deltas = state?.adopt(kernel.ruleset, { keepsIds, desired }) ?? diffRuleset(kernel.ruleset, desired);
  return { deltas, unreadable: undefined, applied: await applyDeltas(nft, tables, deltas, chunkSize) };
}

/**
 * Applies deltas in as few transactions as packets under way permit: one, after one with new chains that verdicts will lead
 * to ({@link newChainsFirst}). Only on kernels that require it, chains are deleted in one more. Tables that have to be made
 * anew keep the entries of session affinity, and a second transaction ends their {@link withHandover handover}. Tables that
 * did not exist are made in several transactions, of which the last one puts them in force, and many elements change in
 * steps that each leave whole what packets meet: nft's memory and time, and ours to write for it, are bounded.
 * @param stale deletions that the kernel has yet to be told of
 * @throws as {@link Nft.apply}
 */
export async function applyDeltas(
  nft: Nft,
  tables: TableReader,
  deltas: readonly TableDelta[],
  chunkSize = CHUNK_SIZE,
  stale: readonly TableDelta[] = [],
): Promise<AppliedTransaction[]> {
  if (deltas.length === 0) return [];
  if (deltas.every(({ mode }) => mode === "create")) return await create(nft, deltas, chunkSize);
  const { chains, others } = newChainsFirst(deltas, stale);
  const { begin, main, end } = mapHandover(others);
  const applied: AppliedTransaction[] = [];
  const send = async (part: readonly TableDelta[]) => {
    if (part.length > 0) applied.push(await nft.apply(toTransaction(part)));
  };
  await send(chains);
  await send(begin);
  applied.push(...(await change(nft, tables, main, chunkSize)));
  await send(end);
  return applied;
}

/** Applies deltas whose new chains are there. */
async function change(
  nft: Nft,
  tables: TableReader,
  deltas: readonly TableDelta[],
  chunkSize: number,
): Promise<AppliedTransaction[]> {
  const applied: AppliedTransaction[] = [];
  const isLarge = deltaSize(deltas).elements > chunkSize;
  if ((isLarge || deltas.some(leadsElsewhere)) && deltas.every(canChangeInSteps)) {
    for (const step of changeSteps(deltas, chunkSize, ENTRIES)) applied.push(await nft.apply(step));
    return applied;
  }
  applied.push(...(await applyTogether(nft, tables, deltas.map(withHandover))));
  const end = handoverEnd(deltas);
  if (end.length > 0) applied.push(await nft.apply(toTransaction(end)));
  return applied;
}

/** Whether frontends get other lists, as when a Service turns sticky: those of before must outlive packets under way. */
function leadsElsewhere({ elements }: TableDelta): boolean {
  return elements.some(({ spec, deleted, added }) => {
    if (spec.name === RANGES.lists) return deleted.length > 0 && added.length > 0;
    const gone = new Set(spec.name === LISTS ? deleted : []);
    return added.some(({ key }) => gone.has(key));
  });
}

async function applyTogether(
  nft: Nft,
  tables: TableReader,
  deltas: readonly TableDelta[],
): Promise<AppliedTransaction[]> {
  const carried = await carriedElements(tables, deltas);
  try {
    return [await nft.apply({ nftables: [...toTransaction(deltas).nftables, ...carried] })];
  } catch (error) {
    if (!(error instanceof NftRefusedError)) throw error;
    if (carried.length > 0) return [await nft.apply(toTransaction(deltas))];
    const { main, deletions } = withoutChainDeletions(deltas);
    if (!error.isBusy || deletions.length === 0) throw error;
    return [await nft.apply(toTransaction(main)), await nft.apply(toTransaction(deletions))];
  }
}

/** Makes the tables as a whole or not at all, as one transaction would. */
async function create(
  nft: Nft,
  deltas: readonly TableDelta[],
  chunkSize: number,
): Promise<AppliedTransaction[]> {
  if (deltaSize(deltas).elements <= chunkSize) return [await nft.apply(toTransaction(deltas))];
  const { declaration, elements, activation } = creationSteps(deltas, chunkSize);
  const declared = await nft.apply(declaration);
  try {
    return [declared, ...(await applyInAnyOrder(nft, elements)), await nft.apply(activation)];
  } catch (error) {
    const begun = removalTransaction(deltas.map(({ family, table }) => ({ family, name: table })));
    // A leftover that cannot be removed now has no base chains yet and so sees no packets; the next full sync repairs it.
    await nft.apply(begun).catch(() => {});
    throw error;
  }
}

/**
 * Applies transactions, some at a time: nft takes two thirds of its time to read JSON, which the kernel's lock does not
 * hold up. After a failure no more are begun.
 * @throws as {@link Nft.apply}, once none is under way
 */
async function applyInAnyOrder(
  nft: Nft,
  transactions: Generator<Transaction>,
): Promise<AppliedTransaction[]> {
  const applied: AppliedTransaction[] = [];
  const applyRest = async (): Promise<void> => {
    for (const transaction of transactions) applied.push(await nft.apply(transaction));
  };
  const results = await Promise.allSettled(Array.from({ length: NFT_AT_ONCE }, applyRest));
  for (const result of results) if (result.status === "rejected") throw result.reason;
  return applied;
}

/** Adds what the kernel remembers of clients to tables that are made anew; what it remembers of refused packets is lost. */
async function carriedElements(tables: TableReader, deltas: readonly TableDelta[]): Promise<Command[]> {
  const commands: Command[] = [];
  for (const { family, table, mode, addedSets } of deltas) {
    if (mode !== "recreate") continue;
    for (const spec of addedSets.filter(({ dynamic, value }) => dynamic && value !== undefined)) {
      const elements = await rememberedElements(tables, family, spec);
      if (elements.length > 0) commands.push({ add: timedElements(family, table, spec, elements) });
    }
  }
  return commands;
}

/** Returns none where they cannot be read: affinity is not worth a failed sync. @throws NftStoppedError */
async function rememberedElements(
  tables: TableReader,
  family: Family,
  spec: SetSpec,
): Promise<readonly ListedElement[]> {
  try {
    const known = (await declaredTable(tables, family))?.sets.get(spec.name)?.spec;
    // Versions of another layout had other keys.
    if (known === undefined || String(known.key) !== String(spec.key)) return [];
    const elements: ListedElement[] = [];
    for await (const batch of tables.elements(family, known)) elements.push(...batch);
    return elements;
  } catch (error) {
    if (error instanceof NftStoppedError) throw error;
    return [];
  }
}

/**
 * Rebuilds both tables whatever is in them. A transaction that keeps the affinity maps is tried first; a table that
 * refuses it, or that is still unreadable after it (a foreign chain stays), is made anew.
 */
async function rebuild(nft: Nft, tables: TableReader, desired: Ruleset): Promise<AppliedTransaction[]> {
  const applied: AppliedTransaction[] = [];
  try {
    applied.push(await nft.apply(rebuildTransaction(desired)));
    const kernel = await readKernel(tables, Object.keys(desired) as Family[]);
    if (kernel.kind === "read") return applied;
  } catch (error) {
    if (!(error instanceof NftRefusedError)) throw error;
  }
  const anew = Object.values(desired).map((table) => creation(table, "recreate"));
  return [...applied, ...(await applyDeltas(nft, tables, anew))];
}
