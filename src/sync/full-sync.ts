import { AppError } from "../base/errors.ts";
import type { Family } from "../base/family.ts";
import type { AppliedTransaction, Nft } from "../kernel/nft.ts";
import { tableNames } from "../kernel/nft-listings.ts";
import { readKernel } from "../kernel/read-kernel.ts";
import type { TableReader } from "../kernel/table-reader.ts";
import { type Ruleset, TABLE_NAME } from "../nft/ast/ruleset.ts";
import { diffRuleset, type TableDelta } from "../nft/delta.ts";
import { adoptNumbers } from "../ruleset/adopt-numbers.ts";
import type { RulesetState } from "../ruleset/ruleset-state.ts";
import { applyDeltas, rebuild } from "./apply-deltas.ts";

/** How a full sync brought the kernel to the desired state. */
export interface FullSyncReport {
  /**
   * The differences that were found; empty if there were none, and after a rebuild, which cannot find them.
   */
  readonly deltas: readonly TableDelta[];
  /** Why our tables could not be read and were rebuilt; undefined if they could be read. */
  readonly unreadable: string | undefined;
  /** The transactions that were sent, in order. */
  readonly applied: readonly AppliedTransaction[];
}

/** Options of a full sync. */
export interface FullSyncOptions {
  /** The state that the desired tables belong to: it adopts ids and numbers from the kernel. */
  readonly state?: RulesetState;
  /** The kernel has had this state before: see {@link adoptNumbers}. */
  readonly keepsIds?: boolean;
  /** Completes the desired tables from the kernel's before the comparison. */
  readonly adopt?: ((kernel: Ruleset) => Promise<void>) | undefined;
  /** Maximum number of elements in one transaction of several. */
  readonly chunkSize?: number | undefined;
}

/**
 * Compares our tables in the kernel with the desired ruleset and repairs differences. Everything else is
 * kept: connections, session affinity, and the indexes of endpoints. Tables that cannot be read are rebuilt.
 * @throws as {@link applyDeltas}; AppError NFT_FAILED if the kernel has no tables afterwards
 */
export async function fullSync(
  nft: Nft,
  tables: TableReader,
  desired: Ruleset,
  options: FullSyncOptions = {},
): Promise<FullSyncReport> {
  const commitsBefore = nft.commits;
  const report = await repair(nft, tables, desired, options);
  if (nft.commits > commitsBefore) await requireTables(nft, Object.keys(desired) as Family[]);
  return report;
}

async function repair(
  nft: Nft,
  tables: TableReader,
  desired: Ruleset,
  { state, keepsIds, adopt, chunkSize }: FullSyncOptions,
): Promise<FullSyncReport> {
  const kernel = await readKernel(tables, Object.keys(desired) as Family[]);
  if (kernel.kind === "unreadable") {
    return { deltas: [], unreadable: kernel.reason, applied: await rebuild(nft, tables, desired) };
  }
  await adopt?.(kernel.ruleset);
  const deltas =
    state === undefined
      ? diffRuleset(kernel.ruleset, desired)
      : adoptNumbers(state, kernel.ruleset, { keepsIds, desired });
  return { deltas, unreadable: undefined, applied: await applyDeltas(nft, tables, deltas, { chunkSize }) };
}

/**
 * An nft that answers 0 and does nothing has programmed nothing. One that cannot list proves nothing.
 * @throws AppError NFT_FAILED
 */
async function requireTables(nft: Nft, families: readonly Family[]): Promise<void> {
  const names = await tableNames(nft).catch(() => undefined);
  if (names === undefined) return;
  const missing = families.filter((family) => !names.has(`${family} ${TABLE_NAME}`));
  if (missing.length === 0) return;
  throw new AppError(
    "NFT_FAILED",
    `nft at "${nft.path}" reports success, but the kernel has no table ${missing[0]} ${TABLE_NAME}`,
    { hint: "another program deletes it, or --nft-path is a wrapper that does not pass on its input" },
  );
}
