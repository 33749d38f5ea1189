import { AppError } from "../base/errors.ts";
import type { Transaction } from "../nft/ast/json.ts";
import { TABLE_NAME } from "../nft/ast/ruleset.ts";
import type { Nft } from "./nft.ts";
import { NftRefusedError } from "./nft-errors.ts";
import { nftVersion } from "./nft-listings.ts";

/** A feature of nft and the kernel that transactions need, and a transaction that fails without it. */
export interface ProbedFeature {
  readonly name: string;
  readonly hint: string;
  readonly transaction: Transaction;
}

const UPGRADE = "use nft 1.1.3 or newer, or set --nft-path to another program";

/**
 * Checks that nft and the kernel have all required features, by test transactions that change nothing. Does
 * not compare versions, because distributions backport and nft may be built without JSON.
 * @param whole needs all features, so that one check is enough if none is missing
 * @throws AppError NFT_FEATURE that names the missing features; as {@link Nft.check} does if nft cannot work
 * at all
 */
export async function probeFeatures(
  nft: Nft,
  { whole, features }: { readonly whole: Transaction; readonly features: readonly ProbedFeature[] },
): Promise<void> {
  const refusal = await refusalOf(nft, whole);
  if (refusal === undefined) return;
  if (/JSON support not compiled-in/i.test(refusal)) {
    throw new AppError("NFT_FEATURE", `nft at "${nft.path}" was built without JSON`, {
      hint: UPGRADE,
      evidence: { version: await nftVersion(nft) },
    });
  }
  const missing: ProbedFeature[] = [];
  for (const feature of features)
    if ((await refusalOf(nft, feature.transaction)) !== undefined) missing.push(feature);
  const names = missing.map((feature) => feature.name);
  throw new AppError(
    "NFT_FEATURE",
    `nft at "${nft.path}" or this kernel lacks: ${names.join("; ") || "a feature"}`,
    {
      hint: [...new Set(missing.map((feature) => feature.hint))].join("; ") || UPGRADE,
      evidence: { version: await nftVersion(nft), stderr: refusal },
    },
  );
}

/** The kernel refuses it: there is no such chain. */
const NONSENSE: Transaction = {
  nftables: [{ delete: { chain: { family: "ip", table: TABLE_NAME, name: "no-such-chain" } } }],
};

/**
 * As {@link probeFeatures}, for the features that all rules need. Also checks that nft asks the kernel at
 * all: a wrapper or a stub that answers 0 to everything would seem to have every feature, and to program all
 * rules.
 */
export async function probeNft(nft: Nft, required: Parameters<typeof probeFeatures>[1]): Promise<void> {
  const [, acceptsNonsense] = await Promise.all([probeFeatures(nft, required), accepts(nft, NONSENSE)]);
  if (!acceptsNonsense) return;
  throw new AppError(
    "NFT_FEATURE",
    `nft at "${nft.path}" does nothing: it accepts the deletion of a chain that does not exist`,
    { hint: "set --nft-path to nft itself; a wrapper must pass on nft's input, output and exit code" },
  );
}

/**
 * Checks for optional features.
 * @returns the error that names the missing ones; undefined if there are none
 * @throws as {@link probeFeatures} if nft cannot work at all
 */
export async function missingFeatures(
  nft: Nft,
  features: Parameters<typeof probeFeatures>[1],
): Promise<AppError | undefined> {
  try {
    await probeFeatures(nft, features);
    return undefined;
  } catch (error) {
    if (error instanceof AppError && error.code === "NFT_FEATURE") return error;
    throw error;
  }
}

/** Whether nft and the kernel accept a transaction. Changes nothing. @throws as {@link probeFeatures} */
export async function accepts(nft: Nft, transaction: Transaction): Promise<boolean> {
  return (await refusalOf(nft, transaction)) === undefined;
}

async function refusalOf(nft: Nft, transaction: Transaction): Promise<string | undefined> {
  try {
    await nft.check(transaction);
    return undefined;
  } catch (error) {
    if (error instanceof NftRefusedError) return error.stderr;
    if (error instanceof AppError && error.code === "NFT_FEATURE") return error.message;
    throw error;
  }
}
