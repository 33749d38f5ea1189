import type { Family } from "../base/family.ts";
import { FRONTEND_KINDS } from "../features/frontends.ts";
import type { AppliedTransaction, Nft } from "../kernel/nft.ts";
import { NftRefusedError, NftStoppedError } from "../kernel/nft-errors.ts";
import { declaredTable, readKernel } from "../kernel/read-kernel.ts";
import type { TableReader } from "../kernel/table-reader.ts";
import type { Command, Transaction } from "../nft/ast/json.ts";
import type { Ruleset, SetSpec } from "../nft/ast/ruleset.ts";
import { creation, type TableDelta } from "../nft/delta.ts";
import { type ListedElement, timedElementJson } from "../nft/elements.ts";
import { ofKind } from "../nft/table-objects.ts";
import { rebuildTransaction } from "../nft/transaction.ts";
import { applyPlan, type PlanOptions, transactionsOf } from "../ruleset/apply-plan.ts";
import type { Step } from "../ruleset/plan-step.ts";

/**
 * Number of nft processes run in parallel on a cold start: two keep two processors busy while we write the
 * next transaction.
 */
const PARALLEL_NFT = 3;

/**
 * Sends deltas to the kernel in the steps of {@link applyPlan}. Tables that are recreated keep the entries of
 * session affinity.
 * @throws as {@link Nft.apply}; the kernel then has applied all steps before the one that failed
 */
export async function applyDeltas(
  nft: Nft,
  tables: TableReader,
  deltas: readonly TableDelta[],
  options: PlanOptions = {},
): Promise<AppliedTransaction[]> {
  const send = async (steps: readonly Step[]): Promise<AppliedTransaction[]> => {
    const applied: AppliedTransaction[] = [];
    for (const step of steps) {
      const transactions = transactionsOf(step, options.chunkSize);
      try {
        if (step.divided === "in any order") applied.push(...(await applyInAnyOrder(nft, transactions)));
        else
          applied.push(
            ...(await applyInOrder(nft, transactions, await carriedElements(tables, step.deltas))),
          );
      } catch (error) {
        if (step.undo !== undefined) await nft.apply(step.undo).catch(() => {});
        if (!(error instanceof NftRefusedError && error.isBusy && step.ifBusy !== undefined)) throw error;
        applied.push(...(await send(step.ifBusy)));
      }
    }
    return applied;
  };
  return await send(applyPlan(deltas, { ...options, kinds: FRONTEND_KINDS }));
}

/**
 * @param carried commands to add to each transaction; if the kernel refuses a transaction with them, it is
 * sent without them
 */
async function applyInOrder(
  nft: Nft,
  transactions: Iterable<Transaction>,
  carried: readonly Command[],
): Promise<AppliedTransaction[]> {
  const applied: AppliedTransaction[] = [];
  for (const transaction of transactions) {
    try {
      applied.push(await nft.apply({ nftables: [...transaction.nftables, ...carried] }));
    } catch (error) {
      if (!(error instanceof NftRefusedError) || carried.length === 0) throw error;
      applied.push(await nft.apply(transaction));
    }
  }
  return applied;
}

/**
 * Applies several transactions in parallel: nft spends two thirds of its time on reading JSON, which needs no
 * lock of the kernel. After a failure, it starts no further ones.
 * @throws as {@link Nft.apply}, after all running ones have ended
 */
async function applyInAnyOrder(
  nft: Nft,
  transactions: Generator<Transaction>,
): Promise<AppliedTransaction[]> {
  const applied: AppliedTransaction[] = [];
  const applyRest = async (): Promise<void> => {
    for (const transaction of transactions) applied.push(await nft.apply(transaction));
  };
  const results = await Promise.allSettled(Array.from({ length: PARALLEL_NFT }, applyRest));
  for (const result of results) if (result.status === "rejected") throw result.reason;
  return applied;
}

/**
 * Commands that carry affinity entries over to tables that are recreated. The record of refused packets is
 * lost.
 */
async function carriedElements(tables: TableReader, deltas: readonly TableDelta[]): Promise<Command[]> {
  const commands: Command[] = [];
  for (const { family, table, mode, objects } of deltas) {
    if (mode !== "recreate") continue;
    for (const { after: spec } of ofKind(objects, "set")) {
      if (!spec?.dynamic || spec.value === undefined) continue;
      const elements = await rememberedElements(tables, family, spec);
      const elem = elements.map((element) => timedElementJson(spec, element));
      if (elem.length > 0) commands.push({ add: { element: { family, table, name: spec.name, elem } } });
    }
  }
  return commands;
}

/** Returns none if they cannot be read: affinity is not worth a failed sync. @throws NftStoppedError */
async function rememberedElements(
  tables: TableReader,
  family: Family,
  spec: SetSpec,
): Promise<readonly ListedElement[]> {
  try {
    const known = (await declaredTable(tables, family))?.sets.get(spec.name)?.spec;
    // Other versions may have used other keys.
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
 * Rebuilds both tables, regardless of their contents. It first tries a transaction that keeps the affinity
 * maps. If the kernel refuses that, or the tables are still unreadable (foreign chains stay), it recreates
 * them.
 */
export async function rebuild(
  nft: Nft,
  tables: TableReader,
  desired: Ruleset,
): Promise<AppliedTransaction[]> {
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
